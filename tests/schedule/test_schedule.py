"""A schedule: one row of values per epoch, read in between and stretched, against numpy's interpolation."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hba.errors import ScheduleError
from hba.operations import OPERATIONS
from hba.policy.module import GRAY
from hba.policy.space import SearchSpace
from hba.schedule.schedule import Schedule

Values = NDArray[np.float64]

SMALL_SPACE = SearchSpace((OPERATIONS["Rotate"], OPERATIONS["Invert"]), copies=1)
"""Columns: Rotate.1.probability [0, 1], Rotate.1.magnitude [0, 30], Invert.1.probability [0, 1]."""

ROW = [0.5, 12.0, 0.25]


def bounds(space: SearchSpace) -> tuple[Values, Values]:
    low, high = np.array(space.ranges).T
    return low, high


def random_schedule(epochs: int, space: SearchSpace | None = None, seed: int = 0) -> Schedule:
    space = space or SearchSpace()
    low, high = bounds(space)
    return Schedule(space, low + (high - low) * np.random.default_rng(seed).random((epochs, space.n)))


def interpolated(values: Values, positions: Values) -> Values:
    """numpy's linear interpolation of every column at fractional row numbers."""
    return np.stack([np.interp(positions, np.arange(len(values)), column) for column in values.T], axis=1)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 40), st.floats(0, 1))
def test_values_at_a_place_are_interpolated_linearly(epochs: int, fraction: float) -> None:
    schedule = random_schedule(epochs)
    place = fraction * (epochs - 1)
    assert math.isclose(schedule.position(fraction), place)
    expected = interpolated(schedule.values, np.array([place]))[0]
    np.testing.assert_allclose(schedule.values_at(place), expected, atol=1e-10)


def test_values_at_whole_numbers_are_the_rows() -> None:
    schedule = random_schedule(7)
    for epoch in range(7):
        np.testing.assert_array_equal(schedule.values_at(epoch), schedule.values[epoch])


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.integers(2, 90))
def test_stretching_is_linear_and_keeps_both_ends(epochs: int, new_epochs: int) -> None:
    schedule = random_schedule(epochs)
    stretched = schedule.stretched(new_epochs)
    assert stretched.values.shape == (new_epochs, 54)
    expected = interpolated(schedule.values, np.linspace(0, epochs - 1, new_epochs))
    np.testing.assert_allclose(stretched.values, expected, atol=1e-10)
    np.testing.assert_array_equal(stretched.values[[0, -1]], schedule.values[[0, -1]])


def test_stretching_by_hand() -> None:
    schedule = Schedule(SMALL_SPACE, np.array([[0.0, 0.0, 1.0], [0.5, 30.0, 1.0], [1.0, 0.0, 0.0]]))
    expected = [[0.0, 0.0, 1.0], [0.25, 15.0, 1.0], [0.5, 30.0, 1.0], [0.75, 15.0, 0.5], [1.0, 0.0, 0.0]]
    np.testing.assert_allclose(schedule.stretched(5).values, expected)
    np.testing.assert_allclose(schedule.stretched(2).values, [expected[0], expected[-1]])


def test_stretching_to_its_own_length_changes_nothing() -> None:
    schedule = random_schedule(9)
    np.testing.assert_allclose(schedule.stretched(9).values, schedule.values, atol=1e-12)


@pytest.mark.parametrize("epochs", [1, 2, 5, 6])
def test_one_epoch_gets_the_middle(epochs: int) -> None:
    schedule = random_schedule(epochs)
    middle = interpolated(schedule.values, np.array([(epochs - 1) / 2]))
    np.testing.assert_allclose(schedule.stretched(1).values, middle, atol=1e-12)


def test_stretching_keeps_space_colour_and_provenance() -> None:
    schedule = Schedule(SMALL_SPACE, np.array([ROW, ROW]), (0.1, 0.2, 0.3), {"dataset": "digits"})
    stretched = schedule.stretched(5)
    assert stretched.space == SMALL_SPACE
    assert stretched.fill == (0.1, 0.2, 0.3)
    assert dict(stretched.provenance) == {"dataset": "digits"}


@pytest.mark.parametrize("end", [0, 1])
@pytest.mark.parametrize("epochs", [2, 3, 7, 200])
def test_values_that_stay_at_an_end_of_their_range_can_be_stretched(epochs: int, end: int) -> None:
    """A search often ends at a bound; rounding in the interpolation must not carry it out of the range."""
    row = bounds(SearchSpace())[end]
    schedule = Schedule(SearchSpace(), np.tile(row, (epochs, 1)))
    for new_epochs in (1, 4, 6, 7, 10, 50, 199):
        np.testing.assert_allclose(schedule.stretched(new_epochs).values, np.tile(row, (new_epochs, 1)), rtol=1e-12)


@pytest.mark.parametrize("end", [0, 1])
def test_values_at_never_leave_the_range(end: int) -> None:
    low, high = bounds(SearchSpace())
    schedule = Schedule(SearchSpace(), np.tile((low, high)[end], (2, 1)))
    for place in np.linspace(0, 1, 101):
        values = schedule.values_at(float(place))
        assert (values >= low).all()
        assert (values <= high).all()


