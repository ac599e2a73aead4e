"""Schedules of Population Based Augmentation: known answers, the published files, and files that are refused.

The published files are no part of hba. With HBA_DATA set to a folder that holds pba-schedules/rcifar10_16_wrn.txt and
pba-schedules/rsvhn_16_wrn.txt (from github.com/arcelien/pba, schedules/), the tests that need them run.
"""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hba.errors import ScheduleError
from hba.importers.pba import natural_values, pba_segments, read_pba_schedule
from hba.policy.spaces import SPACES
from hba.schedule.schedule import Schedule

ORDER = (
    "Rotate", "TranslateX", "TranslateY", "Brightness", "Color", "Invert", "Sharpness", "Posterize", "ShearX",
    "Solarize", "ShearY", "Equalize", "AutoContrast", "Cutout", "Contrast",
)  # fmt: skip
"""The order in PBA's files: that of a dictionary of these names in Python 2, where PBA was written."""

PIXELS = [0, 1 / 32, 2 / 32, 3 / 32, 4 / 32, 5 / 32, 6 / 32, 7 / 32, 8 / 32, 9 / 32, 10 / 32]
ENHANCER = [0.1, 0.28, 0.46, 0.64, 0.82, 1.0, 1.18, 1.36, 1.54, 1.72, 1.9]
SHEAR = [0, 0.03, 0.06, 0.09, 0.12, 0.15, 0.18, 0.21, 0.24, 0.27, 0.3]
MAGNITUDES: dict[str, list[float]] = {
    "Rotate": [0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30],
    "TranslateX": PIXELS,
    "TranslateY": PIXELS,
    "Brightness": ENHANCER,
    "Color": ENHANCER,
    "Sharpness": ENHANCER,
    "Posterize": [4, 4, 4, 3, 3, 2, 2, 2, 1, 1, 0],
    "ShearX": SHEAR,
    "Solarize": [256, 231, 205, 180, 154, 128, 103, 77, 52, 26, 0],
    "ShearY": SHEAR,
    "Cutout": [0, 2 / 32, 4 / 32, 6 / 32, 8 / 32, 10 / 32, 12 / 32, 14 / 32, 16 / 32, 18 / 32, 20 / 32],
    "Contrast": ENHANCER,
}
"""Natural units at levels 0 to 10; the other three operations have no magnitude."""

Pairs = dict[str, tuple[int, int]]
Vector = list[int]


def vector(first: Pairs | None = None, second: Pairs | None = None) -> Vector:
    """60 numbers, 0 but for those of the operations named: (probability in tenths, level) of each copy."""
    copies = (first or {}, second or {})
    return [number for copy in copies for name in ORDER for number in copy.get(name, (0, 0))]


FIRST = vector({"Rotate": (3, 10), "Invert": (2, 7)}, {"Rotate": (4, 1), "Contrast": (10, 10)})
SECOND = vector({"Posterize": (5, 6), "ShearY": (1, 7)}, {"TranslateX": (6, 9), "Solarize": (7, 3)})
SKIPPED = vector({"Equalize": (10, 10)})
LAST = vector({"Cutout": (9, 9), "Color": (8, 5)}, {"TranslateY": (1, 1), "AutoContrast": (5, 3)})
UNUSED = vector({"Sharpness": (10, 10)}, {"Sharpness": (10, 10)})

LOG = "\n".join(
    [
        repr(["7", "5", 9, 9, UNUSED, UNUSED]),
        repr(["3", "7", 2, 2, UNUSED, UNUSED]),  # Nobody clones 3: the lines up to here do not count.
        repr(["2", "1", 3, 4, FIRST, SECOND]),
        "",
        json.dumps(["0", "2", 7, 6, {"hp_policy": UNUSED, "no_cutout": False}, {"hp_policy": SKIPPED, "lr": None}]),
        repr(["2", "0", 5, 6, UNUSED, {"hp_policy": LAST, "no_cutout": True}]) + "\n",
    ]
)
"""FIRST for 4 epochs, SECOND for 2, SKIPPED for none, LAST to the end."""


