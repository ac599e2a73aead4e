"""The schedule of hba that is closest to a policy of another kind: a list of sub-policies, of which an image gets one.

A sub-policy is a sequence of independent steps. A step applies at most one of its choices.

    source                 sub-policies                      steps, and the choices of each
    Fast AutoAugment       those of the list                 one for each operation, with a single choice
    AutoAlbument           its Sequentials                   one for each OneOf
    RandAugment            one                               two, of one choice for each operation
    TrivialAugment         one                               one, of a choice for each operation and strength

of the policy                                             in the schedule
how many operations an image gets                         the distribution of K
how often it gets each operation                          probabilities of the two slots of each
an operation's magnitudes                                 magnitude and spread of the two slots
which operations come together, and in which order        not expressed: slots are independent, in any order

    symbol      meaning                                                                        shape
    w           wanted: how often an image gets each slot, half of its operation's rate        (n_slots,)
    N_s         wanted: how likely an image gets s operations or more, s = 1, ..., S           (S,)
    p           probabilities of the slots                                                     (n_slots,)
    F_s         how likely s slots or more fire, by p                                          (S,)
    T_s         how likely K is s or more                                                      (S,)
    r           how often an image gets each slot, by p and T (hba/policy/draw.py)            (n_slots,)
    m, v        mean and standard deviation of magnitudes, as fractions of the operation's range
    l, s        logit of a slot's magnitude, and its spread in logits, at most MOST_SPREAD

An image gets s operations or more if K allows them and so many fire, so N_s = T_s F_s. The fit iterates

    T_s = min(T_{s-1}, N_s / F_s),      p_i <- p_i w_i / r_i,      p <- top p / max p,

until r = w. A common factor of all p is left open: `top`, the largest of them, is the first of TOPS that reaches w. A
search that starts there has more room with a low one; if few operations are wanted often, only 1 does. If none does,
as for an operation that an image always gets three times from two slots, the nearest is taken.

Magnitudes are sorted and cut into two halves of equal weight, so that two slots can lie on both sides of the identity.
Of each half, l and s are such that sigmoid(l + s eps), eps standard normal, has its m and, as far as MOST_SPREAD
allows, its v. The mean logit would not do: a magnitude at an end of the range has an infinite one.
"""

import itertools
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from scipy.optimize import brentq
from scipy.special import expit, logit

from hba.errors import ScheduleError
from hba.operations import OPERATIONS
from hba.policy.draw import Floats, applied, poisson_binomial, quadrature
from hba.policy.space import SearchSpace
from hba.schedule.schedule import Schedule

COPIES = 2
NOT_EXPRESSED = "which operations come together, and in which order"
TOPS = (0.5, 0.7, 0.85, 0.95, 0.99, 1.0)
TOLERANCE = 1e-6
"""Of a rate."""
N_ROUNDS = 300
MOST_SPREAD = 3.0
"""The most for which hba computes means of spread values to four digits."""
_FARTHEST = 60.0
"""A logit at an end of the range, to rounding."""
_EQUAL = 1e-6
"""A standard deviation, as a fraction of the range, that no pixel shows."""

Key = TypeVar("Key", bound=Hashable)


class Choice(NamedTuple):
    """chance: its probability in the step. magnitude: in hba's units, without sign if hba draws it; None for none."""

    operation: str
    chance: float
    magnitude: float | None = None


class SubPolicy(NamedTuple):
    """steps: the choices of each. weight: in proportion to its probability."""

    steps: tuple[tuple[Choice, ...], ...]
    weight: float = 1.0


class Fit(NamedTuple):
    """probabilities: p (n_slots,). reached: T (S,). rates: r (n_slots,). error: the largest difference of r to w."""

    probabilities: Floats
    reached: Floats
    rates: Floats
    error: float


