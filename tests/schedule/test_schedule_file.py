"""The schedule file: what is written can be read, old files stay readable, and broken ones are refused in one line."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hba.errors import RunError, ScheduleError
from hba.operations import OPERATIONS
from hba.policy.space import SearchSpace
from hba.schedule.file import parse
from hba.schedule.schedule import Schedule

GOLDEN = Path(__file__).parents[1] / "golden" / "schedule-v1.json"
SMALL_SPACE = SearchSpace((OPERATIONS["Rotate"], OPERATIONS["Invert"]), copies=1)

Content = dict[str, Any]


def golden_content() -> Content:
    content: Content = json.loads(GOLDEN.read_text(encoding="utf-8"))
    return content


def refusal_of(text: str, folder: Path) -> str:
    """The one line, short enough to read, with which a file of that text is refused."""
    path = folder / "a.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ScheduleError) as raised:
        Schedule.load(path)
    place, message = str(raised.value).split(": ", maxsplit=1)
    assert place == f"{path} is not a valid schedule"
    assert "\n" not in message
    assert len(message) < 500
    return message


def random_schedule(space: SearchSpace, epochs: int, **others: Any) -> Schedule:
    low, high = np.array(space.ranges).T
    return Schedule(space, low + (high - low) * np.random.default_rng(0).random((epochs, space.n)), **others)


def test_the_golden_file_of_version_1_loads_with_its_values_for_ever() -> None:
    schedule = Schedule.load(GOLDEN)
    assert [operation.name for operation in schedule.space.operations] == ["Rotate", "Invert"]
    assert schedule.space.copies == 1
    assert schedule.space.count_probabilities == (0.2, 0.3, 0.5)
    assert schedule.fill == (0.25, 0.5, 0.75)
    assert schedule.epochs == 3
    assert not schedule.spread.any()
    assert not schedule.space.searches_count
    np.testing.assert_array_equal(schedule.values, [[0.05, 1.5, 0.05], [0.125, 12, 1], [1.0, 30.0, 0.0]])
    assert dict(schedule.provenance) == {
        "algorithm": "hba",
        "dataset": "a folder, with ümlaut",
        "val_loss": None,
        "settings": {"epochs": 3, "sharing": [1, 2.5, "x"]},
    }


def test_a_schedule_of_version_1_is_written_as_one_of_version_2_without_a_spread(tmp_path: Path) -> None:
    Schedule.load(GOLDEN).save(tmp_path / "again.json")
    content = golden_content()
    content |= {"version": 2, "spread": 0.0, "space": {**content["space"], "searches_count": False}}
    assert json.loads((tmp_path / "again.json").read_text(encoding="utf-8")) == content


@pytest.mark.parametrize(
    "space",
    [
        SearchSpace(),
        SMALL_SPACE,
        SearchSpace(tuple(OPERATIONS.values())[::-1], copies=3, count_probabilities=(0.1, 0.2, 0.3, 0.4)),
        SearchSpace((OPERATIONS["Cutout"],), copies=1, count_probabilities=(1.0,)),
    ],
)
@pytest.mark.parametrize("epochs", [1, 40])
def test_a_schedule_is_read_back_to_the_last_bit(space: SearchSpace, epochs: int, tmp_path: Path) -> None:
    provenance = {"dataset": 'quotes " and λ', "nested": {"list": [1, 2.5, None, True], "empty": {}}}
    schedule = random_schedule(space, epochs, fill=(1 / 3,), provenance=provenance)
    schedule.save(tmp_path / "a.json")
    loaded = Schedule.load(tmp_path / "a.json")
    np.testing.assert_array_equal(loaded.values, schedule.values)
    assert loaded.space == space
    assert loaded.fill == (1 / 3,)
    assert dict(loaded.provenance) == provenance


def test_the_ends_of_all_ranges_are_read_back(tmp_path: Path) -> None:
    ends = np.array(SearchSpace().ranges).T
    Schedule(SearchSpace(), ends).save(str(tmp_path / "a.json"))
    np.testing.assert_array_equal(Schedule.load(str(tmp_path / "a.json")).values, ends)


def test_ranges_are_the_file_s_own(tmp_path: Path) -> None:
    """Another version, or another user, may have searched in other ranges; the built-in table stays as it is."""
    content = golden_content()
    content["space"]["operations"][0]["magnitude_range"] = [5.0, 40.0]
    content["values"] = [[0.5, 5.0, 0.5], [0.5, 40.0, 0.5], [0.5, 31.0, 0.5]]
    schedule = Schedule(**parse(json.dumps(content))._asdict())
    assert schedule.space.ranges == ((0.0, 1.0), (5.0, 40.0), (0.0, 1.0))
    np.testing.assert_array_equal(schedule.values, content["values"])
    schedule.save(tmp_path / "a.json")
    assert Schedule.load(tmp_path / "a.json").space == schedule.space
    assert OPERATIONS["Rotate"].magnitude_range == (0.0, 30.0)


def test_a_class_name_that_is_no_unicode_text_can_be_read_back(tmp_path: Path) -> None:
    """Python stands lone surrogates for the bytes of a folder's name that are not UTF-8."""
    random_schedule(SMALL_SPACE, 2, provenance={"class_names": ["\udcff"]}).save(tmp_path / "a.json")
    assert Schedule.load(tmp_path / "a.json").epochs == 2


