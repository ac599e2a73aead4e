"""The fit: rates and numbers that hba's own draw has, against what was wanted."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hba.importers.fit import TOPS, fitted
from hba.importers.sub_policies import Choice, SubPolicy, numbers_of, rates_of


def wanted_of(policy: list[SubPolicy]) -> tuple[np.ndarray, np.ndarray]:
    of_slots = np.repeat(np.array(list(rates_of(policy).values())) / 2, 2)
    return of_slots, np.cumsum(numbers_of(policy)[::-1])[::-1][1:]


def once(*operations: tuple[str, float]) -> SubPolicy:
    return SubPolicy(tuple((Choice(name, chance),) for name, chance in operations))


chances = st.floats(0.05, 1.0)
pairs = st.builds(
    lambda names, first, second: once((names[0], first), (names[1], second)),
    st.lists(st.sampled_from("abcdefgh"), min_size=2, max_size=2, unique=True),
    chances,
    chances,
)


@settings(max_examples=30, deadline=None)
@given(st.lists(pairs, min_size=8, max_size=30))
def test_rates_and_numbers_are_met_by_lists_of_pairs(policy: list[SubPolicy]) -> None:
    of_slots, at_least = wanted_of(policy)
    fit = fitted(of_slots, at_least)
    assert fit.rates == pytest.approx(of_slots, abs=2e-6)
    assert fit.rates.sum() == pytest.approx(at_least.sum(), abs=1e-5)
    assert ((fit.probabilities > 0) & (fit.probabilities <= 1)).all()
    assert (np.diff([1.0, *fit.reached]) <= 0).all()
    assert fit.reached[-1] >= at_least[-1] - 1e-9


def test_equally_likely_operations_have_the_lowest_probability() -> None:
    """Four slots of one operation in all, half of the time: K is more often 1, because all four may be silent."""
    fit = fitted(np.full(4, 0.125), np.array([0.5]))
    assert fit.probabilities == pytest.approx(np.full(4, TOPS[0]))
    assert fit.reached == pytest.approx([0.5 / (1 - 0.5**4)])


def test_what_every_image_gets_twice_is_certain() -> None:
    fit = fitted(*wanted_of([once(("a", 1.0), ("a", 1.0))]))
    assert fit.probabilities.tolist() == fit.reached.tolist() == fit.rates.tolist() == [1.0, 1.0]


def test_more_than_two_slots_can_do_is_told() -> None:
    of_slots, at_least = wanted_of([once(("a", 1.0), ("a", 1.0), ("a", 1.0))])
    fit = fitted(of_slots, at_least[: len(of_slots)])
    assert fit.rates.tolist() == [1.0, 1.0]
    assert fit.error(of_slots) == 0.5
