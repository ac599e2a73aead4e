"""Differences between two rows paired by seed, and how small a difference an evaluation can show."""

import itertools
import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from hba.utils.text import CONFIDENCE, interval_of_mean, t_quantile

ROUNDING = 1e-9
"""Differences of test errors in percentage points below this are rounding errors."""
POWER = 0.8
"""Probability that a true difference of one point is shown."""


@dataclass(frozen=True)
class PairedDifference:
    """The mean difference of two rows over the `n_pairs` seeds that both have.

    Test errors and balanced accuracies are in percentage points, losses in nats. interval: of the mean, at 95 %
    confidence by Student's t. None for a single pair, and where all pairs differ by the same amount: a spread of zero
    does not say how certain the mean is.
    """

    n_pairs: int
    mean: float
    interval: tuple[float, float] | None

    @staticmethod
    def of(values: Mapping[int, float], minus: Mapping[int, float]) -> "PairedDifference | None":
        """The difference of two mappings from seed to number; None where they share no seed."""
        differences = [value - minus[seed] for seed, value in values.items() if seed in minus]
        if not differences:
            return None
        mean = statistics.fmean(differences)
        if max(differences) - min(differences) <= ROUNDING:
            return PairedDifference(len(differences), mean if abs(mean) > ROUNDING else 0.0, None)
        return PairedDifference(len(differences), mean, interval_of_mean(differences))


@dataclass(frozen=True)
class Resolution:
    """How small a difference of the schedule to the best other row can be shown, in percentage points.

    half_width: of the 95 % interval, by Student's t over n_pairs paired seeds; None without a spread.
    seeds_for_one_point: how many seeds with the same spread would show a difference of one point with probability
    POWER. one_image: the weight of one test image. standard_error: of the schedule's test error on as many images
    (binomial; no wrong or no right answer counts as half an image). The last two are None where an error is no share of
    wrong answers.
    """

    n_pairs: int
    half_width: float | None
    seeds_for_one_point: int | None
    one_image: float | None
    standard_error: float | None

    @staticmethod
    def of(difference: PairedDifference, test_error_percent: float, test_images: int | None) -> "Resolution":
        """test_error_percent: the mean of the schedule's row. test_images: None where an error is no share of them."""
        n, half_width, seeds, one_image, standard_error = difference.n_pairs, None, None, None, None
        if difference.interval is not None:
            half_width = difference.interval[1] - difference.mean
            seeds = seeds_to_show(1.0, half_width * math.sqrt(n) / t_quantile(n - 1, CONFIDENCE))
        if test_images is not None:
            one_image = 100 / test_images
            share = min(max(test_error_percent / 100, 0.5 / test_images), 1 - 0.5 / test_images)
            standard_error = 100 * math.sqrt(share * (1 - share) / test_images)
        return Resolution(n, half_width, seeds, one_image, standard_error)


def seeds_to_show(difference: float, spread: float) -> int:
    """The fewest paired seeds whose 95 % t-interval excludes 0 with probability POWER, for a true difference.

    spread: the sample standard deviation of the paired differences.
    """
    from scipy.special import nctdtr, ndtri

    # As many as with a known spread, at least.
    fewest = ((ndtri((1 + CONFIDENCE) / 2) + ndtri(POWER)) * spread / difference) ** 2
    for n in itertools.count(max(2, math.floor(fewest))):
        # The probability beyond the other end of the interval is negligible.
        missed = nctdtr(n - 1, difference * math.sqrt(n) / spread, t_quantile(n - 1, CONFIDENCE))
        if missed <= 1 - POWER:
            return n
    raise AssertionError("numbers do not end")
