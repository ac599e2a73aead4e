"""The difference between two rows of an evaluation, paired by seed, and its interval."""

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass

CONFIDENCE = 0.95
ROUNDING = 1e-9
"""Differences of test errors in percentage points that are closer than this are equal: the rest is rounding."""


@dataclass(frozen=True)
class PairedDifference:
    """One test error minus another, in percentage points, over `n_pairs` seeds that both have.

    interval: of the mean, at 95 % confidence by Student's t. None for a single pair, and where all pairs differ by the
    same (`equal_pairs`): with a spread of zero, nothing says how far it is to be trusted.
    """

    n_pairs: int
    mean: float
    interval: tuple[float, float] | None
    equal_pairs: bool

    @staticmethod
    def of(errors: Mapping[int, float], minus: Mapping[int, float]) -> "PairedDifference | None":
        """The difference of two mappings from seed to test error in per cent; None where they share no seed."""
        differences = [error - minus[seed] for seed, error in errors.items() if seed in minus]
        if not differences:
            return None
        n = len(differences)
        mean = statistics.fmean(differences)
        if max(differences) - min(differences) <= ROUNDING:
            return PairedDifference(n, mean if abs(mean) > ROUNDING else 0.0, None, equal_pairs=n > 1)
        half_width = _t_quantile(n - 1) * statistics.stdev(differences) / math.sqrt(n)
        return PairedDifference(n, mean, (mean - half_width, mean + half_width), equal_pairs=False)


def _t_quantile(degrees_of_freedom: int) -> float:
    # Loading it takes a while, and an import of hba should not.
    from scipy.special import stdtrit

    return float(stdtrit(degrees_of_freedom, (1 + CONFIDENCE) / 2))