def written(text: str, folder: Path) -> Path:
    path = folder / "log.txt"
    path.write_text(text, encoding="utf-8")
    return path


def published(name: str) -> Path:
    folder = os.environ.get("HBA_DATA")
    if not folder:
        pytest.skip("HBA_DATA is not set: the folder that holds pba-schedules")
    path = Path(folder) / "pba-schedules" / name
    if not path.is_file():
        pytest.skip(f"there is no {path}")
    return path


def cell(schedule: Schedule, epoch: int, column: str) -> float:
    return float(schedule.values[epoch][schedule.space.names.index(column)])


def test_the_segments_of_a_log_are_the_line_of_descent_of_its_last_trial() -> None:
    expected = [(4, tuple(FIRST)), (2, tuple(SECOND)), (0, tuple(SKIPPED)), (5, tuple(LAST))]
    assert list(pba_segments(LOG, 11)) == expected


def test_a_log_gives_the_values_worked_out_by_hand(tmp_path: Path) -> None:
    schedule = read_pba_schedule(written(LOG, tmp_path), 11)
    assert schedule.epochs == 11
    assert schedule.space == SPACES["pba"]
    assert schedule.fill == (125 / 255, 122 / 255, 113 / 255)
    for epoch, column, value in [
        (0, "Rotate.1.probability", 0.3),
        (3, "Rotate.1.magnitude", 30.0),
        (3, "Rotate.2.probability", 0.4),
        (3, "Rotate.2.magnitude", 3.0),
        (3, "Invert.1.probability", 0.2),
        (3, "Invert.2.probability", 0.0),
        (3, "Contrast.2.probability", 1.0),
        (3, "Contrast.2.magnitude", 1.9),
        (3, "Contrast.1.magnitude", 0.1),
        (4, "Rotate.1.probability", 0.0),
        (4, "Posterize.1.probability", 0.5),
        (5, "Posterize.1.magnitude", 2.0),  # 4 - int(2.4) bits
        (5, "ShearY.1.magnitude", 0.21),
        (5, "TranslateX.2.magnitude", 0.28125),  # 9 of 32 pixels
        (5, "Solarize.2.probability", 0.7),
        (5, "Solarize.2.magnitude", 180.0),  # 256 - int(76.8)
        (5, "Solarize.1.magnitude", 256.0),
        (6, "Solarize.2.probability", 0.0),
        (6, "Cutout.1.probability", 0.9),
        (6, "Cutout.1.magnitude", 0.5625),  # 18 of 32 pixels
        (10, "Color.1.magnitude", 1.0),
        (10, "TranslateY.2.magnitude", 0.03125),
        (10, "AutoContrast.2.probability", 0.5),
    ]:
        assert cell(schedule, epoch, column) == value, (epoch, column)
    for column in ("Equalize.1.probability", "Sharpness.1.probability", "Sharpness.2.probability"):
        assert all(cell(schedule, epoch, column) == 0 for epoch in range(11)), column


def test_the_schedule_says_where_it_comes_from(tmp_path: Path) -> None:
    origin = read_pba_schedule(written(LOG, tmp_path), 11).provenance
    assert (origin["algorithm"], origin["file"], origin["segments"]) == ("pba", "log.txt", [4, 2, 0, 5])
    assert "Posterize" in origin["note"]


def test_a_saved_schedule_is_read_back_to_the_last_bit(tmp_path: Path) -> None:
    schedule = read_pba_schedule(written(LOG, tmp_path), 11, (0.25, 0.5, 1.0))
    schedule.save(tmp_path / "a.json")
    again = Schedule.load(tmp_path / "a.json")
    np.testing.assert_array_equal(again.values, schedule.values)
    assert (again.space, again.fill) == (SPACES["pba"], (0.25, 0.5, 1.0))
    assert dict(again.provenance) == dict(schedule.provenance)


