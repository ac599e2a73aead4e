"""Confidence intervals of means."""

import math
import statistics
from collections.abc import Sequence

CONFIDENCE = 0.95


def interval_of_mean(values: Sequence[float]) -> tuple[float, float]:
    """Of the mean of at least two independent numbers, at 95 % confidence by Student's t."""
    # Loading it takes a while, and an import of hba should not.
    from scipy.special import stdtrit

    mean = statistics.fmean(values)
    quantile = float(stdtrit(len(values) - 1, (1 + CONFIDENCE) / 2))
    half_width = quantile * statistics.stdev(values) / math.sqrt(len(values))
    return mean - half_width, mean + half_width
