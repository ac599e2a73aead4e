"""Schedules of Population Based Augmentation: known answers, the published files, and
files that are refused.

The published files are no part of hba. With HBA_DATA set to a folder that holds
pba-schedules/rcifar10_16_wrn.txt and pba-schedules/rsvhn_16_wrn.txt (from
github.com/arcelien/pba, schedules/), the tests that need them run.
"""

import itertools
import json
import os
from pathlib import Path

import numpy as np
import pytest

import hba
from hba.errors import ScheduleError
from hba.importers.pba import natural_values, pba_segments
from hba.policy.spaces import SPACES
from hba.schedule.schedule import Schedule

ORDER = (
    "Rotate", "TranslateX", "TranslateY", "Brightness", "Color", "Invert", "Sharpness",
    "Posterize", "ShearX", "Solarize", "ShearY", "Equalize", "AutoContrast", "Cutout",
    "Contrast",
)  # fmt: skip
"""The order in PBA's files: that of a dictionary of these names in Python 2, where PBA
was written.
"""

PIXELS = [pixels / 32 for pixels in range(11)]
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
    "Cutout": [2 * share for share in PIXELS],
    "Contrast": ENHANCER,
}
"""Natural units at levels 0 to 10; the other three operations have no magnitude."""

Pairs = dict[str, tuple[int, int]]
Vector = list[int]


def vector(first: Pairs | None = None, second: Pairs | None = None) -> Vector:
    """60 numbers, 0 but for those of the operations named: (probability in tenths,
    level) of each copy.
    """
    copies = (first or {}, second or {})
    return [
        number for copy in copies for name in ORDER for number in copy.get(name, (0, 0))
    ]


FIRST = vector(
    {"Rotate": (3, 10), "Invert": (2, 7)}, {"Rotate": (4, 1), "Contrast": (10, 10)}
)
SECOND = vector(
    {"Posterize": (5, 6), "ShearY": (1, 7)}, {"TranslateX": (6, 9), "Solarize": (7, 3)}
)
SKIPPED = vector({"Equalize": (10, 10)})
LAST = vector(
    {"Cutout": (9, 9), "Color": (8, 5)}, {"TranslateY": (1, 1), "AutoContrast": (5, 3)}
)
UNUSED = vector({"Sharpness": (10, 10)}, {"Sharpness": (10, 10)})

