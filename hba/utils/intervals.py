"""Confidence intervals of means."""

import statistics
from collections.abc import Sequence

CONFIDENCE = 0.95


def interval_of_mean(values: Sequence[float]) -> tuple[float, float]:
    """Of the mean of at least two independent numbers, at 95 % confidence by Student's t.

    Of equal numbers it has no width.
    """
    if max(values) == min(values):
        mean = statistics.fmean(values)
        return mean, mean
    # Loading it takes a while, and an import of hba should not.
    from scipy.stats import ttest_1samp

    interval = ttest_1samp(values, popmean=0.0).confidence_interval(CONFIDENCE)
    return float(interval.low), float(interval.high)


def t_quantile(degrees_of_freedom: int, confidence: float) -> float:
    """How many standard errors a two-sided interval of Student's t reaches to either side."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees_of_freedom, (1 + confidence) / 2))
