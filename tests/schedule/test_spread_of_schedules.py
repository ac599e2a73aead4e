"""The spread of a schedule: of the shape of its values, read in between, stretched, and put in another's place."""

import pickle

import numpy as np
import pytest
import torch

from hba.errors import ScheduleError
from hba.operations import OPERATIONS
from hba.policy.space import SearchSpace
from hba.schedule.schedule import Schedule

SPACE = SearchSpace((OPERATIONS["Rotate"], OPERATIONS["Invert"]), copies=1, searches_count=True)
"""Columns: Rotate.1.probability, Rotate.1.magnitude, Invert.1.probability, count.1.probability, count.2.probability."""
VALUES = np.array([[0.5, 12.0, 0.25, 0.5, 0.5], [0.25, 6.0, 1.0, 0.5, 0.75], [1.0, 0.0, 0.0, 0.9, 0.1]])


def test_one_number_one_row_or_one_column_is_spread_over_all() -> None:
    row, column = np.array([0.5, 1.0, 0.0, 0.25, 2.0]), np.array([[0.5], [1.0], [0.0]])
    for given in (np.array(0.75), row, column):
        assert (Schedule(SPACE, VALUES, spread=given).spread == given * np.ones((3, 5))).all()


def test_the_spread_is_stretched_as_the_values_are() -> None:
    schedule = Schedule(SPACE, VALUES, spread=np.array([[0.0], [1.0], [0.5]]))
    assert schedule.stretched(5).spread[:, 1].tolist() == [0.0, 0.5, 1.0, 0.75, 0.5]
    assert schedule.spread_at(1.5).tolist() == [0.75] * 5


def test_another_spread_is_the_same_everywhere_and_leaves_the_rows() -> None:
    found = Schedule(SPACE, VALUES, (0.1,), {"seed": 3}, spread=np.array([[0.0], [1.0], [0.5]]))
    spread = found.with_spread(0.75)
    assert (spread.spread == 0.75).all()
    assert (spread.space, spread.fill, spread.provenance) == (SPACE, (0.1,), {"seed": 3})
    np.testing.assert_array_equal(spread.values, VALUES)
    assert not found.with_spread(0).spread.any()
    assert found.stretched(7).with_spread(1).is_stretched


def test_a_spread_of_magnitudes_alone_leaves_every_probability_to_the_row() -> None:
    schedule = Schedule(SPACE, VALUES).with_spread(0.75, probabilities=False)
    assert schedule.spread.tolist() == [[0.0, 0.75, 0.0, 0.0, 0.0]] * 3


def test_a_spread_below_0_is_refused() -> None:
    with pytest.raises(ScheduleError, match="spread must be finite and not below 0, got -1"):
        Schedule(SPACE, VALUES).with_spread(-1)


@pytest.mark.parametrize("given", ["wide", [1.0, 2.0], np.zeros((5, 3))])
def test_what_is_no_spread_of_these_values_is_refused(given: object) -> None:
    with pytest.raises(ScheduleError, match=r"spread must be a number, or of the shape \(3, 5\) of the values, got"):
        Schedule(SPACE, VALUES, spread=given)  # type: ignore[arg-type]


def test_the_bare_rows_make_a_policy_without_a_spread() -> None:
    assert Schedule(SPACE, VALUES).policy(0).spread is None
    spread = Schedule(SPACE, VALUES, spread=np.array([[0.0], [1.0], [0.5]])).policy(2).spread
    assert spread is not None
    assert torch.equal(spread, torch.full((5,), 0.5))


def test_a_pickled_schedule_keeps_its_spread() -> None:
    schedule = Schedule(SPACE, VALUES, spread=np.array([[0.0], [1.0], [0.5]]))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(schedule)).spread, schedule.spread)
