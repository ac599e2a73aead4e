"""Differences between two rows paired by seed, and how small a difference an evaluation can show."""

import itertools
import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from hba.utils.intervals import CONFIDENCE, interval_of_mean, t_quantile

ROUNDING = 1e-9
"""Differences of test errors in percentage points below this are rounding errors."""


@dataclass(frozen=True)
class PairedDifference:
    """The mean difference of two rows over the `n_pairs` seeds that both have.

    Test errors and balanced accuracies are in percentage points, losses in nats. interval: of the mean, at 95 %
    confidence by Student's t. None for a single pair, and where all pairs differ by the same amount (`equal_pairs`): a
    spread of zero does not say how certain the mean is.
    """

    n_pairs: int
    mean: float
    interval: tuple[float, float] | None
    equal_pairs: bool

    @staticmethod
    def of(values: Mapping[int, float], minus: Mapping[int, float]) -> "PairedDifference | None":
        """The difference of two mappings from seed to number; None where they share no seed."""
        differences = [value - minus[seed] for seed, value in values.items() if seed in minus]
        if not differences:
            return None
        n = len(differences)
        mean = statistics.fmean(differences)
        if max(differences) - min(differences) <= ROUNDING:
            return PairedDifference(n, mean if abs(mean) > ROUNDING else 0.0, None, equal_pairs=n > 1)
        return PairedDifference(n, mean, interval_of_mean(differences), equal_pairs=False)

    def is_above_zero(self, n_choices: int) -> bool:
        """Whether the mean is above zero at 95 % confidence, if picked as the highest of n_choices (Bonferroni)."""
        if self.interval is None:
            return False
        standard_error = (self.interval[1] - self.mean) / t_quantile(self.n_pairs - 1, CONFIDENCE)
        return self.mean > standard_error * t_quantile(self.n_pairs - 1, 1 - (1 - CONFIDENCE) / n_choices)


POWER = 0.8
"""Probability that a true difference of one point is shown."""


@dataclass(frozen=True)
class Resolution:
    """How small a difference of the schedule to the best other row can be shown, in percentage points.

    half_width: of the 95 % interval, by Student's t over n_pairs paired seeds; None without a spread.
    seeds_for_one_point: how many seeds with the same spread would show a difference of one point with probability
    POWER. one_image: the weight of one of the test_images. standard_error: of a test error of test_error_percent on as
    many images (binomial). The last three are None where an error is no share of wrong answers.
    """

    n_pairs: int
    half_width: float | None
    seeds_for_one_point: int | None
    test_images: int | None
    one_image: float | None
    test_error_percent: float
    standard_error: float | None

    @staticmethod
    def of(difference: PairedDifference, test_error_percent: float, test_images: int | None) -> "Resolution":
        """test_error_percent: the mean of the schedule's row. test_images: None where an error is no share of them."""
        half_width = None if difference.interval is None else difference.interval[1] - difference.mean
        spread = None if half_width is None else spread_of(half_width, difference.n_pairs)
        return Resolution(
            n_pairs=difference.n_pairs,
            half_width=half_width,
            seeds_for_one_point=None if spread is None else seeds_to_show(1.0, spread),
            test_images=test_images,
            one_image=None if test_images is None else 100 / test_images,
            test_error_percent=test_error_percent,
            standard_error=None if test_images is None else standard_error_of(test_error_percent, test_images),
        )


def standard_error_of(error_percent: float, n_images: int) -> float:
    """The binomial standard error in points of an error on n_images.

    No wrong or no right answer counts as half an image, because the error is not certain then either.
    """
    share = min(max(error_percent / 100, 0.5 / n_images), 1 - 0.5 / n_images)
    return 100 * math.sqrt(share * (1 - share) / n_images)


def spread_of(half_width: float, n: int) -> float:
    """The sample standard deviation of n paired differences from the half width of their 95 % interval."""
    return half_width * math.sqrt(n) / t_quantile(n - 1, CONFIDENCE)


def seeds_to_show(difference: float, spread: float) -> int:
    """The fewest paired seeds whose 95 % t-interval excludes 0 with probability POWER, for a true difference."""
    from scipy.special import nctdtr, ndtri

    # As many as with a known spread, at least.
    fewest = ((ndtri((1 + CONFIDENCE) / 2) + ndtri(POWER)) * spread / difference) ** 2
    for n in itertools.count(max(2, math.floor(fewest))):
        # The probability beyond the other end of the interval is negligible.
        missed = nctdtr(n - 1, difference * math.sqrt(n) / spread, t_quantile(n - 1, CONFIDENCE))
        if missed <= 1 - POWER:
            return n
    raise AssertionError("numbers do not end")