def test_the_file_has_one_line_per_epoch(tmp_path: Path) -> None:
    schedule = random_schedule(SMALL_SPACE, 5)
    schedule.save(tmp_path / "a.json")
    lines = [line.strip().rstrip(",") for line in (tmp_path / "a.json").read_text(encoding="utf-8").splitlines()]
    for row in schedule.values.tolist():
        assert lines.count(json.dumps(row)) == 1


def test_a_schedule_that_cannot_be_written_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    random_schedule(SMALL_SPACE, 2).save(path)
    before = path.read_bytes()
    with pytest.raises(TypeError):
        random_schedule(SMALL_SPACE, 3, provenance={"not JSON": object()}).save(path)
    assert path.read_bytes() == before
    (tmp_path / "folder").mkdir()
    with pytest.raises(RunError, match="cannot write"):
        random_schedule(SMALL_SPACE, 3).save(tmp_path / "folder")
    assert sorted(tmp_path.iterdir()) == [path, tmp_path / "folder"]


def at(*path: str | int, value: Any) -> Callable[[Content], None]:
    """Put a value at a place of the file."""

    def change(content: Any) -> None:
        for part in path[:-1]:
            content = content[part]
        content[path[-1]] = value

    return change


def without(*path: str | int) -> Callable[[Content], None]:
    def change(content: Any) -> None:
        for part in path[:-1]:
            content = content[part]
        del content[path[-1]]

    return change


FIRST = ("space", "operations", 0)
REPLACED: list[tuple[Callable[[Content], None], str]] = [
    (at("format", value="hba-policy"), 'the key "format" must be "hba-schedule"'),
    (without("format"), 'the key "format" must be "hba-schedule"'),
    (at("version", value=4), "version must be 1, 2 or 3, got 4; a newer hba may have written it"),
    (at("version", value=2), "space.searches_count is missing"),
    (at("version", value="1"), "version must be 1, 2 or 3, got '1'"),
    (at("version", value=True), "version"),
    (without("version"), "version must be 1, 2 or 3, got None"),
    (at("spread", value=0.5), "spread is not known here, got 0.5"),
    (at("space", "searches_count", value=False), "space.searches_count is not known here"),
    (without("epochs"), "epochs is missing"),
    (without("values"), "values is missing"),
    (without("provenance"), "provenance is missing"),
    (without("space", "copies"), "space.copies is missing"),
    (without(*FIRST, "signed"), "space.operations[0].signed is missing"),
    (at("comment", value="x"), "comment is not known here, got 'x'"),
    (at("space", "comment", value="x"), "space.comment is not known here, got 'x'"),
    (at(*FIRST, "comment", value="x"), "space.operations[0].comment is not known here, got 'x'"),
    (at("values", 1, value=[0.5, 12.0]), "values[1] must have 3 numbers, got 2"),
    (at("values", 1, value=[0.5, 12.0, 0.5, 0.5]), "values[1] must have 3 numbers, got 4"),
    (at("values", value=[]), "epochs is 3, but values has 0 rows"),
    (at("epochs", value=4), "epochs is 4, but values has 3 rows"),
    (at("epochs", value=3.5), "epochs must be a whole number, got 3.5"),
    (at("values", 2, 1, value=30.01), "values[2][1] (Rotate.1.magnitude) must lie in [0, 30], got 30.01"),
    (at("values", 0, 0, value=-1), "values[0][0] (Rotate.1.probability) must lie in [0, 1], got -1"),
    (at("values", 1, 2, value="0.5"), "values[1][2] must be a number, got '0.5'"),
    (at("values", 1, 2, value=None), "values[1][2] must be a number, got None"),
    (at("values", 1, value=7), "values[1] must be a list, got 7"),
    (at("fill", value=[]), "fill must be numbers in [0, 1]"),
    (at("fill", value=[0.5, 0.5, 1.5]), "fill must be numbers in [0, 1]"),
    (at("provenance", value=[]), "provenance must be a mapping"),
    (at("hyperparameters", 0, value="Rotate.2.probability"), "hyperparameters must be the space's 3 names"),
    (
        at("hyperparameters", value=["Rotate.1.magnitude", "Rotate.1.probability", "Invert.1.probability"]),
        "hyperparameters must be the space's 3 names in their order, Rotate.1.probability first",
    ),
    (without("hyperparameters", 2), "hyperparameters must be the space's 3 names in their order"),
    (at(*FIRST, "name", value="Swirl"), "unknown operation 'Swirl'; known: ShearX,"),
    (at(*FIRST, "magnitude_range", value=None), "space.operations[0] must be like"),
    (at("space", "operations", 1, "magnitude_range", value=[0.0, 1.0]), "space.operations[1] must be like"),
    (at(*FIRST, "magnitude_range", value=[0.0]), "space.operations[0].magnitude_range"),
    (at(*FIRST, "magnitude_range", value=[0.0, 20.0]), "values[2][1] (Rotate.1.magnitude) must lie in [0, 20]"),
    (at(*FIRST, "signed", value=False), "space.operations[0] must be like"),
    (at(*FIRST, "identity", value=1.0), "space.operations[0] must be like"),
    (at(*FIRST, "unit", value="radians"), "space.operations[0] must be like"),
    (at("space", "operations", value=[]), "operations must be at least one"),
    (at("space", "operations", 1, "name", value="Rotate"), "space.operations[1] must be like"),
    (at("space", "copies", value=0), "copies must be at least 1, got 0"),
    (at("space", "copies", value=2), "hyperparameters must be the space's 6 names"),
    (at("space", "count_probabilities", value=[0.5, 0.6]), "count_probabilities must be >= 0 and sum to 1"),
    (at("space", "count_probabilities", value=[]), "count_probabilities"),
    (at("space", "count_probabilities", value=[0, 0, 0, 1]), "allow 3 operations, but there are 2 slots"),
    (at("space", "operations", value=[json.loads(GOLDEN.read_text("utf-8"))["space"]["operations"][1]] * 2), "once"),
]


