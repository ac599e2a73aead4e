"""Differences paired by seed, against scipy and by hand."""

import numpy as np
import pytest
import scipy.stats

from hba.policy_evaluation.statistics import PairedDifference


@pytest.mark.parametrize("n", [2, 3, 5, 30])
def test_mean_and_interval_are_those_of_the_paired_t_test(n: int) -> None:
    first, second = np.random.default_rng(n).normal([3.0, 4.0], 1.0, (n, 2)).T
    difference = PairedDifference.of(dict(enumerate(first.tolist())), minus=dict(enumerate(second.tolist())))
    expected = scipy.stats.ttest_rel(first, second).confidence_interval(0.95)
    assert difference is not None
    assert (difference.n_pairs, difference.equal_pairs) == (n, False)
    assert difference.mean == pytest.approx((first - second).mean())
    assert difference.interval == pytest.approx((expected.low, expected.high))


def test_two_pairs_by_hand() -> None:
    # Differences -1 and -3: mean -2, deviation sqrt 2; the quantile of one degree of freedom is tan(0.475 pi).
    difference = PairedDifference.of({0: 5.0, 1: 5.0}, minus={0: 6.0, 1: 8.0})
    assert difference is not None
    half_width = np.tan(0.475 * np.pi)
    assert difference.mean == -2
    assert difference.interval == pytest.approx((-2 - half_width, -2 + half_width))


def test_only_seeds_that_both_have_are_pairs() -> None:
    difference = PairedDifference.of({0: 1.0, 1: 2.0, 3: 9.0}, minus={1: 4.0, 2: 0.0, 0: 1.0})
    assert difference is not None
    assert (difference.n_pairs, difference.mean) == (2, -1)
    assert PairedDifference.of({0: 1.0}, minus={1: 1.0}) is None
    assert PairedDifference.of({}, minus={}) is None


def test_a_single_pair_has_no_interval() -> None:
    assert PairedDifference.of({4: 1.0}, minus={4: 1.5}) == PairedDifference(1, -0.5, None, equal_pairs=False)


@pytest.mark.parametrize("shift", [0.0, 0.3])
def test_equal_differences_have_no_interval_and_say_so(shift: float) -> None:
    errors = {seed: 100 * wrong / 1097 for seed, wrong in enumerate((7, 11, 30))}
    difference = PairedDifference.of({seed: error + shift for seed, error in errors.items()}, minus=errors)
    assert difference == PairedDifference(3, pytest.approx(shift), None, equal_pairs=True)  # type: ignore[arg-type]
