"""A schedule: one row of values and of spread per epoch, read in between and stretched,
alone or with regularizers.
"""

import math
import pickle
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from tuned_schedules import POLICY, alone, both, random_schedule

from hba.errors import ScheduleError
from hba.operations import OPERATIONS
from hba.policy.space import SearchSpace
from hba.regularization.regularizer import Hyperparameter
from hba.schedule.schedule import Schedule

SPACE = SearchSpace((OPERATIONS["Rotate"], OPERATIONS["Invert"]), copies=1)
"""Columns: Rotate.1.probability [0, 1], Rotate.1.magnitude [0, 30],
Invert.1.probability [0, 1].
"""
ROW = [0.5, 12.0, 0.25]
VALUES = np.array([ROW, [0.25, 6.0, 1.0], [1.0, 0.0, 0.0]])
SPREAD = np.array([[0.0], [1.0], [0.5]])
LOW, HIGH = np.array(SearchSpace().ranges).T


def interpolated(values: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """numpy's linear interpolation of every column at fractional row numbers."""
    return np.stack(
        [np.interp(positions, np.arange(len(values)), column) for column in values.T],
        axis=1,
    )


@settings(max_examples=60)
@given(st.integers(1, 40), st.integers(2, 90), st.floats(0, 1))
def test_rows_in_between_are_numpys_linear_interpolation(
    epochs: int, new_epochs: int, fraction: float
) -> None:
    schedule = random_schedule(SearchSpace(), epochs)
    place = schedule.position(fraction)
    assert math.isclose(place, fraction * (epochs - 1))
    np.testing.assert_allclose(
        schedule.values_at(place),
        interpolated(schedule.values, np.array([place]))[0],
        atol=1e-10,
    )
    stretched = schedule.stretched(new_epochs)
    expected = interpolated(schedule.values, np.linspace(0, epochs - 1, new_epochs))
    np.testing.assert_allclose(stretched.values, expected, atol=1e-10)
    np.testing.assert_array_equal(stretched.values[[0, -1]], schedule.values[[0, -1]])
    middle = interpolated(schedule.values, np.array([(epochs - 1) / 2]))
    np.testing.assert_allclose(schedule.stretched(1).values, middle, atol=1e-12)


def test_values_that_stay_at_an_end_of_their_range_can_be_stretched() -> None:
    """A search often ends at a bound; rounding in the interpolation must not carry it
    out of the range.
    """
    for row in (LOW, HIGH):
        for epochs in (2, 3, 7, 200):
            schedule = Schedule(SearchSpace(), np.tile(row, (epochs, 1)))
            for new_epochs in (1, 4, 6, 7, 10, 50, 199):
                np.testing.assert_allclose(
                    schedule.stretched(new_epochs).values, np.tile(row, (new_epochs, 1))
                )


def test_the_spread_is_stretched_as_the_values_are_and_all_else_is_kept() -> None:
    schedule = Schedule(
        SPACE, VALUES, (0.1, 0.2, 0.3), {"dataset": "digits"}, spread=SPREAD
    )
    stretched = schedule.stretched(5)
    assert stretched.spread[:, 1].tolist() == [0.0, 0.5, 1.0, 0.75, 0.5]
    assert schedule.spread_at(1.5).tolist() == [0.75] * 3
    assert (stretched.space, stretched.fill, dict(stretched.provenance)) == (
        SPACE,
        schedule.fill,
        {"dataset": "digits"},
    )
    for given_spread in (np.array(0.75), np.array([0.5, 1.0, 0.0]), SPREAD):
        assert (
            Schedule(SPACE, VALUES, spread=given_spread).spread
            == given_spread * np.ones((3, 3))
        ).all()
    other = stretched.with_spread(0.75)
    assert other.is_stretched
    assert (other.spread == 0.75).all()
    np.testing.assert_array_equal(other.values, stretched.values)
    counted = Schedule(
        SearchSpace(SPACE.operations, 1, searches_count=True),
        np.tile([*ROW, 0.5, 0.5], (3, 1)),
    )
    assert (
        counted.with_spread(0.75, probabilities=False).spread.tolist()
        == [[0.0, 0.75, 0.0, 0.0, 0.0]] * 3
    )
    assert counted.only(2).epochs == counted.averaged().epochs == 1


def test_the_policy_of_an_epoch_has_its_row_spread_and_colour() -> None:
    schedule = Schedule(SPACE, VALUES, (0.1, 0.2, 0.3), spread=SPREAD)
    for epoch in range(3):
        policy = schedule.policy(epoch)
        assert (policy.space, policy.fill) == (SPACE, (0.1, 0.2, 0.3))
        torch.testing.assert_close(
            policy.values, torch.tensor(VALUES[epoch], dtype=torch.float32)
        )
    assert schedule.policy(0).spread is None
    assert torch.equal(schedule.policy(2).spread, torch.full((3,), 0.5))  # type: ignore[arg-type]


def test_a_schedule_is_a_value_that_can_be_pickled() -> None:
    values = VALUES.copy()
    provenance = {"dataset": "digits"}
    schedule = Schedule(SPACE, values, provenance=provenance, spread=SPREAD)
    values[0, 0] = 0.9
    provenance["dataset"] = "other"
    assert (schedule.values[0, 0], schedule.provenance["dataset"]) == (0.5, "digits")
    with pytest.raises(ValueError, match="read-only"):
        schedule.values[0, 0] = 0.9
    for any_schedule in (schedule, both(), alone()):
        again = pickle.loads(pickle.dumps(any_schedule))
        assert again.values.tobytes() == any_schedule.values.tobytes()
        assert again.spread.tobytes() == any_schedule.spread.tobytes()
        assert repr(again) == repr(any_schedule)
    assert repr(both()) == "Schedule(epochs=3, operations=2, regularizers=4, n=7)"


def test_what_is_no_schedule_is_refused() -> None:
    for row, column, value, place in [
        (0, 0, -0.1, r"values\[0\]\[0\] \(Rotate\.1\.probability\)"),
        (1, 1, 30.5, r"values\[1\]\[1\] \(Rotate\.1\.magnitude\)"),
        (2, 2, math.nan, r"values\[2\]\[2\] \(Invert\.1\.probability\)"),
        (2, 1, -math.inf, r"values\[2\]\[1\]"),
    ]:
        values = np.tile(ROW, (3, 1))
        values[row, column] = value
        with pytest.raises(ScheduleError, match=place):
            Schedule(SPACE, values)
    for shape in ((3,), (0, 3), (2, 4), (1, 2, 3)):
        with pytest.raises(ScheduleError, match="values must be of shape"):
            Schedule(SPACE, np.zeros(shape))
    for fill in ((), (1.1,), (0.5, -0.1, 0.5), (math.nan,)):
        with pytest.raises(ScheduleError, match="fill"):
            Schedule(SPACE, VALUES, fill)
    for spread in ("wide", [1.0, 2.0], np.zeros((5, 3)), -1.0, math.nan):
        with pytest.raises(ScheduleError, match="spread must be"):
            Schedule(SPACE, VALUES, spread=spread)  # type: ignore[arg-type]
    schedule = Schedule(SPACE, VALUES)
    for refused in (
        *(
            lambda place=place: schedule.values_at(place)
            for place in (-0.001, 2.001, math.nan)
        ),
        *(
            lambda place=place: schedule.position(place)
            for place in (-0.001, 1.001, math.nan)
        ),
        *(lambda epochs=epochs: schedule.stretched(epochs) for epochs in (0, -3)),
        *(lambda epoch=epoch: schedule.policy(epoch) for epoch in (-1, 3)),
    ):
        with pytest.raises(ScheduleError, match="must"):
            refused()


def test_values_on_a_log_scale_are_stretched_and_averaged_by_their_logarithms() -> None:
    space = SearchSpace(
        (),
        count_probabilities=(1.0,),
        regularizers=(
            Hyperparameter("weight_decay", 1e-6, 0.1, 1e-3, "log"),
            *alone().space.regularizers[:1],
        ),
    )
    schedule = Schedule(space, np.array([[1e-5, 0.1], [1e-3, 0.3]]))
    np.testing.assert_allclose(
        schedule.stretched(3).values, [[1e-5, 0.1], [1e-4, 0.2], [1e-3, 0.3]]
    )
    np.testing.assert_allclose(schedule.averaged().values, [[1e-4, 0.2]])
    assert np.array_equal(schedule.stretched(2).values, schedule.values)


def test_a_regularizer_has_no_spread() -> None:
    schedule = both(spread=0.5)
    expected = [0.5, 0.5, 0.5, 0, 0, 0, 0]
    for spread_schedule in (
        schedule,
        both(spread=[[0.5]] * 3),
        both().with_spread(0.5),
        schedule.stretched(2),
    ):
        np.testing.assert_array_equal(
            spread_schedule.spread, [expected] * spread_schedule.epochs
        )
    assert not alone().with_spread(0.5).spread.any()
    with pytest.raises(ScheduleError, match="spread must be finite"):
        both(spread=[0, 0, 0, 0, 0.1, 0, 0])


def test_regularizers_have_their_values_by_name() -> None:
    assert both().regularization(2) == alone().regularization(2) == {
        "dropout.fc1": 0.31, "weight_decay": 0.01, "label_smoothing": 0.25,
        "input_dropout.rate": 0.4,
    }  # fmt: skip
    assert both().without_regularizers().regularization(0) == {}
    whole = SearchSpace(
        (),
        count_probabilities=(1.0,),
        regularizers=(Hyperparameter("n", 0, 9, 4, whole=True),),
    )
    assert Schedule(whole, np.array([[6.25]])).regularization(0) == {"n": 6.0}


def test_transform_and_policy_have_operations_alone_and_say_what_they_omit() -> None:
    schedule = both(spread=0.5)
    names = r"dropout\.fc1, weight_decay, label_smoothing, input_dropout\.rate"
    with pytest.warns(UserWarning, match=names) as warned:
        transform = schedule.transform()
    assert warned[0].filename == __file__, "the caller is told"
    with pytest.warns(UserWarning, match=names):
        policy = schedule.policy(1)
    assert (
        policy.space
        == transform.schedule.space
        == schedule.without_regularizers().space
    )
    assert policy.values.tolist() == POLICY[1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        schedule.without_regularizers().transform()
        schedule.without_regularizers().policy(1)
    for refused in (
        alone().transform,
        lambda: alone().policy(0),
        alone().without_regularizers,
    ):
        with pytest.raises(ScheduleError, match="no operations"):
            refused()