@pytest.mark.parametrize(("change", "message"), REPLACED, ids=[message[:50] for _, message in REPLACED])
def test_a_file_with_one_thing_wrong_is_refused_by_its_place(
    change: Callable[[Content], None], message: str, tmp_path: Path
) -> None:
    content = golden_content()
    change(content)
    assert message in refusal_of(json.dumps(content), tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (at(*FIRST, "name", value="Swirl"), "unknown operation 'Swirl'"),
        (at("space", "copies", value=0), "copies must be at least 1, got 0"),
    ],
)
def test_text_without_a_file_is_refused_as_a_schedule_too(change: Callable[[Content], None], message: str) -> None:
    content = golden_content()
    change(content)
    with pytest.raises(ScheduleError, match=message):
        parse(json.dumps(content))


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
@pytest.mark.parametrize(
    ("before", "after", "place"),
    [
        ("[0.125, 12, 1]", "[0.125, {}, 1]", "values[1][1]"),
        ("[0.25, 0.5, 0.75]", "[0.25, {}, 0.75]", "fill"),
        ("[0.2, 0.3, 0.5]", "[0.2, {}, 0.5]", "count_probabilities"),
        ("[0.0, 30.0]", "[0.0, {}]", "space.operations[0]"),
    ],
)
def test_numbers_that_are_not_finite_are_refused(
    number: str, before: str, after: str, place: str, tmp_path: Path
) -> None:
    text = GOLDEN.read_text(encoding="utf-8")
    assert text.count(before) == 1
    assert place in refusal_of(text.replace(before, after.format(number)), tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON (Expecting value in line 1)"),
        ("PK\x03\x04", "not JSON"),
        ('{\n "format": "hba-schedule",\n', "not JSON (Expecting property name enclosed in double quotes in line 3)"),
        ("[]", 'the key "format" must be "hba-schedule"'),
        ('"hba-schedule"', 'the key "format" must be "hba-schedule"'),
        ("null", 'the key "format" must be "hba-schedule"'),
        ("[" * 100_000, "not JSON"),
        ('{"format": "hba-schedule", "version": 1, "epochs": ' + "1" * 5000 + "}", ""),
    ],
    ids=["empty", "binary", "cut off", "list", "text", "null", "nested without end", "a number without end"],
)
def test_what_is_no_schedule_at_all_is_refused(text: str, message: str, tmp_path: Path) -> None:
    assert message in refusal_of(text, tmp_path)


def test_a_file_cut_off_anywhere_is_refused(tmp_path: Path) -> None:
    text = GOLDEN.read_text(encoding="utf-8").rstrip()
    for length in range(0, len(text), 37):
        assert "not JSON" in refusal_of(text[:length], tmp_path)


def test_files_that_cannot_be_read_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ScheduleError, match=r"no schedule file .*missing\.json"):
        Schedule.load(tmp_path / "missing.json")
    with pytest.raises(ScheduleError, match="cannot be read as a schedule"):
        Schedule.load(tmp_path)
    (tmp_path / "latin.json").write_bytes('{"format": "ü"}'.encode("latin-1"))
    with pytest.raises(ScheduleError, match=r"latin\.json cannot be read as a schedule"):
        Schedule.load(tmp_path / "latin.json")
