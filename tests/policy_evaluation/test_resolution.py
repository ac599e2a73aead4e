"""How small a difference an evaluation can show: beside scipy's intervals, and beside simulated evaluations."""

import math
import statistics

import numpy as np
import pytest
from scipy import stats

from hba.policy_evaluation.statistics import PairedDifference, Resolution, seeds_to_show, spread_of

SCHEDULE = [5.0, 5.5, 4.0, 6.5]
OTHER = [5.5, 5.0, 5.5, 5.5]


def resolution_of(errors: list[float], others: list[float], test_images: int = 200) -> Resolution:
    difference = PairedDifference.of(dict(enumerate(errors)), minus=dict(enumerate(others)))
    assert difference is not None
    return Resolution.of(difference, statistics.fmean(errors), test_images)


def test_the_half_width_and_the_spread_are_those_of_the_t_interval() -> None:
    differences = [error - other for error, other in zip(SCHEDULE, OTHER, strict=True)]
    low, high = stats.t.interval(0.95, 3, loc=statistics.fmean(differences), scale=stats.sem(differences))
    half_width = resolution_of(SCHEDULE, OTHER).half_width
    assert half_width == pytest.approx((high - low) / 2)
    assert spread_of(half_width or 0, 4) == pytest.approx(statistics.stdev(differences))


def test_the_standard_error_is_the_binomial_distribution_s() -> None:
    resolution = resolution_of(SCHEDULE, OTHER, test_images=200)
    assert resolution.test_error_percent == 5.25
    assert resolution.standard_error == pytest.approx(100 * stats.binom.std(200, 0.0525) / 200)
    assert resolution.one_image == 0.5


@pytest.mark.parametrize("error", [0.0, 100.0])
def test_an_error_of_none_or_all_is_not_certain(error: float) -> None:
    """The upper end of Wilson's interval for none of 200 is 1.9 %: about that is two standard errors from 0."""
    found = resolution_of([error] * 2, [50.0, 51.0], test_images=200).standard_error
    wilson = stats.binomtest(0, 200).proportion_ci(method="wilson").high
    assert found is not None
    assert 100 * wilson / 8 < found < 100 * wilson / 2


@pytest.mark.parametrize("spread", [0.2, 0.5, 1.0, 1.7, 3.0, 12.0])
def test_the_number_of_seeds_is_the_fewest_with_the_power_of_a_paired_t_test(spread: float) -> None:
    def power(n: int) -> float:
        return float(stats.nct.sf(stats.t.ppf(0.975, n - 1), n - 1, math.sqrt(n) / spread))

    n = seeds_to_show(1.0, spread)
    assert power(n) >= 0.8
    assert n == 2 or power(n - 1) < 0.8


def test_as_many_seeds_show_a_difference_of_one_point_four_times_in_five() -> None:
    spread = 1.3
    n = seeds_to_show(1.0, spread)
    random = np.random.default_rng(0)
    drawn = random.normal(1.0, spread, (4000, n))
    low = drawn.mean(1) - stats.t.ppf(0.975, n - 1) * drawn.std(1, ddof=1) / math.sqrt(n)
    # Three standard errors of a share of 0.8 of 4,000.
    assert (low > 0).mean() == pytest.approx(0.8, abs=0.03)


def test_without_a_spread_there_is_no_number_of_seeds() -> None:
    for errors, others in (([5.0], [6.0]), ([5.0, 5.0], [6.0, 6.0])):
        resolution = resolution_of(errors, others)
        assert (resolution.half_width, resolution.seeds_for_one_point) == (None, None)