def test_a_log_of_one_line_has_two_segments() -> None:
    text = repr(["1", "0", 3, 2, FIRST, LAST])
    assert list(pba_segments(text, 7)) == [(2, tuple(FIRST)), (5, tuple(LAST))]
    assert [segment.n_epochs for segment in pba_segments(text, 2)] == [2, 0]


def test_a_trial_that_clones_itself_does_not_break_the_chain() -> None:
    lines = [["1", "0", 1, 1, FIRST, SECOND], ["1", "1", 2, 2, SECOND, SKIPPED], ["2", "1", 3, 3, SKIPPED, LAST]]
    text = "\n".join(map(repr, lines))
    assert [segment.n_epochs for segment in pba_segments(text, 10)] == [1, 1, 1, 7]


def test_trials_may_be_numbers_and_lines_may_end_as_on_windows(tmp_path: Path) -> None:
    lines = [[1, 0, 1, 1, FIRST, SECOND], [2, 1, 3, 3, SECOND, LAST]]
    (tmp_path / "log.txt").write_bytes("\r\n".join(map(repr, lines)).encode())
    assert read_pba_schedule(tmp_path / "log.txt", 5).provenance["segments"] == [1, 2, 2]


@pytest.mark.parametrize("level", range(11))
@pytest.mark.parametrize("copy", [1, 2])
def test_each_level_of_each_operation_has_the_natural_magnitude_of_pba(level: int, copy: int) -> None:
    pairs = {name: (10 - level, level) for name in ORDER}
    values = natural_values(tuple(vector(pairs) if copy == 1 else vector(None, pairs)))
    assert set(values) == set(SPACES["pba"].names)
    for name in ORDER:
        assert values[f"{name}.{copy}.probability"] == (10 - level) / 10
        assert values[f"{name}.{3 - copy}.probability"] == 0
        if name in MAGNITUDES:
            assert values[f"{name}.{copy}.magnitude"] == MAGNITUDES[name][level], name
            assert values[f"{name}.{3 - copy}.magnitude"] == MAGNITUDES[name][0], name


def test_only_operations_without_magnitude_have_none() -> None:
    assert set(ORDER) - set(MAGNITUDES) == {"Invert", "Equalize", "AutoContrast"}
    assert {name.split(".")[0] for name in SPACES["pba"].names if name.endswith("magnitude")} == set(MAGNITUDES)


VECTORS = st.lists(st.integers(0, 10), min_size=60, max_size=60)


