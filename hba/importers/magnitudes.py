"""The magnitudes of an operation in a policy of another kind, as those of two slots with a spread.

    symbol    meaning
    m, v      mean and standard deviation of magnitudes, as fractions of the operation's range
    l         logit of the slot's magnitude
    s         its spread, the standard deviation in logits; at most MOST_SPREAD
    eps       normal noise

The magnitudes are sorted and cut into two halves of equal weight, so that two slots can be on both sides of doing
nothing. Of each half, l and s are such that sigmoid(l + s eps) has its m and, as far as MOST_SPREAD allows, its v. The
mean logit would not do: a magnitude at an end of the range has an infinite one.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import brentq
from scipy.special import expit, logit

from hba.importers.sub_policies import Weighted
from hba.policy.draw import quadrature
from hba.policy.rates import Floats

MOST_SPREAD = 3.0
"""The most for which hba computes means of spread values to four digits."""
_FARTHEST = 60.0
"""A logit so near an end of the range that nothing is beyond."""
_EQUAL = 1e-6
"""A standard deviation, as a fraction of the range, that no pixel shows."""


class Spread(NamedTuple):
    """A slot's magnitude in natural units, and its spread in logits."""

    magnitude: float
    spread: float


def halves(weighted: Sequence[Weighted]) -> tuple[list[Weighted], list[Weighted]]:
    """The larger and the smaller magnitudes, as often the one as the other; weighted: the largest first."""
    half = math.fsum(one.rate for one in weighted) / 2
    before: list[Weighted] = []
    after: list[Weighted] = []
    done = 0.0
    for rate, magnitude in weighted:
        of_first = min(rate, max(0.0, half - done))
        before += [Weighted(of_first, magnitude)] if of_first > 0 else []
        after += [Weighted(rate - of_first, magnitude)] if rate > of_first else []
        done += rate
    return before, after or before


def spread_of(weighted: Sequence[Weighted], low: float, high: float) -> Spread:
    """The magnitude and spread of a slot whose images get these magnitudes, all from low to high."""
    rates, magnitudes = np.array(weighted).T
    # Rounding must not carry a single value away, nor past the end of the range.
    mean = float(np.clip(np.average(magnitudes, weights=rates), magnitudes.min(), magnitudes.max()))
    deviation = float(np.sqrt(np.average((magnitudes - mean) ** 2, weights=rates)))
    if high == low or deviation <= _EQUAL * abs(high - low):
        return Spread(mean, 0.0)
    m, v = (mean - low) / (high - low), deviation / abs(high - low)
    spread = MOST_SPREAD
    if _deviation(m, MOST_SPREAD) > v:
        spread = float(brentq(lambda s: _deviation(m, s) - v, 0.0, MOST_SPREAD, xtol=1e-9))
    return Spread(low + (high - low) * float(expit(_logit(m, spread))), spread)


def _deviation(m: float, spread: float) -> float:
    """Standard deviation of places in the range whose mean is m and whose logits have a spread."""
    places, shares = _places(_logit(m, spread), spread)
    return math.sqrt(max(0.0, float(shares @ places**2 - (shares @ places) ** 2)))


def _logit(m: float, spread: float) -> float:
    """l at which the mean place is m, in (0, 1)."""
    if spread == 0:
        return float(logit(m))

    def error(center: float) -> float:
        places, shares = _places(center, spread)
        return float(shares @ places) - m

    found: float = brentq(error, -_FARTHEST, _FARTHEST, xtol=1e-9)
    return found


def _places(center: float, spread: float) -> tuple[Floats, Floats]:
    nodes, shares = (one.numpy() for one in quadrature(torch.float64, torch.device("cpu")))
    return expit(center + spread * nodes), shares
