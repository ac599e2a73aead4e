"""Confidence intervals against scipy's."""

import numpy as np
import pytest
from scipy import stats

from hba.utils.intervals import CONFIDENCE, interval_of_mean


@pytest.mark.parametrize("count", [2, 3, 10, 100])
def test_the_interval_is_that_of_scipys_t_test(count: int) -> None:
    values = np.random.default_rng(count).normal(2.0, 3.0, count)
    expected = stats.ttest_1samp(values, 0.0).confidence_interval(CONFIDENCE)
    assert interval_of_mean(values.tolist()) == pytest.approx((expected.low, expected.high))


def test_two_numbers_by_hand() -> None:
    # Student's t with one degree of freedom is Cauchy's distribution: its quantile at 0.975 is tan(0.475 pi).
    low, high = interval_of_mean([1.0, 3.0])
    assert (low, high) == pytest.approx((2 - np.tan(0.475 * np.pi), 2 + np.tan(0.475 * np.pi)))


def test_it_covers_the_mean_as_often_as_it_says() -> None:
    generator = np.random.default_rng(0)
    covered = 0
    for _ in range(4000):
        low, high = interval_of_mean(generator.normal(0.7, 1.0, 5).tolist())
        covered += low <= 0.7 <= high
    # The standard error of the share is 0.34 %.
    assert abs(covered / 4000 - 0.95) < 4 * 0.0034


def test_equal_numbers_have_no_width() -> None:
    assert interval_of_mean([0.5] * 4) == (0.5, 0.5)
