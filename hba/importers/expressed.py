"""A policy of another kind as a schedule of hba: the closest that our space has, and what is lost.

of the policy                                             in the schedule
how many operations an image gets                         the distribution of K
how often it gets each operation                          probabilities of the two slots of each (fit.py)
an operation's magnitudes                                 magnitude and spread of the two slots (magnitudes.py)
which operations come together, and in which order        not expressed: slots are independent, in any order
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hba.errors import ScheduleError
from hba.importers.fit import Fit, fitted
from hba.importers.magnitudes import halves, spread_of
from hba.importers.sub_policies import SubPolicy, magnitudes_of, numbers_of, rates_of, without
from hba.operations import OPERATIONS, Operation
from hba.policy.space import SearchSpace
from hba.schedule.schedule import Schedule

COPIES = 2
NOT_EXPRESSED = "which operations come together, and in which order"


@dataclass(frozen=True)
class Origin:
    """Where a policy is from. algorithm, source: as the provenance has them. notes: what hba does otherwise.
    facts: more for the provenance.
    """

    algorithm: str
    source: str
    notes: tuple[str, ...] = ()
    interpolation: str = "nearest"
    facts: Mapping[str, Any] = field(default_factory=dict)


def expressed(policy: Sequence[SubPolicy], origin: Origin, epochs: int, fill: tuple[float, ...]) -> Schedule:
    """The schedule, with the same row for each epoch.

    Operations that hba has not are left out. Ranges are those of hba's operations, wider where the policy is. Raises
    ScheduleError for a policy that applies none of hba's operations.
    """
    wanted = rates_of(policy)
    lost = {name: rate for name, rate in wanted.items() if name not in OPERATIONS}
    kept = without(policy, set(lost))
    rates = {name: wanted[name] for name in OPERATIONS if name in wanted}
    if not rates:
        raise ScheduleError(
            "the policy applies none of hba's operations"
            + (f"; it has {', '.join(lost)}" if lost else ", each probability is 0")
        )
    operations = [_operation(kept, name, origin.interpolation) for name in rates]
    of_slots = np.repeat(np.array(list(rates.values())) / COPIES, COPIES)
    at_least = np.cumsum(numbers_of(kept)[::-1])[::-1][1 : len(of_slots) + 1]
    fit = fitted(of_slots, np.minimum(at_least, 1.0))
    space = _space(operations, fit)
    values, spread = _rows(space, kept, fit)
    total = sum(wanted.values())
    reached = fit.rates.reshape(-1, COPIES).sum(axis=1)
    provenance = {
        "algorithm": origin.algorithm,
        "source": origin.source,
        "sub_policies": len(policy),
        "operations_of_an_image": sum(rates.values()),
        "rates": rates,
        "largest_rate_difference": float(np.abs(reached - np.array(list(rates.values()))).max()),
        "left_out": {name: rate / total for name, rate in lost.items()},
        "widened": {
            one.name: list(one.magnitude_range or ())
            for one in operations
            if one.magnitude_range != OPERATIONS[one.name].magnitude_range
        },
        "not_expressed": [NOT_EXPRESSED, *origin.notes],
        **origin.facts,
    }
    return Schedule(space, np.tile(values, (epochs, 1)), fill, provenance, spread=spread)


def _operation(policy: Sequence[SubPolicy], name: str, interpolation: str) -> Operation:
    """hba's own, with room for the magnitudes of the policy."""
    operation = OPERATIONS[name].with_interpolation(interpolation)
    if operation.magnitude_range is None:
        return operation
    magnitudes = [one.magnitude for one in magnitudes_of(policy, name)]
    low, high = operation.magnitude_range
    return operation.with_range((min(low, *magnitudes), max(high, *magnitudes)))


def _space(operations: Sequence[Operation], fit: Fit) -> SearchSpace:
    at_least = [1.0, *fit.reached, 0.0]
    count = [max(0.0, float(more - less)) for more, less in itertools.pairwise(at_least)]
    return SearchSpace(tuple(operations), COPIES, tuple(count), searches_count=True)


def _rows(space: SearchSpace, policy: Sequence[SubPolicy], fit: Fit) -> tuple[np.ndarray, np.ndarray]:
    """Values and spread (n,)."""
    values, spread = np.zeros(space.n), np.zeros(space.n)
    for number, slot in enumerate(space.slots):
        values[slot.probability] = fit.probabilities[number]
        if slot.magnitude is not None:
            half = halves(magnitudes_of(policy, slot.operation.name))[number % COPIES]
            values[slot.magnitude], spread[slot.magnitude] = spread_of(half, *space.ranges[slot.magnitude])
    at_least = np.array([1.0, *fit.reached])
    values[-space.max_count :] = at_least[1:] / at_least[:-1]
    return values, spread
