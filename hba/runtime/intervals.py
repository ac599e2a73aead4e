"""Confidence intervals of means."""

import math
import statistics
from collections.abc import Sequence

CONFIDENCE = 0.95


def interval_of_mean(values: Sequence[float]) -> tuple[float, float]:
    """Of the mean of at least two independent numbers, at 95 % confidence by Student's t."""
    mean = statistics.fmean(values)
    half_width = t_quantile(len(values) - 1, CONFIDENCE) * statistics.stdev(values) / math.sqrt(len(values))
    return mean - half_width, mean + half_width


def t_quantile(degrees_of_freedom: int, confidence: float) -> float:
    """How many standard errors a two-sided interval of Student's t reaches to either side."""
    # Loading it takes a while, and an import of hba should not.
    from scipy.special import stdtrit

    return float(stdtrit(degrees_of_freedom, (1 + confidence) / 2))
