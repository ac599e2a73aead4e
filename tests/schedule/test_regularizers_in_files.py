"""Schedule files of version 3: regularizers beside operations and alone, read back as they were, refused by place."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_schedule_file import Content, at, refusal_of, without
from tuned_schedules import both

from hba.errors import ScheduleError
from hba.operations import OPERATIONS
from hba.policy.space import SearchSpace
from hba.regularization.groups import LIMITS, REGULARIZERS
from hba.regularization.hyperparameter import Hyperparameter
from hba.schedule.file import parse
from hba.schedule.json_schema import json_schema
from hba.schedule.schedule import Schedule

GOLDEN = Path(__file__).parents[1] / "golden" / "schedule-v3.json"
FIRST = ("space", "regularizers", 0)


def golden_content() -> Content:
    content: Content = json.loads(GOLDEN.read_text(encoding="utf-8"))
    return content


def regularizers_alone(content: Content) -> Content:
    """The golden content without its operations."""
    space = {**content["space"], "operations": [], "count_probabilities": [1.0], "searches_count": False}
    rows = [row[4:] for row in content["values"]]
    return {**content, "space": space, "hyperparameters": content["hyperparameters"][4:], "values": rows, "spread": 0.0}


def test_the_golden_file_of_version_3_loads_with_its_regularizers_for_ever() -> None:
    schedule = Schedule.load(GOLDEN)
    assert schedule.space == SearchSpace(
        (OPERATIONS["Rotate"], OPERATIONS["Invert"]),
        copies=1,
        count_probabilities=(0.2, 0.8),
        searches_count=True,
        regularizers=(
            Hyperparameter("dropout.features.fc1", 0.0, 0.95, 0.05),
            Hyperparameter("weight_decay", 1e-6, 0.1, 5e-4, "log"),
            Hyperparameter("cutout.length", 0, 24, 4, whole=True, unit="pixels"),
        ),
    )
    np.testing.assert_array_equal(
        schedule.values, [[0.05, 1.5, 0.05, 0.8, 0.05, 5e-4, 4.0], [1.0, 30.0, 0.0, 0.9, 0.3125, 1e-6, 6.5]]
    )
    np.testing.assert_array_equal(schedule.spread, [[0, 0.5, 0, 0, 0, 0, 0]] * 2)
    assert (schedule.fill, dict(schedule.provenance)) == ((0.25, 0.5, 0.75), {"algorithm": "joint"})
    # 6.5 pixels are 6: halves go to the even number.
    assert schedule.regularization(1) == {"dropout.features.fc1": 0.3125, "weight_decay": 1e-6, "cutout.length": 6.0}


def test_the_golden_schedule_is_written_with_the_golden_content() -> None:
    assert json.loads(Schedule.load(GOLDEN).text()) == golden_content()


def test_a_file_of_regularizers_alone_is_read_and_written_as_it_was() -> None:
    content = regularizers_alone(golden_content())
    schedule = Schedule(**parse(json.dumps(content))._asdict())
    assert schedule.space.operations == ()
    assert schedule.space.names == ("dropout.features.fc1", "weight_decay", "cutout.length")
    assert json.loads(schedule.text()) == content
    jsonschema.validate(content, json_schema())


def test_only_a_schedule_with_regularizers_is_of_version_3() -> None:
    schedule = both()
    versions = [schedule, schedule.without_operations(), schedule.without_regularizers()]
    assert [json.loads(one.text())["version"] for one in versions] == [3, 3, 2]
    content = json.loads(schedule.without_regularizers().text())
    assert "regularizers" not in content["space"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            at(*FIRST, "name", value="droput.fc1"),
            "space.regularizers[0]: unknown regularizer 'droput'; did you mean dropout",
        ),
        (at(*FIRST, "name", value="dropout..fc1"), "space.regularizers[0]: the name of a hyperparameter must be words"),
        (at(*FIRST, "name", value="dropout.\x1b[31m"), "space.regularizers[0]: name and unit must be text that can be"),
        (at(*FIRST, "comment", value="x"), "space.regularizers[0].comment is not known here, got 'x'"),
        (without(*FIRST, "scale"), "space.regularizers[0].scale is missing"),
        (at(*FIRST, "low", value="0"), "space.regularizers[0].low must be a number, got '0'"),
        (at(*FIRST, "whole", value=1), "space.regularizers[0].whole must be true or false, got 1"),
        (at(*FIRST, "scale", value="square"), "space.regularizers[0].scale must be"),
        (at(*FIRST, "high", value=0.0), "space.regularizers[0]: the range of dropout.features.fc1 must"),
        (at(*FIRST, "initial", value=1.5), "initial of dropout.features.fc1 must lie in [0.0, 0.95], got 1.5"),
        (at(*FIRST, "scale", value="log"), "a log scale of dropout.features.fc1 must begin above 0, got 0.0"),
        (at(*FIRST, "name", value="weight_decay"), "space: regularizers must each be named once"),
        (at("space", "regularizers", value=[]), "space.regularizers"),
        (without("space", "regularizers"), "space.regularizers is missing"),
        (without("space", "regularizers", 2), "hyperparameters must be the space's 6 names"),
        (at("version", value=2), "space.regularizers is not known here"),
        (at("space", "copies", value=9), "hyperparameters must be the space's 31 names, got 7"),
        (
            at("hyperparameters", value=[*golden_content()["hyperparameters"][:-2], "cutout.length", "weight_decay"]),
            "hyperparameters must be the space's 7 names in their order, Rotate.1.probability first",
        ),
        (at("values", 1, 5, value=0.0), "values[1][5] (weight_decay) must lie in [1e-06, 0.1], got 0"),
        (at("values", 0, 4, value=0.96), "values[0][4] (dropout.features.fc1) must lie in [0, 0.95], got 0.96"),
        (at("spread", 0, 4, value=0.5), "spread of dropout.features.fc1 must be 0"),
    ],
)
def test_a_file_with_one_thing_wrong_is_refused_by_its_place(
    change: Callable[[Content], None], message: str, tmp_path: Path
) -> None:
    content = golden_content()
    change(content)
    assert message in refusal_of(json.dumps(content), tmp_path)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999"])
def test_a_range_that_is_not_finite_is_refused(number: str) -> None:
    text = GOLDEN.read_text(encoding="utf-8").replace('"high": 0.95', f'"high": {number}')
    with pytest.raises(ScheduleError, match=r"space\.regularizers\[0\]\.high must be a finite number"):
        parse(text)


def test_one_number_of_spread_is_that_of_operations() -> None:
    content = {**golden_content(), "spread": 0.5}
    spread = Schedule(**parse(json.dumps(content))._asdict()).spread
    np.testing.assert_array_equal(spread, [[0.5] * 4 + [0] * 3] * 2)


@st.composite
def regularizers(draw: st.DrawFn) -> Hyperparameter:
    """Of one of hba's groups, with ranges of any size that its limits allow."""
    group = draw(st.sampled_from(sorted(REGULARIZERS)))
    own = draw(st.sampled_from(["", "a", "features.3.conv", "λ", 'quote"']))
    scale: Any = draw(st.sampled_from(["linear", "log"]))
    least, most = LIMITS.get(f"{group}.{own}", LIMITS.get(group, (-1e9, 1e9)))
    ends = st.floats(max(least, 1e-9), most) if scale == "log" else st.floats(least, most)
    low, high = sorted(draw(st.lists(ends, min_size=2, max_size=2, unique=True)))
    initial = draw(st.floats(low, high))
    unit = draw(st.sampled_from([None, "pixels"]))
    return Hyperparameter(f"{group}.{own}" if own else group, low, high, initial, scale, draw(st.booleans()), unit)


