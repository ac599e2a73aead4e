"""The schedule file is read back as written; errors name the place in broken ones."""

import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from fuzzed import check_schedule, schedule_texts
from hypothesis import HealthCheck, given, settings
from own_operations import DARKEN, GAMMA, gamma
from tuned_schedules import alone, both, random_schedule, staged

import hba
from hba.errors import ScheduleError
from hba.operations import OPERATIONS, Operation, register_operation
from hba.policy.space import SearchSpace
from hba.policy.spaces import search_space
from hba.regularization.regularizer import Hyperparameter
from hba.schedule.file import json_schema, parse, reading
from hba.schedule.schedule import Schedule

GOLDEN = Path(__file__).parents[1] / "golden"
PAIR = (OPERATIONS["Rotate"], OPERATIONS["Invert"])
SMALL = SearchSpace(PAIR, copies=1)

Content = dict[str, Any]


def golden(name: str) -> Content:
    """A stored file: `count` searches K, `regularizers` has them, `stages` has other
    stages than the walk.
    """
    content: Content = json.loads(
        (GOLDEN / f"schedule-{name}.json").read_text(encoding="utf-8")
    )
    return content


def loaded(content: Content | str) -> Schedule:
    with reading(Path("policy.json")):
        return Schedule(
            **parse(content if isinstance(content, str) else json.dumps(content))
        )


def refusal_of(content: Content | str) -> str:
    """The one line with which such content is refused."""
    with pytest.raises(ScheduleError) as raised:
        loaded(content)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_golden_files_load_with_their_values_and_are_written_alike() -> None:
    count, tuned, stages = (
        Schedule.load(GOLDEN / f"schedule-{name}.json")
        for name in ("count", "regularizers", "stages")
    )
    assert count.space == SearchSpace(PAIR, 1, (0.2, 0.3, 0.5), searches_count=True)
    np.testing.assert_array_equal(
        count.values, [[0.05, 1.5, 0.05, 0.8, 0.625], [1.0, 30.0, 0.0, 0.9, 0.25]]
    )
    np.testing.assert_array_equal(
        count.spread, [[0.5, 1, 0.5, 0, 0], [0.25, 1.125, 0.5, 0, 0]]
    )
    assert count.fill == (0.25, 0.5, 0.75)
    assert dict(count.provenance) == golden("count")["provenance"]
    hyperparameters = (
        Hyperparameter("dropout.features.fc1", 0.0, 0.95, 0.05),
        Hyperparameter("weight_decay", 1e-6, 0.1, 5e-4, "log"),
    )
    assert tuned.space == SearchSpace(PAIR, 1, (0.2, 0.8), True, hyperparameters)
    np.testing.assert_array_equal(
        tuned.values,
        [[0.05, 1.5, 0.05, 0.8, 0.05, 5e-4], [1.0, 30.0, 0.0, 0.9, 0.3125, 1e-6]],
    )
    np.testing.assert_array_equal(tuned.spread, [[0, 0.5, 0, 0, 0, 0]] * 2)
    assert stages.space == staged().space
    np.testing.assert_array_equal(stages.values, staged().values)
    for name, schedule in (
        ("count", count),
        ("regularizers", tuned),
        ("stages", stages),
    ):
        assert json.loads(schedule.text()) == golden(name)


def test_schedules_are_read_back_to_the_last_bit(tmp_path: Path) -> None:
    provenance = {
        "dataset": 'quotes " and λ',
        "names": ["\udcff"],
        "nested": {"list": [1, 2.5, None, True], "x": {}},
    }
    spaces = [
        SearchSpace(),
        SMALL,
        SearchSpace(
            tuple(OPERATIONS.values())[::-1],
            copies=3,
            count_probabilities=(0.1, 0.2, 0.3, 0.4),
        ),
        SearchSpace((OPERATIONS["Cutout"],), copies=1, count_probabilities=(1.0,)),
        search_space("hba", ["Rotate", "Invert"], "bilinear"),
        SearchSpace(
            (OPERATIONS["Rotate"].with_range((30.0, 1.0)),),
            copies=1,
            count_probabilities=(0.5, 0.5),
        ),
    ]
    schedules = [
        random_schedule(space, 40, fill=(1 / 3,), provenance=provenance)
        for space in spaces
    ]
    schedules += [Schedule(space, np.array(space.ranges).T) for space in spaces]
    spreads = (0.1, [[1 / 3, 1e300, 0.0, 0, 0, 0, 0]] * 3, [[0.1], [0.2], [3]])
    for schedule in (*schedules, *map(both, spreads), alone()):
        schedule.save(tmp_path / "a.json")
        read = Schedule.load(tmp_path / "a.json")
        assert read.values.tobytes() == schedule.values.tobytes()
        assert read.spread.tobytes() == schedule.spread.tobytes()
        assert (read.space, read.fill, read.provenance) == (
            schedule.space,
            schedule.fill,
            schedule.provenance,
        )
        jsonschema.validate(json.loads(schedule.text()), json_schema())


