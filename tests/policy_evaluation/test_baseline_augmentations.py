"""Schedules made of a schedule: the middle of its space, its mean, its last epoch, and its curves shuffled."""

from collections import Counter

import numpy as np
import pytest
from numpy.typing import NDArray

from hba.errors import SettingsError
from hba.operations import OPERATIONS
from hba.policy.space import SearchSpace
from hba.policy_evaluation.baseline_augmentations import final, middle, shuffled, start, static
from hba.schedule.schedule import Schedule

Values = NDArray[np.float64]
NAMES = ("Rotate", "Invert", "Solarize", "Posterize", "Equalize", "Brightness", "AutoContrast")
FILL = (0.25, 0.5, 0.75)


def random_schedule(names: tuple[str, ...] = NAMES, copies: int = 2, epochs: int = 4) -> Schedule:
    """No two curves are alike."""
    space = SearchSpace(
        tuple(OPERATIONS[name] if name != "Posterize" else OPERATIONS[name].with_range((8.0, 2.0)) for name in names),
        copies=copies,
    )
    low, high = np.array(space.ranges).T
    return Schedule(space, low + (high - low) * np.random.default_rng(0).random((epochs, space.n)), FILL)


def fractions(schedule: Schedule, kind: str) -> dict[str, Values]:
    """By column, the curve (epochs,) in fractions of the range."""
    low, high = np.array(schedule.space.ranges).T
    columns = ((schedule.values - low) / (high - low)).T
    return {name: curve for name, curve in zip(schedule.space.names, columns, strict=True) if name.endswith(kind)}


def test_the_middle_is_the_middle_of_every_range_throughout() -> None:
    schedule = middle(random_schedule())
    named = dict(zip(schedule.space.names, schedule.values[0], strict=True))
    assert {value for name, value in named.items() if name.endswith("probability")} == {0.5}
    magnitudes = [named[f"{name}.2.magnitude"] for name in ("Rotate", "Solarize", "Posterize", "Brightness")]
    assert magnitudes == pytest.approx([15, 127.5, 5, 1])
    assert (schedule.epochs, schedule.fill) == (1, FILL)
    assert (schedule.stretched(5).values == schedule.values[0]).all()


@pytest.mark.parametrize("fraction", [0.05, 0.25])
def test_random_is_where_the_search_began(fraction: float) -> None:
    found = random_schedule()
    schedule = start(Schedule(found.space, found.values, FILL, {"settings": {"initial_fraction": fraction}}))
    low, high = np.array(found.space.ranges).T
    np.testing.assert_allclose(schedule.values[0], low + fraction * (high - low), rtol=1e-5)
    assert (schedule.epochs, schedule.fill) == (1, FILL)


@pytest.mark.parametrize("provenance", [{}, {"settings": None}, {"settings": {"initial_fraction": 2}}])
def test_random_is_the_middle_where_the_start_is_not_known(provenance: dict[str, object]) -> None:
    found = random_schedule()
    schedule = start(Schedule(found.space, found.values, FILL, provenance))
    assert schedule.values.tolist() == middle(found).values.tolist()


def test_static_is_the_mean_over_the_epochs_throughout() -> None:
    found = random_schedule()
    schedule = static(found)
    np.testing.assert_allclose(schedule.stretched(6).values, np.tile(found.values.sum(axis=0) / 4, (6, 1)))
    assert schedule.fill == FILL


def test_a_mean_stays_in_its_range_whatever_the_rounding() -> None:
    space = SearchSpace((OPERATIONS["Cutout"],), copies=1, count_probabilities=(0.0, 1.0))
    schedule = static(Schedule(space, np.tile([1.0, 0.2], (3, 1))))
    assert schedule.values.tolist() == [[1.0, 0.2]]


def test_final_is_the_last_epoch_throughout() -> None:
    found = random_schedule()
    schedule = final(found)
    assert (schedule.stretched(6).values == found.values[-1]).all()
    assert schedule.fill == FILL


def test_shuffled_hands_each_curve_on_exactly_once() -> None:
    found = random_schedule()
    schedules = shuffled(found)
    assert len(schedules) == 10
    for schedule in schedules:
        assert (schedule.space, schedule.fill) == (found.space, FILL)
        for kind in ("probability", "magnitude"):
            before, after = (
                Counter(tuple(curve.round(9)) for curve in fractions(each, kind).values()) for each in (found, schedule)
            )
            assert after == before
    assert len({schedule.values.tobytes() for schedule in schedules}) > 5


def givers(found: Schedule, schedule: Schedule, kind: str) -> dict[str, str]:
    """From which operation each operation has its curve; the same for both copies."""
    givers: dict[str, str] = {}
    for name, curve in fractions(schedule, kind).items():
        (source,) = [old for old, its_own in fractions(found, kind).items() if np.allclose(its_own, curve, atol=1e-9)]
        operation, copy, _ = name.split(".")
        assert source.split(".")[1] == copy
        assert givers.setdefault(operation, source.split(".")[0]) == source.split(".")[0]
    return givers


def test_a_magnitude_goes_with_its_probability_and_what_is_left_over_in_order() -> None:
    found = random_schedule()
    n_filled = 0
    for schedule in shuffled(found):
        of_probability, of_magnitude = (givers(found, schedule, kind) for kind in ("probability", "magnitude"))
        assert any(taker != giver for taker, giver in of_probability.items()), "not the identity"
        filled = []
        for taker, giver in of_magnitude.items():
            if OPERATIONS[of_probability[taker]].magnitude_range is not None:
                assert giver == of_probability[taker]
            else:
                filled.append(giver)
        assert filled == sorted(filled, key=NAMES.index)
        n_filled += len(filled)
    assert n_filled > 0


def test_shuffled_is_the_same_every_time() -> None:
    first, again = (shuffled(random_schedule()) for _ in range(2))
    assert [schedule.values.tolist() for schedule in first] == [schedule.values.tolist() for schedule in again]


def test_two_operations_are_exchanged_and_a_single_one_is_refused() -> None:
    found = random_schedule(("Rotate", "Brightness"))
    for schedule in shuffled(found):
        assert givers(found, schedule, "probability") == {"Rotate": "Brightness", "Brightness": "Rotate"}
    with pytest.raises(SettingsError, match="shuffled needs a schedule of at least two operations, got one"):
        shuffled(random_schedule(("Rotate",), copies=2))
