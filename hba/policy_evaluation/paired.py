"""The difference between two rows of an evaluation, paired by seed, and its interval."""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from hba.utils.intervals import CONFIDENCE, interval_of_mean, t_quantile

ROUNDING = 1e-9
"""Differences of test errors in percentage points that are closer than this are equal: the rest is rounding."""


@dataclass(frozen=True)
class PairedDifference:
    """One test error, or balanced accuracy, minus another, in percentage points, or one test loss, in nats, over
    `n_pairs` seeds that both have.

    interval: of the mean, at 95 % confidence by Student's t. None for a single pair, and where all pairs differ by the
    same (`equal_pairs`): with a spread of zero, nothing says how far it is to be trusted.
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
        """Whether the mean is, at 95 % confidence, where the pair was picked as the highest of so many (Bonferroni)."""
        if self.interval is None:
            return False
        standard_error = (self.interval[1] - self.mean) / t_quantile(self.n_pairs - 1, CONFIDENCE)
        return self.mean > standard_error * t_quantile(self.n_pairs - 1, 1 - (1 - CONFIDENCE) / n_choices)