@settings(max_examples=40, deadline=None)
@given(
    first=VECTORS,
    others=st.lists(st.tuples(st.integers(0, 9), VECTORS, st.booleans()), min_size=1, max_size=6),
    first_length=st.integers(0, 9),
    n_cut_off=st.integers(0, 2),
)
def test_any_chain_becomes_its_policies_each_for_its_epochs(
    first: Vector, others: list[tuple[int, Vector, bool]], first_length: int, n_cut_off: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:  # fmt: skip
    lines = [repr(["nobody's", "x", 50, 50, UNUSED, UNUSED])] * n_cut_off
    epoch = first_length
    for number, (length, policy, as_json) in enumerate(others):
        entries: list[Any] = [str(number + 1), str(number), epoch + 3, epoch, first if number == 0 else UNUSED, policy]
        lines.append(json.dumps([*entries[:4], {"hp_policy": entries[4]}, {"hp_policy": policy}]) if as_json
                     else repr(entries))  # fmt: skip
        epoch += length
    epochs = max(1, epoch)
    lengths = [first_length, *(length for length, _, _ in others)]
    lengths[-1] += epochs - epoch
    schedule = read_pba_schedule(written("\n".join(lines), tmp_path_factory.mktemp("log")), epochs)
    assert schedule.provenance["segments"] == lengths
    assert sum(lengths) == schedule.epochs == epochs
    low, high = np.sort(np.array(schedule.space.ranges), axis=1).T
    assert ((schedule.values >= low) & (schedule.values <= high)).all()
    policies = [first, *(policy for _, policy, _ in others)]
    in_use = [policy for policy, length in zip(policies, lengths, strict=True) for _ in range(length)]
    for row, numbers in zip(schedule.values, in_use, strict=True):
        values = dict(zip(schedule.space.names, row.tolist(), strict=True))
        for slot in range(30):
            name, place = ORDER[slot % 15], f"{ORDER[slot % 15]}.{1 + slot // 15}"
            assert values[f"{place}.probability"] == pytest.approx(0.1 * numbers[2 * slot])
            if name in MAGNITUDES:
                assert values[f"{place}.magnitude"] == MAGNITUDES[name][numbers[2 * slot + 1]]


def test_the_published_schedule_of_cifar10_has_its_known_segments_and_values() -> None:
    schedule = read_pba_schedule(published("rcifar10_16_wrn.txt"), 200)
    assert schedule.provenance["segments"] == [12, 22, 20, 20, 1, 6, 3, 27, 6, 21, 6, 9, 7, 17, 6, 12, 5]
    assert schedule.values.shape == (200, 54)
    for column in schedule.space.names:
        name, _, quantity = column.split(".")
        # All numbers of PBA start at 0.
        assert cell(schedule, 11, column) == (0 if quantity == "probability" else MAGNITUDES[name][0]), column
    for column, value in {
        "Rotate.1.probability": 0.0, "Rotate.1.magnitude": 9.0,
        "TranslateX.1.probability": 0.3, "TranslateX.1.magnitude": 7 / 32,
        "TranslateY.1.probability": 0.1, "TranslateY.1.magnitude": 9 / 32,
        "Invert.1.probability": 0.0, "Solarize.1.magnitude": 205.0, "ShearY.1.magnitude": 0.06,
        "Contrast.1.probability": 0.3, "Contrast.1.magnitude": 0.28,
        "Color.2.probability": 0.0, "Color.2.magnitude": 1.18,
        "Solarize.2.probability": 0.6, "Solarize.2.magnitude": 256.0,
        "Cutout.2.probability": 0.3, "Cutout.2.magnitude": 2 / 32,
    }.items():  # fmt: skip
        assert cell(schedule, 12, column) == cell(schedule, 33, column) == value, column
    assert (schedule.values[33] != schedule.values[34]).any()


def test_the_published_schedule_of_svhn_has_its_known_segments() -> None:
    schedule = read_pba_schedule(published("rsvhn_16_wrn.txt"), 160)
    assert schedule.provenance["segments"] == [9, 15, 6, 8, 7, 24, 6, 25, 4, 4, 39, 6, 6, 1]
    assert schedule.values.shape == (160, 54)


@pytest.mark.parametrize(("name", "epochs"), [("rcifar10_16_wrn.txt", 200), ("rsvhn_16_wrn.txt", 160)])
def test_a_published_schedule_changes_exactly_between_its_segments(name: str, epochs: int) -> None:
    schedule = read_pba_schedule(published(name), epochs)
    changes = (schedule.values[1:] != schedule.values[:-1]).any(axis=1)
    assert [*np.flatnonzero(changes) + 1, epochs] == np.cumsum(schedule.provenance["segments"]).tolist()


GOOD: list[Any] = ["1", "0", 3, 2, FIRST, LAST]


def changed(**entries: Any) -> str:
    """A good line with other entries: trial, cloned, epoch, cloned_epoch, old, new."""
    names = ("trial", "cloned", "epoch", "cloned_epoch", "old", "new")
    return repr([entries.get(name, value) for name, value in zip(names, GOOD, strict=True)])


EPOCH_RULE = "the epoch of the cloned trial must be a whole number from 0, got "
NUMBERS_RULE = "the new policy must be whole numbers in [0, 10], got "


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it must have at least one line, but is empty"),
        ("\n  \n", "it must have at least one line, but is empty"),
        ("Rotate 0.5", "line 1: must be a list in JSON or Python, got 'Rotate 0.5'"),
        (changed() + "\n\n" + changed()[:-1], "line 3: must be a list in JSON or Python, got "),
        ("__import__('os')", "line 1: must be a list in JSON or Python, got "),
        ("[" * 100_000, "line 1: must be a list in JSON or Python, got "),
        ('{"a": 1}', "line 1: must be a list of 6: "),
        (repr(GOOD[:5]), "line 1: must be a list of 6: trial, cloned trial, epoch of the trial, epoch of the cloned "),
        (repr([*GOOD, 1]), "line 1: must be a list of 6: "),
        (changed(trial=None), "line 1: the trial must be a name or a number, got None"),
        (changed(cloned=[1]), "line 1: the cloned trial must be a name or a number, got [1]"),
        (changed(epoch=1.5), "line 1: the epoch of the trial must be a whole number from 0, got 1.5"),
        (changed(cloned_epoch="2"), f"line 1: {EPOCH_RULE}'2'"),
        (changed(cloned_epoch=-1), f"line 1: {EPOCH_RULE}-1"),
        (changed(cloned_epoch=True), f"line 1: {EPOCH_RULE}True"),
        (changed(old="none"), "line 1: the old policy must be a list, or a mapping with a list as hp_policy"),
        (changed(new={"policy": LAST}), "line 1: the new policy must be a list, or a mapping with a list as hp_policy"),
        (changed(old=FIRST[:-1]), "line 1: the old policy must have 60 numbers, got 59"),
        (changed(new={"hp_policy": [*LAST, 0]}), "line 1: the new policy must have 60 numbers, got 61"),
        (changed(new=[*LAST[:-1], 11]), f"line 1: {NUMBERS_RULE}11 as number 60"),
        (changed(new=[-1, *LAST[1:]]), f"line 1: {NUMBERS_RULE}-1 as number 1"),
        (changed(new=[0, 2.5, *LAST[2:]]), f"line 1: {NUMBERS_RULE}2.5 as number 2"),
        (changed(new=[False, *LAST[1:]]), f"line 1: {NUMBERS_RULE}False as number 1"),
        (
            changed() + "\n\n" + changed(trial="2", cloned="1", cloned_epoch=1),
            "line 3: the epoch of the cloned trial must not be less than the 2 of line 1, got 1",
        ),
        (
            changed() + "\n" + changed(trial="2", cloned="1", cloned_epoch=10),
            "line 2: the last clone is of epoch 10, so epochs must be at least 10, got 9",
        ),
        (changed(new=LAST[:-1]) + "\n" + changed(), "line 1: the new policy must have 60 numbers, got 59"),
    ],
)
def test_a_file_that_is_no_log_is_refused_by_its_line(text: str, message: str, tmp_path: Path) -> None:
    path = written(text, tmp_path)
    with pytest.raises(ScheduleError) as raised:
        read_pba_schedule(path, 9)
    assert str(raised.value).startswith(f"{path} is not a valid PBA schedule: {message}")
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 500


@pytest.mark.parametrize("epochs", [0, -3])
def test_a_schedule_has_at_least_one_epoch(epochs: int) -> None:
    with pytest.raises(ScheduleError, match=rf"^line 1: .* epochs must be at least 1, got {epochs}$"):
        pba_segments(changed(cloned_epoch=0), epochs)


def test_a_file_that_cannot_be_read_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ScheduleError, match=r"^no PBA schedule file .*nowhere\.txt$"):
        read_pba_schedule(tmp_path / "nowhere.txt", 9)
    with pytest.raises(ScheduleError, match=r" cannot be read as a PBA schedule: "):
        read_pba_schedule(tmp_path, 9)
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(ScheduleError, match=r"binary\.txt cannot be read as a PBA schedule: "):
        read_pba_schedule(tmp_path / "binary.txt", 9)


def test_a_fill_outside_its_range_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ScheduleError, match="fill must be numbers in"):
        read_pba_schedule(written(LOG, tmp_path), 11, (0.5, 1.5, 0.5))