@pytest.mark.parametrize("position", [-0.001, 4.001, math.nan, math.inf])
def test_places_outside_the_schedule_are_refused(position: float) -> None:
    with pytest.raises(ScheduleError, match=rf"the position must lie in \[0, 4\], got {position}"):
        random_schedule(5).values_at(position)


@pytest.mark.parametrize("fraction", [-0.001, 1.001, math.nan])
def test_fractions_outside_the_training_are_refused(fraction: float) -> None:
    with pytest.raises(ScheduleError, match=rf"fraction of the training must lie in \[0, 1\], got {fraction}"):
        random_schedule(5).position(fraction)


@pytest.mark.parametrize("epochs", [0, -3])
def test_a_schedule_cannot_be_stretched_to_nothing(epochs: int) -> None:
    with pytest.raises(ScheduleError, match=f"epochs must be at least 1, got {epochs}"):
        random_schedule(5).stretched(epochs)


def test_the_policy_of_an_epoch_has_its_row_and_colour() -> None:
    values = np.array([ROW, [1.0, 30.0, 0.0], [0.0, 3.0, 1.0]])
    schedule = Schedule(SMALL_SPACE, values, (0.1, 0.2, 0.3))
    for epoch in range(3):
        policy = schedule.policy(epoch)
        assert policy.space == SMALL_SPACE
        assert policy.fill == (0.1, 0.2, 0.3)
        torch.testing.assert_close(policy.values, torch.tensor(values[epoch], dtype=torch.float32))


@pytest.mark.parametrize("epoch", [-1, 5])
def test_epochs_outside_the_schedule_are_refused(epoch: int) -> None:
    with pytest.raises(ScheduleError, match=rf"epoch must lie in \[0, 4\], got {epoch}"):
        random_schedule(5).policy(epoch)


def test_values_are_a_copy_that_cannot_be_written() -> None:
    values = np.array([ROW])
    schedule = Schedule(SMALL_SPACE, values)
    values[0, 0] = 0.9
    assert schedule.values[0, 0] == 0.5
    with pytest.raises(ValueError, match="read-only"):
        schedule.values[0, 0] = 0.9


def test_provenance_is_a_copy_that_cannot_be_written() -> None:
    provenance = {"dataset": "digits"}
    schedule = Schedule(SMALL_SPACE, np.array([ROW]), provenance=provenance)
    provenance["dataset"] = "other"
    assert schedule.provenance["dataset"] == "digits"
    with pytest.raises(TypeError):
        schedule.provenance["dataset"] = "other"  # type: ignore[index]


def test_the_colour_is_grey_and_the_provenance_empty_unless_given() -> None:
    schedule = Schedule(SMALL_SPACE, np.array([ROW, ROW]))
    assert schedule.fill == GRAY == (0.5, 0.5, 0.5)
    assert dict(schedule.provenance) == {}
    assert schedule.epochs == 2


def test_both_ends_of_every_range_are_allowed() -> None:
    low, high = bounds(SearchSpace())
    np.testing.assert_array_equal(Schedule(SearchSpace(), np.stack([low, high])).values, [low, high])


@pytest.mark.parametrize(
    ("row", "column", "value", "message"),
    [
        (0, 0, -0.1, r"values\[0\]\[0\] \(Rotate\.1\.probability\) must lie in \[0, 1\], got -0\.1"),
        (1, 1, 30.5, r"values\[1\]\[1\] \(Rotate\.1\.magnitude\) must lie in \[0, 30\], got 30\.5"),
        (2, 2, math.nan, r"values\[2\]\[2\] \(Invert\.1\.probability\) must lie in \[0, 1\], got nan"),
        (2, 1, math.inf, r"values\[2\]\[1\] \(Rotate\.1\.magnitude\) must lie in \[0, 30\], got inf"),
        (0, 1, -math.inf, r"values\[0\]\[1\] .* got -inf"),
    ],
)
def test_a_value_outside_its_range_is_refused_with_its_place(row: int, column: int, value: float, message: str) -> None:
    values = np.tile(ROW, (3, 1))
    values[row, column] = value
    with pytest.raises(ScheduleError, match=message):
        Schedule(SMALL_SPACE, values)


def test_the_first_wrong_place_is_named() -> None:
    values = np.tile(ROW, (3, 1))
    values[2, 0] = values[1, 2] = values[1, 1] = -1
    with pytest.raises(ScheduleError, match=r"values\[1\]\[1\]"):
        Schedule(SMALL_SPACE, values)


@pytest.mark.parametrize("shape", [(3,), (0, 3), (2, 4), (2, 2), (1, 2, 3)])
def test_values_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ScheduleError, match=r"values must be of shape \(epochs, 3\) with at least one epoch, got"):
        Schedule(SMALL_SPACE, np.zeros(shape))


@pytest.mark.parametrize("fill", [(), (1.1,), (0.5, -0.1, 0.5), (math.nan,)])
def test_a_colour_that_cannot_be_used_is_refused(fill: tuple[float, ...]) -> None:
    with pytest.raises(ScheduleError, match=r"fill must be numbers in \[0, 1\]"):
        Schedule(SMALL_SPACE, np.array([ROW]), fill)
