"""Schedule files of version 2: the spread and a search of K, read back as they were, and refused by their place."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_schedule_file import Content, at, random_schedule, refusal_of, without

from hba.errors import ScheduleError
from hba.operations import OPERATIONS
from hba.policy.space import SearchSpace
from hba.schedule.file import parse
from hba.schedule.schedule import Schedule

GOLDEN = Path(__file__).parents[1] / "golden" / "schedule-v2.json"
SMALL_SPACE = SearchSpace((OPERATIONS["Rotate"], OPERATIONS["Invert"]), copies=1)


def golden_content() -> Content:
    content: Content = json.loads(GOLDEN.read_text(encoding="utf-8"))
    return content


def said_of(spread: Any, tmp_path: Path, epochs: int = 3) -> Any:
    """What a file says of a spread."""
    random_schedule(SMALL_SPACE, epochs, spread=spread).save(tmp_path / "a.json")
    return json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))["spread"]


def test_the_golden_file_of_version_2_loads_with_its_spread_for_ever() -> None:
    schedule = Schedule.load(GOLDEN)
    assert schedule.space == SearchSpace(SMALL_SPACE.operations, 1, (0.2, 0.3, 0.5), searches_count=True)
    np.testing.assert_array_equal(schedule.values, [[0.05, 1.5, 0.05, 0.8, 0.625], [1.0, 30.0, 0.0, 0.9, 0.25]])
    np.testing.assert_array_equal(schedule.spread, [[0.5, 1, 0.5, 0, 0], [0.25, 1.125, 0.5, 0, 0]])
    assert (schedule.fill, dict(schedule.provenance)) == ((0.25, 0.5, 0.75), {"algorithm": "lookahead"})


def test_the_golden_schedule_is_written_with_the_golden_content(tmp_path: Path) -> None:
    Schedule.load(GOLDEN).save(tmp_path / "again.json")
    assert json.loads((tmp_path / "again.json").read_text(encoding="utf-8")) == golden_content()


def test_a_spread_is_written_as_short_as_it_can_be(tmp_path: Path) -> None:
    row, column = [0.5, 0.0, 1.5], [[0.5], [1.0], [0.25]]
    assert said_of(0.75, tmp_path) == 0.75
    assert said_of(np.full((3, 3), 0.75), tmp_path) == 0.75
    assert said_of(row, tmp_path) == [row]
    assert said_of([row], tmp_path, epochs=1) == [row]
    assert said_of(column, tmp_path) == [3 * number for number in column]


@settings(max_examples=150, deadline=None)
@given(data=st.data(), epochs=st.integers(1, 5), searches_count=st.booleans(), copies=st.integers(1, 2))
def test_any_spread_is_read_back_to_the_last_bit(
    data: st.DataObject, epochs: int, searches_count: bool, copies: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    space = SearchSpace(SMALL_SPACE.operations, copies, searches_count=searches_count)
    numbers = st.floats(0, 1e300)
    row = st.lists(numbers, min_size=space.n, max_size=space.n)
    spread = data.draw(st.one_of(numbers, row, st.lists(row, min_size=epochs, max_size=epochs)))
    schedule = random_schedule(space, epochs, spread=np.array(spread))
    path = tmp_path_factory.mktemp("spread") / "a.json"
    schedule.save(path)
    loaded = Schedule.load(path)
    assert loaded.spread.tobytes() == schedule.spread.tobytes()
    assert loaded.values.tobytes() == schedule.values.tobytes()
    assert loaded.space == space


def test_the_file_has_one_line_per_epoch_of_the_spread(tmp_path: Path) -> None:
    schedule = random_schedule(SMALL_SPACE, 4, spread=np.random.default_rng(1).random((4, 3)))
    schedule.save(tmp_path / "a.json")
    lines = [line.strip().rstrip(",") for line in (tmp_path / "a.json").read_text(encoding="utf-8").splitlines()]
    for row in (*schedule.values.tolist(), *schedule.spread.tolist()):
        assert lines.count(json.dumps(row)) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without("spread"), "spread is missing"),
        (without("space", "searches_count"), "space.searches_count is missing"),
        (at("space", "searches_count", value=1), "space.searches_count must be true or false, got 1"),
        (at("space", "searches_count", value=False), "hyperparameters must be the space's 3 names"),
        (at("space", "copies", value=9), "hyperparameters must be the space's 29 names, got 5"),
        (at("spread", value="1"), "spread must be a number, got '1'"),
        (at("spread", value=None), "spread must be a number, got None"),
        (at("spread", value=[]), "spread must be a number, or have 2 rows or one, got 0"),
        (at("spread", value=[[0.0] * 5] * 3), "spread must be a number, or have 2 rows or one, got 3"),
        (at("spread", value=[0.0] * 5), "spread[0] must be a list, got 0.0"),
        (at("spread", 1, value=[0.0] * 4), "spread[1] must have 5 numbers, got 4"),
        (at("spread", 1, 2, value=True), "spread[1][2] must be a number, got True"),
        (at("spread", 1, 2, value=-0.5), "spread must be finite and not below 0, got -0.5"),
        (at("spread", value=-1), "spread must be finite and not below 0, got -1.0"),
        (at("values", 0, 3, value=1.5), "values[0][3] (count.1.probability) must lie in [0, 1], got 1.5"),
        (at("version", value=4), "version must be 1, 2 or 3, got 4; a newer hba may have written it"),
    ],
)
def test_a_file_with_one_thing_wrong_is_refused_by_its_place(
    change: Callable[[Content], None], message: str, tmp_path: Path
) -> None:
    content = golden_content()
    change(content)
    assert message in refusal_of(json.dumps(content), tmp_path)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999"])
def test_a_spread_that_is_not_finite_is_refused(number: str) -> None:
    text = GOLDEN.read_text(encoding="utf-8").replace("1.125", number)
    with pytest.raises(ScheduleError, match=r"spread\[1\]\[1\] must be a finite number"):
        parse(text)