MISSING = object()
FIRST = ("space", "operations", 0)
TUNED = ("space", "regularizers", 0)
BROKEN: list[tuple[str, tuple[str | int, ...], Any, str]] = [
    ("count", ("format",), MISSING, "format is missing"),
    ("count", ("version",), 0, "version must be 1"),
    ("count", ("version",), 2, "version must be 1"),
    ("count", ("space", "searches_count"), MISSING, "space.searches_count is missing"),
    ("count", ("spread",), MISSING, "spread is missing"),
    ("count", ("epochs",), 3, "epochs is 3, but values has 2 rows"),
    ("count", (*FIRST, "drawing"), MISSING, "space.operations[0].drawing is missing"),
    ("count", ("values", 1), [0.5, 12.0], "policy.json cannot be read"),
    ("count", ("values", 1, 1), 30.01, "values[1][1] (Rotate.1.magnitude)"),
    (
        "count",
        ("hyperparameters", 0),
        "Rotate.2.probability",
        "hyperparameters must be",
    ),
    ("count", (*FIRST, "name"), "Swirl", "unknown operation 'Swirl'"),
    (
        "count",
        (*FIRST, "magnitude_range"),
        [0.0, 20.0],
        "values[1][1] (Rotate.1.magnitude) must lie in [0, 20]",
    ),
    ("count", (*FIRST, "drawing"), "fixed", "operation Rotate must be like"),
    (
        "count",
        ("space", "operations", 1, "interpolation"),
        "bilinear",
        "operation Invert must be like",
    ),
    ("count", ("space", "copies"), 100_000_000, "hyperparameters"),
    ("count", ("spread", 1, 2), -0.5, "spread must be finite, not below 0"),
    (
        "regularizers",
        (*TUNED, "name"),
        "droput.fc1",
        "unknown regularizer 'droput'; did you mean dropout",
    ),
    (
        "regularizers",
        (*TUNED, "name"),
        "weight_decay",
        "regularizers must each be named once",
    ),
    ("regularizers", (*TUNED, "high"), 0.0, "dropout.features.fc1"),
    ("regularizers", ("spread", 0, 4), 0.5, "spread must be finite"),
    ("stages", (*FIRST, "stage"), "crop", "operation HorizontalFlip must be like"),
    ("stages", (*FIRST, "stage"), MISSING, "operation HorizontalFlip must be like"),
    (
        "stages",
        (*FIRST, "stage"),
        "last",
        "space.operations[0].stage must be 'symmetry', 'crop'",
    ),
    (
        "stages",
        ("hyperparameters", 0),
        "HorizontalFlip.1.probability",
        "HorizontalFlip.probability first",
    ),
    (
        "stages",
        ("values", 1, 8),
        1.5,
        "values[1][8] (CutMix.magnitude) must lie in [0, 1], got 1.5",
    ),
    (
        "stages",
        ("values", 0, 2),
        0.0,
        "values[0][2] (ResizedCrop.magnitude) must lie in [0.08, 1]",
    ),
]


def test_a_file_with_one_thing_wrong_is_refused_by_its_place() -> None:
    for name, path, value, place in BROKEN:
        content: Any = golden(name)
        if (
            path[0] == "spread"
            and len(path) > 1
            and not isinstance(content["spread"], list)
        ):
            content["spread"] = [[content["spread"]] * len(content["hyperparameters"])]
        inner = content
        for key in path[:-1]:
            inner = inner[key]
        if value is MISSING:
            del inner[path[-1]]
        else:
            inner[path[-1]] = value
        assert place in refusal_of(content), (name, path, value)


def test_what_is_no_schedule_at_all_is_refused(tmp_path: Path) -> None:
    text = (GOLDEN / "schedule-count.json").read_text(encoding="utf-8")
    for content in (
        "",
        "[" * 100_000,
        text[:97],
        "[]",
        "null",
        '{"version": 1}',
        '{"epochs": ' + "1" * 5000 + "}",
    ):
        assert refusal_of(content)
    (tmp_path / "latin.json").write_bytes('{"format": "ü"}'.encode("latin-1"))
    os.mkfifo(tmp_path / "pipe.json")
    for path in (tmp_path, *tmp_path.iterdir(), tmp_path / "missing.json"):
        with pytest.raises(ScheduleError, match=path.name):
            Schedule.load(path)


@settings(
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(text=schedule_texts())
def test_any_schedule_file_is_read_or_refused_in_one_line(
    text: str, tmp_path: Path
) -> None:
    check_schedule(text, tmp_path)


@pytest.mark.usefixtures("registered")
def test_operations_of_your_own_are_read_where_they_are_registered(
    tmp_path: Path, registered: dict[str, Operation]
) -> None:
    register_operation(GAMMA)
    register_operation(DARKEN)
    values = np.array([[0.1, 0.5, 0.3, 0.4, 2.0], [0.9, 1.7, 1.0, 0.0, 30.0]])
    schedule = Schedule(
        SearchSpace((GAMMA, DARKEN, OPERATIONS["Rotate"]), copies=1), values
    )
    schedule.save(tmp_path / "a.json")
    read = hba.load_policy(tmp_path / "a.json")
    assert read.space.operations == (GAMMA, DARKEN, OPERATIONS["Rotate"])
    assert read.space.operations[0].function is gamma
    assert read.text() == schedule.text()
    content = json.loads(schedule.text())
    assert content["space"]["operations"][0]["function"] == "own_operations:gamma"
    content["space"]["operations"][0]["function"] = "an_older_module:power"
    assert loaded(content).space == read.space, "the function may have moved"
    wider = register_operation(Operation("Power", gamma, (3.0, 0.1), "exponent", 1.0))
    assert loaded(schedule.text()).space.operations[0] == wider.with_range((0.5, 2.0))
    register_operation(Operation("Power", gamma, (0.5, 2.0), "power", 1.0))
    assert 'operation Power must be like {"name": "Power", ' in refusal_of(
        schedule.text()
    )
    del registered["Power"]
    assert "register own_operations:gamma" in refusal_of(schedule.text())
    # hba has another operation of this name.
    text = schedule.text().replace("Power", "Gamma")
    assert "register own_operations:gamma" in refusal_of(text)
    registered_operation = register_operation(
        Operation("Gamma", gamma, (0.5, 2.0), "exponent", 1.0)
    )
    assert loaded(text).space.operations[0] == registered_operation
    assert loaded(text).text() == text
