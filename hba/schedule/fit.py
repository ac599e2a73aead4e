"""Fits a schedule of hba to a policy of another kind: a list of sub-policies, one of
which is applied to an image.

A sub-policy is a sequence of independent steps. A step applies at most one of its
choices. RandAugment is one sub-policy of two steps, each with a choice for each
operation; TrivialAugment is one step with a choice for each operation and strength.
docs/pipelines.md describes what the schedule matches and what it cannot.

    symbol  meaning                                                           shape
    w       wanted: how often an image gets each slot, half of its            (n_slots,)
            operation's rate
    N_s     wanted: probability of s operations or more, s = 1, ..., S        (S,)
    p       probabilities of the slots                                        (n_slots,)
    F_s     probability that s slots or more fire, given p                    (S,)
    T_s     probability that K is s or more                                   (S,)
    r       how often an image gets each slot, given p and T                  (n_slots,)
            (hba/policy/draw.py)
    m, v    mean and standard deviation of magnitudes, as fractions of the
            operation's range
    l, s    logit of a slot's magnitude, and its spread in logits, at most
            MOST_SPREAD

An image gets s operations or more if K is s or more and at least s slots fire, so N_s =
T_s F_s. The fit iterates

    T_s = min(T_{s-1}, N_s / F_s),      p_i <- p_i w_i / r_i,      p <- top p / max p,

until r = w. A common factor of all p is free: `top`, the largest p, is the first of
TOPS that reaches w. A low one leaves more room to a search that starts there; if few
operations are wanted often, only 1 reaches w. If none does, as for an operation that an
image always gets three times from two slots, the fit uses the closest.

Magnitudes are sorted and cut into two halves of equal weight, so that two slots can lie
on both sides of the identity. For each half, l and s are chosen so that sigmoid(l + s
eps), eps standard normal, has the mean m and, within MOST_SPREAD, the deviation v. The
mean logit cannot be used, because it is infinite at an end of the range.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.optimize import brentq
from scipy.special import expit, logit

from hba.errors import ScheduleError
from hba.operations import OPERATIONS, Operation
from hba.policy.draw import Floats, applied, poisson_binomial, quadrature
from hba.policy.space import SearchSpace
from hba.schedule.schedule import Schedule

COPIES = 2
TOPS = (0.5, 0.7, 0.85, 0.95, 0.99, 1.0)
TOLERANCE = 1e-6
"""Largest difference of a rate."""
N_ROUNDS = 300
MOST_SPREAD = 3.0
"""Largest spread for which hba computes means to four digits."""
_FARTHEST = 60.0
"""A logit that is an end of the range, up to rounding."""
_EQUAL = 1e-6
"""A standard deviation, as a fraction of the range, that changes no pixel."""


class Choice(NamedTuple):
    """chance: its probability in the step. magnitude: in hba's units, without a sign if
    hba draws it; may be None.
    """

    operation: str
    chance: float
    magnitude: float | None = None


class SubPolicy(NamedTuple):
    """steps: the choices of each step. weight: proportional to the probability of the
    sub-policy.
    """

    steps: tuple[tuple[Choice, ...], ...]
    weight: float = 1.0


class Fit(NamedTuple):
    """probabilities: p (n_slots,). reached: T (S,). rates: r (n_slots,). error: the
    largest difference of r to w.
    """

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
    """Return the fitted schedule, with the same policy in each epoch.

    origin: first entries of its provenance. notes: what hba does differently.
    Operations that hba lacks are left out. Ranges are hba's, or wider if the policy
    needs it. Raises ScheduleError if the policy has none of hba's operations.
    """
    total = math.fsum(sub_policy.weight for sub_policy in policy)
    rate_of: dict[str, float] = defaultdict(float)
    by_magnitude: dict[str, dict[float | None, float]] = defaultdict(
        lambda: defaultdict(float)
    )
    for sub_policy in policy:
        for choice in itertools.chain(*sub_policy.steps):
            if (rate := sub_policy.weight / total * choice.chance) > 0:
                rate_of[choice.operation] += rate
                by_magnitude[choice.operation][choice.magnitude] += rate
    rates = {name: rate_of[name] for name in OPERATIONS if name in rate_of}
    if not rates:
        raise ScheduleError(
            "the policy applies none of hba's operations, but"
            f" {', '.join(rate_of) or 'nothing'}"
        )
    weighted = [
        np.array(sorted(by_magnitude[name].items(), reverse=True), dtype=float).T
        for name in rates
    ]
    operations = [
        _wide_enough(OPERATIONS[name].with_interpolation(interpolation), magnitudes)
        for name, (magnitudes, _) in zip(rates, weighted, strict=True)
    ]
    of_operations = np.array(list(rates.values()))
    of_slots = np.repeat(of_operations / COPIES, COPIES)
    fit = fitted(of_slots, at_least(policy)[: len(of_slots)])
    count = [
        max(0.0, float(more - less))
        for more, less in itertools.pairwise([1.0, *fit.reached, 0.0])
    ]
    space = SearchSpace(tuple(operations), COPIES, tuple(count), searches_count=True)
    values = np.zeros(space.n)
    spread = np.zeros(space.n)
    for number, slot in enumerate(space.slots):
        values[slot.probability] = fit.probabilities[number]
        if (column := slot.magnitude) is not None:
            magnitudes, of_each = weighted[number // COPIES]
            half = halves(of_each)[number % COPIES]
            values[column], spread[column] = spread_of(
                magnitudes[half > 0], half[half > 0], *space.ranges[column]
            )
    reached = np.array([1.0, *fit.reached])
    values[-space.max_count :] = reached[1:] / reached[:-1]
    ranges = {operation.name: operation.magnitude_range for operation in operations}
    provenance = {
        **origin,
        "sub_policies": len(policy),
        "operations_of_an_image": sum(rates.values()),
        "rates": rates,
        "largest_rate_difference": float(
            np.abs(fit.rates.reshape(-1, COPIES).sum(axis=1) - of_operations).max()
        ),
        "left_out": {
            name: rate / sum(rate_of.values())
            for name, rate in rate_of.items()
            if name not in rates
        },
        "widened": {
            name: list(wide or ())
            for name, wide in ranges.items()
            if wide != OPERATIONS[name].magnitude_range
        },
        "not_expressed": ["which operations come together, and in which order", *notes],
    }
    return Schedule(
        space, np.tile(values, (epochs, 1)), fill, provenance, spread=spread
    )


def _wide_enough(operation: Operation, magnitudes: Floats) -> Operation:
    """The operation with a range that contains all magnitudes, which are in descending
    order.
    """
    if operation.magnitude_range is None:
        return operation
    low, high = operation.magnitude_range
    return operation.with_range(
        (min(low, float(magnitudes[-1])), max(high, float(magnitudes[0])))
    )


def at_least(policy: Sequence[SubPolicy]) -> Floats:
    """N: probabilities that an image gets at least 1, 2, ... of hba's operations, up to
    the largest possible number.
    """
    total = math.fsum(sub_policy.weight for sub_policy in policy)
    numbers = np.zeros(max(len(sub_policy.steps) for sub_policy in policy) + 1)
    for sub_policy in policy:
        chances = (
            math.fsum(
                choice.chance for choice in step if choice.operation in OPERATIONS
            )
            for step in sub_policy.steps
        )
        of_policy = poisson_binomial(min(1.0, chance) for chance in chances)
        numbers[: len(of_policy)] += sub_policy.weight / total * of_policy
    numbers = numbers[: np.flatnonzero(numbers > 0)[-1] + 1]
    return np.minimum(np.cumsum(numbers[::-1])[::-1][1:], 1.0)


def fitted(goal: Floats, at_least: Floats) -> Fit:
    """Fit p and T. goal: w. at_least: N, at most 1 and not increasing; S is at most
    n_slots.
    """
    fits = []
    for top in TOPS:
        probabilities = top * goal / goal.max()
        for _ in range(N_ROUNDS):
            fired = np.cumsum(poisson_binomial(probabilities)[::-1])[::-1][
                1 : len(at_least) + 1
            ]
            reached = np.minimum.accumulate(np.minimum(1.0, at_least / fired))
            rates = applied(probabilities, 1 - reached).sum(axis=0)
            fit = Fit(probabilities, reached, rates, float(np.abs(rates - goal).max()))
            if fit.error < TOLERANCE:
                return fit
            moved = probabilities * goal / np.maximum(rates, np.finfo(float).tiny)
            probabilities = np.minimum(1.0, top * moved / moved.max())
        fits.append(fit)
    return min(fits, key=lambda fit: fit.error)


def halves(rates: Floats) -> tuple[Floats, Floats]:
    """Split the rates of sorted magnitudes into a first and a second part with equal
    totals.
    """
    before = np.concatenate([[0.0], np.cumsum(rates)[:-1]])
    first = np.minimum(rates, np.maximum(0.0, math.fsum(rates) / 2 - before))
    second = rates - first
    return first, second if second.any() else first


def spread_of(
    magnitudes: Floats, rates: Floats, low: float, high: float
) -> tuple[float, float]:
    """The magnitude, in natural units, and the spread of a slot that draws these
    magnitudes between low and high.
    """
    # Rounding must not change a single value or leave the range.
    mean = float(
        np.clip(
            np.average(magnitudes, weights=rates), magnitudes.min(), magnitudes.max()
        )
    )
    deviation = float(np.sqrt(np.average((magnitudes - mean) ** 2, weights=rates)))
    if high == low or deviation <= _EQUAL * abs(high - low):
        return mean, 0.0
    m = (mean - low) / (high - low)
    v = deviation / abs(high - low)

    def center(s: float) -> float:
        """The l for which the mean is m, in (0, 1)."""
        place = (
            logit(m)
            if s == 0
            else brentq(
                lambda at: _moments(at, s)[0] - m, -_FARTHEST, _FARTHEST, xtol=1e-9
            )
        )
        return float(place)

    def excess(s: float) -> float:
        return _moments(center(s), s)[1] - v

    spread = (
        float(brentq(excess, 0.0, MOST_SPREAD, xtol=1e-9))
        if excess(MOST_SPREAD) > 0
        else MOST_SPREAD
    )
    return low + (high - low) * float(expit(center(spread))), spread


def _moments(center: float, spread: float) -> tuple[float, float]:
    """Mean and standard deviation of sigmoid(center + spread eps)."""
    nodes, shares = (
        values.numpy() for values in quadrature(torch.float64, torch.device("cpu"))
    )
    places = expit(center + spread * nodes)
    mean = shares @ places
    return float(mean), math.sqrt(max(0.0, float(shares @ places**2 - mean**2)))
