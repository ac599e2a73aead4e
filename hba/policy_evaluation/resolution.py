"""How small a difference the seeds and test images of an evaluation can show."""

import itertools
import math
from dataclasses import dataclass

from hba.policy_evaluation.paired import PairedDifference
from hba.utils.intervals import CONFIDENCE, t_quantile

POWER = 0.8
"""Share of evaluations in which a difference of one point, if there is one, would be shown."""


@dataclass(frozen=True)
class Resolution:
    """Of the schedule against the best other row, in percentage points.

    half_width: of the 95 % interval, by Student's t over n_pairs paired seeds; None without a spread.
    seeds_for_one_point: how many, with the same spread, would show a difference of one point in four of five
    evaluations. one_image: what one of the test images makes. standard_error: of a test error of test_error_percent on
    so many images (binomial). All three are None where an error is no share of wrong answers.
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
    """Of an error on so many images, in points. None wrong, or none right, counts as half an image of them would: that
    so few were seen does not make the error certain.
    """
    share = min(max(error_percent / 100, 0.5 / n_images), 1 - 0.5 / n_images)
    return 100 * math.sqrt(share * (1 - share) / n_images)


def spread_of(half_width: float, n: int) -> float:
    """The sample standard deviation of n paired differences whose 95 % interval reaches so far to either side."""
    return half_width * math.sqrt(n) / t_quantile(n - 1, CONFIDENCE)


def seeds_to_show(difference: float, spread: float) -> int:
    """The fewest paired seeds whose 95 % t-interval leaves out 0 in POWER of the cases, for a true difference."""
    from scipy.special import nctdtr, ndtri

    # With a spread that were known for sure, it would be as many.
    fewest = ((ndtri((1 + CONFIDENCE) / 2) + ndtri(POWER)) * spread / difference) ** 2
    for n in itertools.count(max(2, math.floor(fewest))):
        # Beyond the other end of the interval lies next to nothing.
        missed = nctdtr(n - 1, difference * math.sqrt(n) / spread, t_quantile(n - 1, CONFIDENCE))
        if missed <= 1 - POWER:
            return n
    raise AssertionError("numbers do not end")
