"""Paired differences against scipy."""

import numpy as np
import pytest
import scipy.stats

from hba.results.statistics import PairedDifference


def paired(first: list[float], second: list[float]) -> PairedDifference:
    difference = PairedDifference.of(
        dict(enumerate(first)), minus=dict(enumerate(second))
    )
    assert difference is not None
    return difference


def test_mean_and_interval_are_those_of_the_paired_t_test() -> None:
    for n in (2, 3, 5, 30):
        first, second = np.random.default_rng(n).normal([3.0, 4.0], 1.0, (n, 2)).T
        difference = paired(first.tolist(), second.tolist())
        expected = scipy.stats.ttest_rel(first, second).confidence_interval(0.95)
        assert difference.n_pairs == n
        assert difference.mean == pytest.approx((first - second).mean())
        assert difference.interval == pytest.approx((expected.low, expected.high))


def test_only_seeds_that_both_have_are_pairs_and_a_spread_needs_two() -> None:
    difference = PairedDifference.of(
        {0: 1.0, 1: 2.0, 3: 9.0}, minus={1: 4.0, 2: 0.0, 0: 1.0}
    )
    assert difference is not None
    assert (difference.n_pairs, difference.mean) == (2, -1)
    assert PairedDifference.of({0: 1.0}, minus={1: 1.0}) is None
    assert PairedDifference.of({4: 1.0}, minus={4: 1.5}) == PairedDifference(
        1, -0.5, None
    )
    errors = {seed: 100 * wrong / 1097 for seed, wrong in enumerate((7, 11, 30))}
    for shift in (0.0, 0.3):
        difference = PairedDifference.of(
            {seed: error + shift for seed, error in errors.items()}, minus=errors
        )
        assert difference == PairedDifference(3, pytest.approx(shift), None)  # type: ignore[arg-type]


def test_an_interval_says_lower_and_higher_only_if_it_contains_zero() -> None:
    errors = [1.0, 1.2, 1.1, 0.9, 1.0]
    for other_errors, words in (
        ([1.4, 1.9, 1.6, 1.3, 1.6], "0.36 to 0.68"),
        ([0.5, 0.9, 0.6, 0.2, 0.5], "0.32 to 0.68"),
        ([1.2, 1.0, 1.2, 1.0, 1.1], "0.25 lower to 0.13 higher"),
    ):
        assert paired(errors, other_errors).between(2) == words
    assert paired([1.0], [2.0]).between(2) == ""
