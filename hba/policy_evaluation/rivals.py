"""Schedules to compare a schedule with, made of itself: which part of what was found is it that helps?"""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hba.errors import SettingsError
from hba.policy.space import SearchSpace, Slot
from hba.runtime.seeding import derived_seed
from hba.schedule.schedule import Schedule

N_PERMUTATIONS = 10

Values = NDArray[np.float64]


def start(schedule: Schedule) -> Schedule:
    """Where the search of this schedule began, throughout: the same space with nothing found in it.

    It is deployed like any schedule. A schedule that does not tell where its search began gets the middle.
    """
    settings = schedule.provenance.get("settings")
    fraction = settings.get("initial_fraction") if isinstance(settings, dict) else None
    if not isinstance(fraction, float) or not 0 < fraction < 1:
        return middle(schedule)
    return _of_logits(schedule, schedule.space.initial(fraction))


def middle(schedule: Schedule) -> Schedule:
    """In every epoch all probabilities 0.5, all magnitudes in the middle of their range, where Brightness, Color,
    Contrast and Sharpness do nothing. The default search begins there.
    """
    return _of_logits(schedule, torch.zeros(schedule.space.n))


def _of_logits(schedule: Schedule, logits: Tensor) -> Schedule:
    return Schedule(schedule.space, schedule.space.decode(logits.double())[None].numpy(), schedule.fill)


def static(schedule: Schedule) -> Schedule:
    """The mean of all epochs, throughout."""
    values = schedule.values
    # Rounding must not carry a mean past the end of its range.
    mean = np.clip(values.mean(axis=0), values.min(axis=0), values.max(axis=0))
    return Schedule(schedule.space, mean[None], schedule.fill)


def final(schedule: Schedule) -> Schedule:
    """The last epoch's policy, throughout."""
    return Schedule(schedule.space, schedule.values[-1:], schedule.fill)


def shuffled(schedule: Schedule) -> tuple[Schedule, ...]:
    """The same curves, each handed to another operation: ten schedules by ten permutations of the operations.

    In each, operation i takes the curves of operation pi(i): probabilities as they are, magnitudes as fractions of the
    range. An operation with magnitude whose pi(i) has none takes one that nobody takes, in their order. The
    permutations are always the same for a number of operations; none of them is the identity. Raises SettingsError
    for a space of a single operation.
    """
    n_operations = len(schedule.space.operations)
    if n_operations < 2:
        raise SettingsError("shuffled needs a schedule of at least two operations, got one; omit shuffled")
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
    values = schedule.values.copy()
    _take(space, schedule.values, values, dict(enumerate(permutation)), lambda slot: slot.probability)
    _take(space, schedule.values, values, magnitude_source, lambda slot: slot.magnitude)
    return Schedule(space, values, schedule.fill)


def _take(
    space: SearchSpace, old: Values, new: Values, source: dict[int, int], column: Callable[[Slot], int | None]
) -> None:
    """Fill the columns of each operation, a column for each copy, by the positions in the range of its source's."""
    for taker, giver in source.items():
        for copy in range(space.copies):
            to, of = (column(space.slots[operation * space.copies + copy]) for operation in (taker, giver))
            assert to is not None
            assert of is not None
            (low, high), (source_low, source_high) = space.ranges[to], space.ranges[of]
            # A range of a single magnitude has no positions.
            width = source_high - source_low
            position = (old[:, of] - source_low) / width if width else np.zeros(len(old))
            new[:, to] = np.clip(low + (high - low) * position, min(low, high), max(low, high))
