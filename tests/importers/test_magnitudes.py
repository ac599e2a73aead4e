"""Magnitudes of two slots: the mean and deviation of draws, against those of what was given."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, logit

from hba.importers.magnitudes import MOST_SPREAD, Spread, halves, spread_of
from hba.importers.sub_policies import Weighted

NOISE = np.random.default_rng(0).standard_normal(200_000)


def drawn(found: Spread, low: float, high: float) -> np.ndarray:
    """By hba's definition of a spread, with other noise."""
    place = (found.magnitude - low) / (high - low)
    values: np.ndarray = low + (high - low) * expit(logit(place) + found.spread * NOISE)
    return values


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.01, 1.0), st.floats(0.0, 1.0)), min_size=1, max_size=6),
    st.sampled_from([(0.0, 30.0), (255.0, 0.0), (0.1, 1.9)]),
)
def test_draws_have_the_mean_and_as_far_as_can_be_the_deviation(
    given_ones: list[tuple[float, float]], bounds: tuple[float, float]
) -> None:
    low, high = bounds
    weighted = [Weighted(rate, low + (high - low) * place) for rate, place in given_ones]
    found = spread_of(weighted, low, high)
    rates, magnitudes = np.array(weighted).T
    mean = np.average(magnitudes, weights=rates)
    deviation = np.sqrt(np.average((magnitudes - mean) ** 2, weights=rates))
    values = drawn(found, low, high)
    width = abs(high - low)
    assert 0 <= found.spread <= MOST_SPREAD
    assert values.mean() == pytest.approx(mean, abs=0.005 * width)
    if found.spread < MOST_SPREAD:
        assert values.std() == pytest.approx(deviation, abs=0.005 * width)
    else:
        assert values.std() <= deviation + 0.005 * width


@pytest.mark.parametrize("magnitude", [0.0, 9.0, 30.0])
def test_a_single_magnitude_stays_as_it_is(magnitude: float) -> None:
    assert spread_of([Weighted(0.3, magnitude), Weighted(0.1, magnitude)], 0.0, 30.0) == (magnitude, 0.0)


def test_a_range_of_one_value_has_no_spread() -> None:
    assert spread_of([Weighted(0.3, 7.0)], 7.0, 7.0) == (7.0, 0.0)


def test_halves_weigh_the_same_and_one_magnitude_can_be_in_both() -> None:
    larger, smaller = halves([Weighted(0.1, 9.0), Weighted(0.5, 5.0), Weighted(0.2, 1.0)])
    assert [one.magnitude for one in larger] == [9.0, 5.0]
    assert [one.rate for one in larger] == pytest.approx([0.1, 0.3])
    assert [one.magnitude for one in smaller] == [5.0, 1.0]
    assert [one.rate for one in smaller] == pytest.approx([0.2, 0.2])


def test_both_slots_have_the_only_magnitude() -> None:
    assert [[one.magnitude for one in half] for half in halves([Weighted(0.4, 3.0)])] == [[3.0], [3.0]]
