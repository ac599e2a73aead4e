"""Differences between two rows, paired by seed, and their uncertainty from training
seeds and test images.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hba.utils.text import CONFIDENCE, interval_of_mean, size_of

ROUNDING = 1e-9
"""Differences of test errors, in percentage points, below this are rounding errors."""
POWER = 0.8
"""Probability of showing a true difference."""


@dataclass(frozen=True)
class PairedDifference:
    """The mean difference of two rows over the `n_pairs` seeds that both have.

    Test errors and balanced accuracies are in percentage points, losses in nats.
    """

    n_pairs: int
    mean: float
    interval: tuple[float, float] | None
    """Interval of the mean at 95 % confidence, by Student's t. None for a single pair,
    and if all pairs differ by the same amount, because a standard deviation of zero
    says nothing about the uncertainty of the mean.
    """

    @staticmethod
    def of(
        values: Mapping[int, float], minus: Mapping[int, float]
    ) -> "PairedDifference | None":
        """The difference of two mappings from seed to number; None if they share no
        seed.
        """
        differences = [
            value - minus[seed] for seed, value in values.items() if seed in minus
        ]
        if not differences:
            return None
        mean = statistics.fmean(differences)
        if abs(mean) <= ROUNDING:
            mean = 0.0
        interval = None
        if max(differences) - min(differences) > ROUNDING:
            interval = interval_of_mean(differences)
        return PairedDifference(len(differences), mean, interval)

    def between(self, digits: int) -> str:
        """The interval, `0.11 to 0.93`; if it contains zero, its ends say `lower` and
        `higher`. Empty without one.
        """
        low, high = self.interval or (0.0, 0.0)
        if low < 0 < high:
            return f"{size_of(low, digits)} lower to {size_of(high, digits)} higher"
        ends = sorted((low, high), key=abs)
        return (
            " to ".join(size_of(end, digits) for end in ends) if self.interval else ""
        )


@dataclass(frozen=True)
class CrossedDifference:
    """The mean difference of two rows in percentage points, with uncertainty from
    training seeds and test images.

    d[s, i] is 1 if only the first row answers image i wrongly with seed s, -1 if only
    the other row does, else 0; for an error that is no share of images, the difference
    of the parts of image i in it. S seeds and N images are crossed, like readers and
    cases in studies in which all readers read all cases:

        seeds = Var_s(mean_i d) / S, as in the paired t-test
        images = Var_i(mean_s d) / N + 1 / N**2: for one seed McNemar's, with one more
            image
        both = the variance of d without the means of its seed and its image / (S N),
            which is part of the other two
        variance = max(seeds, both) + max(images - both, 0) = from_seeds + from_images
        probability = P(Z < -mean / sqrt(variance)) or P(T < -mean / sqrt(seeds)),
            whichever is closer to 0.5

    Z is normal. T, Student's with S - 1 degrees of freedom, is the paired t-test, which
    allows for few seeds that agree by chance. Without d, images is the larger variance
    of rows measured on different images, and both is 0. from_seeds is 0 for one seed,
    from_images if the error is no share of images. The one more image prevents
    certainty from few mistakes (Agresti and Min 2005, Statistics in Medicine 24).

    Ref: Bouthillier et al. 2021, Accounting for variance in machine learning
    benchmarks; Hillis, Berbaum and Metz 2008, Academic Radiology 15 (readers and
    cases); McNemar 1947, Psychometrika 12.
    """

    mean: float
    from_seeds: float
    from_images: float
    n_seeds: int
    probability: float | None
    """Probability that the first row's true error is lower; None if nothing varies."""

    @staticmethod
    def of(
        errors: Sequence[float],
        others: Sequence[float],
        n_images: int | None,
        d: np.ndarray | None = None,
    ) -> "CrossedDifference":
        """Compare two rows.

        Args:
            errors: Of the first row in per cent, by seed.
            others: Of the other row, for the same seeds.
            n_images: Number of test images; None if the error is no share of images.
            d: As above, (S, N); None if it is unknown which images were wrong.
        """
        from scipy.special import ndtr, stdtr

        n_seeds = len(errors)
        differences = np.subtract(errors, others)
        mean = float(differences.mean())
        seeds = 0.0
        images = 0.0
        both = 0.0
        if n_seeds > 1:
            seeds = float(differences.var(ddof=1)) / n_seeds
        if n_images is not None and d is not None:
            of_image = 100 * d.mean(0)
            images = float(of_image.var(ddof=1)) / n_images + (100 / n_images) ** 2
            residuals = 100 * d - of_image - differences[:, None] + mean
            if n_seeds > 1:
                freedom = (n_seeds - 1) * (n_images - 1)
                both = float((residuals**2).sum()) / (freedom * n_seeds * n_images)
        elif n_images is not None:
            shares = np.clip(
                np.mean([errors, others], axis=1) / 100,
                0.5 / n_images,
                1 - 0.5 / n_images,
            )
            images = 1e4 * float((shares * (1 - shares)).sum()) / n_images
        from_seeds = max(seeds, both)
        from_images = max(images - both, 0.0)
        variance = from_seeds + from_images
        probabilities = []
        if variance > ROUNDING**2:
            probabilities.append(float(ndtr(-mean / math.sqrt(variance))))
        if seeds > ROUNDING**2:
            probabilities.append(float(stdtr(n_seeds - 1, -mean / math.sqrt(seeds))))
        least_sure = min(probabilities, key=lambda p: abs(p - 0.5), default=None)
        return CrossedDifference(mean, from_seeds, from_images, n_seeds, least_sure)

    @property
    def seeds_needed(self) -> float:
        """How many seeds would show a true difference of this size with probability
        POWER, given at least two seeds; infinity if there are too few test images for
        any number.
        """
        from scipy.special import ndtri

        reach = float(ndtri((1 + CONFIDENCE) / 2) + ndtri(POWER)) ** 2
        left = self.mean**2 - reach * self.from_images
        return reach * self.from_seeds * self.n_seeds / left if left > 0 else math.inf


def loss_difference(
    losses: Sequence[np.ndarray],
    minus: Sequence[np.ndarray],
    has_same_images: bool = False,
) -> tuple[float, float]:
    """Compare the losses of two rows on validation images.

    Args:
        losses: Of one row, (images,) for each seed.
        minus: Of the other row, for the same seeds and images.
        has_same_images: Whether all seeds are measured on the same images.

    Returns:
        The mean difference in nats and its standard error, over the images of all
        seeds, and over several seeds; infinite for a single image.
    """
    differences = [
        of_row - of_other for of_row, of_other in zip(losses, minus, strict=True)
    ]
    by_image = np.concatenate(differences)
    if has_same_images:
        by_image = np.mean(differences, axis=0)
    if len(by_image) == 1:
        return float(by_image[0]), np.inf
    variance = by_image.var(ddof=1) / len(by_image)
    if len(differences) > 1:
        by_seed = [difference.mean() for difference in differences]
        variance += np.var(by_seed, ddof=1) / len(by_seed)
    return float(by_image.mean()), float(variance**0.5)
