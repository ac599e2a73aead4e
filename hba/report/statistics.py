"""Differences between two rows paired by seed, and how small a difference an evaluation can show."""

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

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


@dataclass(frozen=True)
class CrossedDifference:
    """The mean difference of two rows in percentage points, uncertain by training seeds and by test images.

    d[s, i] is 1 where the first row alone answers image i wrongly with seed s, -1 where the other row alone does, else
    0; S seeds, N images. As in studies in which all readers read all cases:

        seeds = Var_s(mean_i d) / S, the square of the standard error of the paired t-test
        images = Var_i(mean_s d) / N + 1 / N**2; for one seed, McNemar's variance, with one image more
        both = the variance of d without the means of its seed and of its image / (S N), which is in both terms
        from_seeds = max(seeds, both), from_images = max(images - both, 0)
        variance = from_seeds + from_images, with the degrees of freedom of Welch and Satterthwaite
        probability = P(T < -mean / sqrt(variance)), Student's t

    Without d, images is (p (1 - p) + q (1 - q)) / N for two errors p and q, as if they were measured on different
    images, and both is 0: equal mistakes make the true variance smaller. from_seeds is 0 for one seed, whose luck is
    then left out, and from_images is 0 where an error is no share of images. One image more keeps few mistakes from
    looking certain (Agresti and Min 2005, Statistics in Medicine 24).

    Ref: Bouthillier et al. 2021, Accounting for variance in machine learning benchmarks; Hillis, Berbaum and Metz 2008,
    Academic Radiology 15 (readers and cases); McNemar 1947, Psychometrika 12; Welch 1947, Biometrika 34.
    """

    mean: float
    from_seeds: float
    from_images: float
    n_seeds: int
    n_images: int | None

    @staticmethod
    def of(
        errors: Sequence[float], others: Sequence[float], n_images: int | None, d: np.ndarray | None = None
    ) -> "CrossedDifference":
        """errors, others: in per cent, by seed. n_images: None where an error is no share of images. d (S, N)."""
        n, differences = len(errors), np.subtract(errors, others)
        seeds = float(differences.var(ddof=1)) / n if n > 1 else 0.0
        images = both = 0.0
        if n_images is not None and d is not None:
            points = 100.0 * d
            of_image = points.mean(0)
            images = float(of_image.var(ddof=1)) / n_images + (100 / n_images) ** 2
            rest = points - of_image - points.mean(1, keepdims=True) + points.mean()
            both = float((rest**2).sum()) / ((n - 1) * (n_images - 1) * n * n_images) if n > 1 else 0.0
        elif n_images is not None:
            shares = np.clip(np.mean([errors, others], axis=1) / 100, 0.5 / n_images, 1 - 0.5 / n_images)
            images = 1e4 * float((shares * (1 - shares)).sum()) / n_images
        return CrossedDifference(float(differences.mean()), max(seeds, both), max(images - both, 0.0), n, n_images)

    @property
    def probability(self) -> float | None:
        """That the first row's true error is lower; None where nothing varies."""
        from scipy.special import stdtr

        variance = self.from_seeds + self.from_images
        if variance <= ROUNDING**2:
            return None
        terms = ((self.from_seeds, self.n_seeds), (self.from_images, self.n_images or 0))
        freedom = variance**2 / sum(one**2 / (n - 1) for one, n in terms if one)
        return float(stdtr(freedom, -self.mean / math.sqrt(variance)))

    @property
    def seeds_needed(self) -> float | None:
        """About how many seeds would show a true difference of this size with probability POWER; infinity where the
        test images are too few for any number. None for one seed.
        """
        from scipy.special import ndtri

        reach = float(ndtri((1 + CONFIDENCE) / 2) + ndtri(POWER)) ** 2
        left = self.mean**2 - reach * self.from_images
        if self.n_seeds == 1:
            return None
        return reach * self.from_seeds * self.n_seeds / left if left > 0 else math.inf


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
