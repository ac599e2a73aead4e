"""Rates with their intervals."""

import math
import statistics
from collections.abc import Sequence

NORMAL_97_5 = statistics.NormalDist().inv_cdf(0.975)


def wilson_interval(n_hits: int, n: int) -> tuple[float, float]:
    """The 95 % interval of a rate (Wilson 1927), in [0, 1]; n is at least 1."""
    rate, z2 = n_hits / n, NORMAL_97_5**2
    middle = (rate + z2 / (2 * n)) / (1 + z2 / n)
    half = NORMAL_97_5 * math.sqrt(rate * (1 - rate) / n + z2 / (4 * n**2)) / (1 + z2 / n)
    return max(0.0, middle - half), min(1.0, middle + half)


def rate_text(hits: Sequence[bool]) -> str:
    """`4/5 (38-96 %)`, the hits, all, and the interval."""
    if not hits:
        return "-"
    low, high = wilson_interval(sum(hits), len(hits))
    return f"{sum(hits)}/{len(hits)} ({100 * low:.0f}-{100 * high:.0f} %)"