@settings(max_examples=150, deadline=None)
@given(
    data=st.data(),
    tuned=st.lists(regularizers(), min_size=1, max_size=4, unique_by=lambda one: one.name),
    epochs=st.integers(1, 4),
    has_operations=st.booleans(),
    searches_count=st.booleans(),
)
def test_any_regularizers_are_read_back_to_the_last_bit(
    data: st.DataObject, tuned: list[Hyperparameter], epochs: int, has_operations: bool, searches_count: bool
) -> None:
    operations = (OPERATIONS["Rotate"], OPERATIONS["Invert"]) if has_operations else ()
    counts = (0.25, 0.75) if has_operations else (1.0,)
    space = SearchSpace(operations, 1, counts, searches_count and has_operations, tuple(tuned))
    rows = [[data.draw(st.floats(*bounds)) for bounds in space.ranges] for _ in range(epochs)]
    spread = np.zeros((epochs, space.n))
    spread[:, : space.n_of_policy] = data.draw(st.floats(0, 1e300))
    schedule = Schedule(space, np.array(rows), spread=spread)
    loaded = Schedule(**parse(schedule.text())._asdict())
    assert loaded.space == space
    assert dataclasses.astuple(loaded.space.regularizers[0]) == dataclasses.astuple(tuned[0])
    assert loaded.values.tobytes() == schedule.values.tobytes()
    assert loaded.spread.tobytes() == schedule.spread.tobytes()
    jsonschema.validate(json.loads(schedule.text()), json_schema())
