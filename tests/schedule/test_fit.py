"""The fit of rates, numbers and magnitudes, against what was wanted and against draws
by the definition of a spread.
"""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.special import expit, logit

from hba.operations import OPERATIONS
from hba.schedule.fit import (
    MOST_SPREAD,
    TOPS,
    Choice,
    SubPolicy,
    at_least,
    fitted,
    halves,
    spread_of,
)

NOISE = np.random.default_rng(0).standard_normal(200_000)


def wanted_of(policy: list[SubPolicy]) -> tuple[np.ndarray, np.ndarray]:
    rates: dict[str, float] = defaultdict(float)
    for choice in (
        choice for sub_policy in policy for step in sub_policy.steps for choice in step
    ):
        rates[choice.operation] += choice.chance / len(policy)
    return np.repeat(np.array(list(rates.values())) / 2, 2), at_least(policy)


def once(*operations: tuple[str, float]) -> SubPolicy:
    return SubPolicy(tuple((Choice(name, chance),) for name, chance in operations))


chances = st.floats(0.05, 1.0)
pairs = st.builds(
    lambda names, first, second: once((names[0], first), (names[1], second)),
    st.lists(
        st.sampled_from(list(OPERATIONS)[:8]), min_size=2, max_size=2, unique=True
    ),
    chances,
    chances,
)


@settings(max_examples=15)
@given(st.lists(pairs, min_size=8, max_size=30))
def test_rates_and_numbers_are_met_by_lists_of_pairs(policy: list[SubPolicy]) -> None:
    of_slots, numbers = wanted_of(policy)
    fit = fitted(of_slots, numbers)
    assert fit.rates == pytest.approx(of_slots, abs=2e-6)
    assert fit.rates.sum() == pytest.approx(numbers.sum(), abs=1e-5)
    assert ((fit.probabilities > 0) & (fit.probabilities <= 1)).all()
    assert (np.diff([1.0, *fit.reached]) <= 0).all()


def test_known_fits() -> None:
    """Equal operations get the lowest probability; certain ones are certain; two slots
    cannot fire three times.
    """
    equal = fitted(np.full(4, 0.125), np.array([0.5]))
    assert equal.probabilities == pytest.approx(np.full(4, TOPS[0]))
    assert equal.reached == pytest.approx([0.5 / (1 - 0.5**4)])
    twice = fitted(*wanted_of([once(("Rotate", 1.0), ("Rotate", 1.0))]))
    assert (
        twice.probabilities.tolist()
        == twice.reached.tolist()
        == twice.rates.tolist()
        == [1.0, 1.0]
    )
    of_slots, numbers = wanted_of(
        [once(("Rotate", 1.0), ("Rotate", 1.0), ("Rotate", 1.0))]
    )
    assert fitted(of_slots, numbers[: len(of_slots)]).error == 0.5


@settings(max_examples=15)
@given(
    st.lists(
        st.tuples(st.floats(0.01, 1.0), st.floats(0.0, 1.0)), min_size=1, max_size=6
    ),
    st.sampled_from([(0.0, 30.0), (255.0, 0.0), (0.1, 1.9)]),
)
def test_draws_have_the_mean_and_if_possible_the_deviation(
    given_ones: list[tuple[float, float]], bounds: tuple[float, float]
) -> None:
    low, high = bounds
    rates, places = np.array(given_ones).T
    magnitudes = low + (high - low) * places
    magnitude, spread = spread_of(magnitudes, rates, low, high)
    mean = np.average(magnitudes, weights=rates)
    deviation = np.sqrt(np.average((magnitudes - mean) ** 2, weights=rates))
    values = low + (high - low) * expit(
        logit((magnitude - low) / (high - low)) + spread * NOISE
    )
    within = 0.005 * abs(high - low)
    assert 0 <= spread <= MOST_SPREAD
    assert values.mean() == pytest.approx(mean, abs=within)
    assert values.std() <= deviation + within
    if spread < MOST_SPREAD:
        assert values.std() == pytest.approx(deviation, abs=within)


def test_single_magnitudes_and_halves() -> None:
    rates = np.array([0.3, 0.1])
    for magnitude in (0.0, 9.0, 30.0):
        assert spread_of(np.full(2, magnitude), rates, 0.0, 30.0) == (magnitude, 0.0)
    assert spread_of(np.array([7.0]), rates[:1], 7.0, 7.0) == (7.0, 0.0)
    larger, smaller = halves(np.array([0.1, 0.5, 0.2]))
    assert larger == pytest.approx([0.1, 0.3, 0.0])
    assert smaller == pytest.approx([0.0, 0.2, 0.2])
    assert [half.tolist() for half in halves(np.array([0.4]))] == [[0.2], [0.2]]
