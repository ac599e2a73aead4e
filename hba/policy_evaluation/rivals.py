"""Schedules to compare a schedule with, made of itself: which part of what was found is it that helps?"""

import dataclasses
from collections.abc import Callable, Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hba.errors import SettingsError
from hba.policy.space import SearchSpace, Slot
from hba.policy.starts import at_fraction
from hba.schedule.schedule import Schedule
from hba.schedule.summary import start_logits
from hba.utils.seeding import derived_seed

N_PERMUTATIONS = 10

Values = NDArray[np.float64]


def start(schedule: Schedule) -> Schedule:
    """Where the search of this schedule began, throughout: the same space with nothing found in it.

    It is deployed like any schedule, with the mean spread of this one. A schedule that does not tell where its search
    began gets the middle.
    """
    logits = start_logits(schedule)
    return middle(schedule) if logits is None else _of_logits(schedule, logits)


def middle(schedule: Schedule) -> Schedule:
    """In every epoch all probabilities 0.5, all magnitudes in the middle of their range, where Brightness, Color,
    Contrast and Sharpness have no direction; K, where it is searched, by the space's own probabilities. The spread is
    the mean of the schedule's.
    """
    return _of_logits(schedule, at_fraction(schedule.space, 0.5))


def _of_logits(schedule: Schedule, logits: Tensor) -> Schedule:
    values = schedule.space.decode(logits.double())[None].numpy()
    return Schedule(schedule.space, values, schedule.fill, spread=schedule.averaged().spread)


def point(schedule: Schedule) -> Schedule:
    """The bare rows of the schedule."""
    return schedule.with_spread(0.0)


def start_point(schedule: Schedule) -> Schedule:
    """The bare row where the search of this schedule began, throughout."""
    return point(start(schedule))


def static(schedule: Schedule) -> Schedule:
    """The mean of all epochs, throughout, and the mean spread."""
    return _made_of(schedule.averaged())


def final(schedule: Schedule) -> Schedule:
    """The last epoch's policy, throughout."""
    return _made_of(schedule.only(schedule.epochs - 1))


def only_augmentation(schedule: Schedule) -> Schedule:
    """Its policy, without regularizers. Raises SettingsError where it has but one of both."""
    _check_has_both(schedule)
    return _made_of(schedule.without_regularizers())


def only_regularization(schedule: Schedule) -> Schedule:
    """Its regularizers, without operations. Raises SettingsError where it has but one of both."""
    _check_has_both(schedule)
    return _made_of(schedule.without_operations())


def _check_has_both(schedule: Schedule) -> None:
    if not (schedule.space.operations and schedule.space.regularizers):
        raise SettingsError(
            "only-augmentation and only-regularization need a schedule of both operations and regularizers; omit them"
        )


def _made_of(schedule: Schedule) -> Schedule:
    """Nothing that the provenance says is true of it."""
    return dataclasses.replace(schedule, provenance={})


def respread(schedule: Schedule, spread: float | None) -> Schedule:
    """The schedule with one number in the place of its spread, None for its own; see Schedule.with_spread.

    Probabilities have it too, unless the schedule spreads magnitudes alone.
    """
    if spread is None:
        return schedule
    of_probabilities = schedule.spread[:, schedule.space.probability_columns(torch.device("cpu")).numpy()]
    return schedule.with_spread(spread, probabilities=bool(of_probabilities.any() or not schedule.spread.any()))


def shuffled(schedule: Schedule) -> tuple[Schedule, ...]:
    """The same curves, each handed to another operation: ten schedules by ten permutations of the operations.

    In each, operation i takes the curves of operation pi(i): probabilities as they are, magnitudes as fractions of the
    range, each with its spread. What is searched of K stays. An operation with magnitude whose pi(i) has none takes one
    that nobody takes, in their order. The permutations are always the same for a number of operations; none of them is
    the identity. Raises SettingsError for a space of one operation or none.
    """
    n_operations = len(schedule.space.operations)
    if n_operations < 2:
        raise SettingsError(
            f"shuffled needs a schedule of at least two operations, got {'one' if n_operations else 'none'}; omit "
            "shuffled"
        )
    return tuple(_permuted(schedule, permutation) for permutation in _permutations(n_operations))


def _permutations(n: int) -> list[list[int]]:
    generator = torch.Generator().manual_seed(derived_seed(0, "shuffled schedules"))
    found: list[list[int]] = []
    while len(found) < N_PERMUTATIONS:
        permutation: list[int] = torch.randperm(n, generator=generator).tolist()
        if permutation != list(range(n)):
            found.append(permutation)
    return found


def _permuted(schedule: Schedule, permutation: list[int]) -> Schedule:
    """permutation[i] is pi(i)."""
    space = schedule.space
    has_magnitude = [operation.magnitude_range is not None for operation in space.operations]
    taken = {giver for taker, giver in enumerate(permutation) if has_magnitude[taker]}
    left_over = iter(giver for giver in range(len(permutation)) if has_magnitude[giver] and giver not in taken)
    magnitude_source = {
        taker: giver if has_magnitude[giver] else next(left_over)
        for taker, giver in enumerate(permutation)
        if has_magnitude[taker]
    }
    values, spread = schedule.values.copy(), schedule.spread.copy()
    for source, column in ((dict(enumerate(permutation)), _probability), (magnitude_source, _magnitude)):
        for to, of in _columns(space, source, column):
            values[:, to] = _carried(schedule.values[:, of], space.ranges[of], space.ranges[to])
            spread[:, to] = schedule.spread[:, of]
    return Schedule(space, values, schedule.fill, spread=spread)


def _probability(slot: Slot) -> int:
    return slot.probability


def _magnitude(slot: Slot) -> int:
    assert slot.magnitude is not None
    return slot.magnitude


def _columns(space: SearchSpace, source: dict[int, int], column: Callable[[Slot], int]) -> Iterator[tuple[int, int]]:
    """Of each operation and copy, the column that takes, and the one of its source's that is taken."""
    for taker, giver in source.items():
        for copy in range(space.copies):
            to, of = (column(space.slots[operation * space.copies + copy]) for operation in (taker, giver))
            yield to, of


def _carried(curve: Values, of: tuple[float, float], to: tuple[float, float]) -> Values:
    """A curve at the same positions of another range."""
    (source_low, source_high), (low, high) = of, to
    # A range of a single magnitude has no positions.
    width = source_high - source_low
    position = (curve - source_low) / width if width else np.zeros(len(curve))
    return np.clip(low + (high - low) * position, min(low, high), max(low, high))