LOG = "\n".join(
    [
        repr(["7", "5", 9, 9, UNUSED, UNUSED]),
        repr(
            ["3", "7", 2, 2, UNUSED, UNUSED]
        ),  # Nobody clones 3: the lines up to here do not count.
        repr(["2", "1", 3, 4, FIRST, SECOND]),
        "",
        json.dumps(
            [
                "0",
                "2",
                7,
                6,
                {"hp_policy": UNUSED, "no_cutout": False},
                {"hp_policy": SKIPPED, "lr": None},
            ]
        ),
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


def read_pba_schedule(
    path: Path, epochs: int, fill: tuple[float, ...] | None = None
) -> Schedule:
    return hba.import_policy("pba", path, epochs=epochs, fill=fill)


def cell(schedule: Schedule, epoch: int, column: str) -> float:
    return float(schedule.values[epoch][schedule.space.names.index(column)])


def test_the_segments_of_a_log_are_the_line_of_descent_of_its_last_trial() -> None:
    expected = [
        (4, tuple(FIRST)),
        (2, tuple(SECOND)),
        (0, tuple(SKIPPED)),
        (5, tuple(LAST)),
    ]
    assert pba_segments(LOG, 11) == expected
    lines = [
        ["1", "0", 1, 1, FIRST, SECOND],
        ["1", "1", 2, 2, SECOND, SKIPPED],
        ["2", "1", 3, 3, SKIPPED, LAST],
    ]
    text = "\n".join(map(repr, lines))
    assert [n_epochs for n_epochs, _ in pba_segments(text, 10)] == [
        1,
        1,
        1,
        7,
    ], "a trial may clone itself"


def test_a_log_gives_the_values_worked_out_by_hand(tmp_path: Path) -> None:
    schedule = read_pba_schedule(written(LOG, tmp_path), 11)
    assert schedule.epochs == 11
    assert schedule.space == SPACES["pba"]
    assert schedule.fill == (125 / 255, 122 / 255, 113 / 255)
    origin = schedule.provenance
    assert (origin["algorithm"], origin["file"], origin["segments"]) == (
        "pba",
        "log.txt",
        [4, 2, 0, 5],
    )
    for epoch, column, value in [
        (0, "Rotate.1.probability", 0.3),
        (3, "Rotate.2.magnitude", 3.0),
        (3, "Contrast.2.magnitude", 1.9),
        (4, "Rotate.1.probability", 0.0),
        (5, "Posterize.1.magnitude", 2.0),  # 4 - int(2.4) bits
        (5, "TranslateX.2.magnitude", 0.28125),  # 9 of 32 pixels
        (5, "Solarize.2.magnitude", 180.0),  # 256 - int(76.8)
        (6, "Cutout.1.magnitude", 0.5625),  # 18 of 32 pixels
        (10, "AutoContrast.2.probability", 0.5),
    ]:
        assert cell(schedule, epoch, column) == value, (epoch, column)
    for column in (
        "Equalize.1.probability",
        "Sharpness.1.probability",
        "Sharpness.2.probability",
    ):
        assert all(cell(schedule, epoch, column) == 0 for epoch in range(11)), column


def test_each_level_of_each_operation_has_the_natural_magnitude_of_pba() -> None:
    for level, copy in itertools.product(range(11), (1, 2)):
        pairs = {name: (10 - level, level) for name in ORDER}
        expected: dict[str, float] = {}
        for name, of_copy in itertools.product(ORDER, (1, 2)):
            expected[f"{name}.{of_copy}.probability"] = (
                (10 - level) / 10 if of_copy == copy else 0
            )
            if name in MAGNITUDES:
                expected[f"{name}.{of_copy}.magnitude"] = MAGNITUDES[name][
                    level if of_copy == copy else 0
                ]
        assert (
            natural_values(tuple(vector(pairs) if copy == 1 else vector(None, pairs)))
            == expected
        )


def test_the_published_schedules_have_their_known_segments_and_values() -> None:
    schedule = read_pba_schedule(published("rcifar10_16_wrn.txt"), 200)
    assert schedule.provenance["segments"] == [
        12,
        22,
        20,
        20,
        1,
        6,
        3,
        27,
        6,
        21,
        6,
        9,
        7,
        17,
        6,
        12,
        5,
    ]
    for column, value in {
        "Rotate.1.magnitude": 9.0,
        "TranslateX.1.probability": 0.3,
        "TranslateX.1.magnitude": 7 / 32,
        "Solarize.1.magnitude": 205.0,
        "Contrast.1.magnitude": 0.28,
        "Color.2.magnitude": 1.18,
        "Solarize.2.probability": 0.6,
        "Solarize.2.magnitude": 256.0,
        "Cutout.2.magnitude": 2 / 32,
    }.items():
        assert cell(schedule, 12, column) == cell(schedule, 33, column) == value, column
    other = read_pba_schedule(published("rsvhn_16_wrn.txt"), 160)
    assert other.provenance["segments"] == [
        9,
        15,
        6,
        8,
        7,
        24,
        6,
        25,
        4,
        4,
        39,
        6,
        6,
        1,
    ]
    for any_schedule in (schedule, other):
        changes = (any_schedule.values[1:] != any_schedule.values[:-1]).any(axis=1)
        assert [*np.flatnonzero(changes) + 1, any_schedule.epochs] == np.cumsum(
            any_schedule.provenance["segments"]
        ).tolist()


def test_what_is_no_such_log_is_refused_in_one_line(tmp_path: Path) -> None:
    good = repr(["1", "0", 3, 2, FIRST, LAST])
    wrong = [
        ("", "needs a line"),
        (good + "\n\n" + good[:-1], "line 3"),
        ("__import__('os')", "line 1"),
        ("[" * 100_000, "line 1"),
        (repr([1, 2]), "line 1"),
        (repr(["1", "0", 3, 2.5, FIRST, LAST]), "2.5"),
        (repr(["1", "0", 3, 2, {"policy": LAST}, LAST]), "hp_policy"),
        (repr(["1", "0", 3, 2, FIRST[:-1], LAST]), "60"),
        (repr(["1", "0", 3, 2, FIRST, [*LAST[:-1], 11]]), "10, got 11"),
        (repr(["1", "0", 3, 9, FIRST, LAST]), r"\[9\]"),
    ]
    for text, named in wrong:
        with pytest.raises(ScheduleError, match=named) as raised:
            read_pba_schedule(written(text, tmp_path), 7)
        assert "log.txt cannot be read as a PBA schedule: " in str(raised.value)
        assert "\n" not in str(raised.value)