def fitted_schedule(
    policy: Sequence[SubPolicy],
    epochs: int,
    fill: tuple[float, ...],
    origin: Mapping[str, Any],
    notes: Sequence[str] = (),
    interpolation: str = "nearest",
) -> Schedule:
    """The schedule, with the same row for each epoch.

    origin: the start of its provenance. notes: what hba does differently. Operations that hba lacks are left out.
    Ranges are those of hba's operations, wider where the policy is. Raises ScheduleError for a policy that applies none
    of hba's operations.
    """
    total = math.fsum(one.weight for one in policy)
    choices = [
        (choice, rate)
        for one in policy
        for step in one.steps
        for choice in step
        if (rate := one.weight / total * choice.chance) > 0
    ]
    wanted = _summed((choice.operation, rate) for choice, rate in choices)
    rates = {name: wanted[name] for name in OPERATIONS if name in wanted}
    if not rates:
        raise ScheduleError(f"the policy applies none of hba's operations, but {', '.join(wanted) or 'nothing'}")
    operations, weighted = [], []
    for name in rates:
        operation = OPERATIONS[name].with_interpolation(interpolation)
        by_magnitude = _summed((choice.magnitude, rate) for choice, rate in choices if choice.operation == name)
        magnitudes, of_each = np.array(sorted(by_magnitude.items(), reverse=True), dtype=float).T
        if operation.magnitude_range is not None:
            low, high = operation.magnitude_range
            operation = operation.with_range((min(low, float(magnitudes[-1])), max(high, float(magnitudes[0]))))
        operations.append(operation)
        weighted.append((magnitudes, of_each))
    of_slots = np.repeat(np.array(list(rates.values())) / COPIES, COPIES)
    fit = fitted(of_slots, at_least(policy)[: len(of_slots)])
    count = [max(0.0, float(more - less)) for more, less in itertools.pairwise([1.0, *fit.reached, 0.0])]
    space = SearchSpace(tuple(operations), COPIES, tuple(count), searches_count=True)
    values, spread = np.zeros(space.n), np.zeros(space.n)
    for number, slot in enumerate(space.slots):
        values[slot.probability] = fit.probabilities[number]
        if slot.magnitude is not None:
            magnitudes, of_each = weighted[number // COPIES]
            half = halves(of_each)[number % COPIES]
            bounds = space.ranges[slot.magnitude]
            values[slot.magnitude], spread[slot.magnitude] = spread_of(magnitudes[half > 0], half[half > 0], *bounds)
    reached = np.array([1.0, *fit.reached])
    values[-space.max_count :] = reached[1:] / reached[:-1]
    differences = fit.rates.reshape(-1, COPIES).sum(axis=1) - np.array(list(rates.values()))
    provenance = {
        **origin,
        "sub_policies": len(policy),
        "operations_of_an_image": sum(rates.values()),
        "rates": rates,
        "largest_rate_difference": float(np.abs(differences).max()),
        "left_out": {name: rate / sum(wanted.values()) for name, rate in wanted.items() if name not in rates},
        "widened": {
            one.name: list(one.magnitude_range or ())
            for one in operations
            if one.magnitude_range != OPERATIONS[one.name].magnitude_range
        },
        "not_expressed": [NOT_EXPRESSED, *notes],
    }
    return Schedule(space, np.tile(values, (epochs, 1)), fill, provenance, spread=spread)


def _summed(rates: Iterable[tuple[Key, float]]) -> dict[Key, float]:
    """The sum of the rates of each key."""
    found: dict[Key, float] = {}
    for key, rate in rates:
        found[key] = found.get(key, 0.0) + rate
    return found


def at_least(policy: Sequence[SubPolicy]) -> Floats:
    """N: how likely an image gets 1, 2, ... of hba's operations or more, up to the most that are possible."""
    total = math.fsum(one.weight for one in policy)
    numbers = np.zeros(max(len(one.steps) for one in policy) + 1)
    for one in policy:
        chances = (math.fsum(choice.chance for choice in step if choice.operation in OPERATIONS) for step in one.steps)
        of_one = poisson_binomial(min(1.0, chance) for chance in chances)
        numbers[: len(of_one)] += one.weight / total * of_one
    numbers = numbers[: np.flatnonzero(numbers > 0)[-1] + 1]
    found: Floats = np.minimum(np.cumsum(numbers[::-1])[::-1][1:], 1.0)
    return found


def fitted(wanted: Floats, at_least: Floats) -> Fit:
    """wanted: w. at_least: N, not above 1 and not rising; S is at most n_slots."""
    fits = []
    for top in TOPS:
        fits.append(_fitted_below(top, wanted, at_least))
        if fits[-1].error < TOLERANCE:
            break
    return min(fits, key=lambda fit: fit.error)


def _fitted_below(top: float, wanted: Floats, at_least: Floats) -> Fit:
    probabilities = top * wanted / wanted.max()
    for _ in range(N_ROUNDS):
        fired = np.cumsum(poisson_binomial(probabilities)[::-1])[::-1][1 : len(at_least) + 1]
        reached = np.minimum.accumulate(np.minimum(1.0, at_least / fired))
        rates = applied(probabilities, 1 - reached).sum(axis=0)
        fit = Fit(probabilities, reached, rates, float(np.abs(rates - wanted).max()))
        if fit.error < TOLERANCE:
            break
        moved = probabilities * wanted / np.maximum(rates, np.finfo(float).tiny)
        probabilities = np.minimum(1.0, top * moved / moved.max())
    return fit


def halves(rates: Floats) -> tuple[Floats, Floats]:
    """The rates of the first magnitudes and of the others, cut where both have the same total."""
    before = np.concatenate([[0.0], np.cumsum(rates)[:-1]])
    first = np.minimum(rates, np.maximum(0.0, math.fsum(rates) / 2 - before))
    others = rates - first
    return first, others if others.any() else first


def spread_of(magnitudes: Floats, rates: Floats, low: float, high: float) -> tuple[float, float]:
    """The magnitude, in natural units, and the spread of a slot that draws these magnitudes between low and high."""
    # Rounding must not change a single value, nor leave the range.
    mean = float(np.clip(np.average(magnitudes, weights=rates), magnitudes.min(), magnitudes.max()))
    deviation = float(np.sqrt(np.average((magnitudes - mean) ** 2, weights=rates)))
    if high == low or deviation <= _EQUAL * abs(high - low):
        return mean, 0.0
    m, v = (mean - low) / (high - low), deviation / abs(high - low)
    spread = MOST_SPREAD
    if _deviation(m, MOST_SPREAD) > v:
        spread = float(brentq(lambda s: _deviation(m, s) - v, 0.0, MOST_SPREAD, xtol=1e-9))
    return low + (high - low) * float(expit(_logit(m, spread))), spread


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

    return float(brentq(error, -_FARTHEST, _FARTHEST, xtol=1e-9))


def _places(center: float, spread: float) -> tuple[Floats, Floats]:
    nodes, shares = (one.numpy() for one in quadrature(torch.float64, torch.device("cpu")))
    return expit(center + spread * nodes), shares
