"""Summaries of a schedule: its operations, the share of images that each is applied to,
and its regularizers.

The share of images that get an operation is computed from the walk of
hba/policy/draw.py, without drawing. A slot's probability, or its mean over images with
a spread, is how often the slot would fire. Of the slots that fire for an image, in
random order, only the first K are applied: far fewer than the probabilities suggest.

    symbol  in the code    meaning
    f       own            how many copies of the operation fire
    m       others         how many other slots fire
    K       count          how many operations the image may get

All orders of the f + m slots are equally likely: none of the f is among the first K
with C(m, K) / C(f + m, K).
"""

import dataclasses
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from hba.errors import SettingsError
from hba.operations import Operation
from hba.operations.operation import MIXING, WALK
from hba.policy.draw import Floats, count_limits, mean_probabilities, poisson_binomial
from hba.policy.space import SearchSpace
from hba.policy.spaces import SPACES, of_row, randaugment, started
from hba.regularization.groups import find_regularizer, tasks_of
from hba.regularization.regularizer import Hyperparameter
from hba.schedule.schedule import Schedule
from hba.tasks import TASKS, Classification, Task
from hba.utils.text import first_of, number_of


@dataclass(frozen=True)
class OperationSummary:
    """An operation at several epochs, as means over its copies; magnitudes are None for
    an operation without magnitude.

    strength: in [0, 1], the mean over copies of the probability times the distance of
    the magnitude from the identity. shown_magnitudes: the magnitudes to print: the
    mean, or one number for each copy if they lie on both sides of the identity, which
    the mean would hide.
    """

    operation: Operation
    probability: tuple[float, ...]
    magnitude: tuple[float, ...] | None
    strength: tuple[float, ...]
    shown_magnitudes: tuple[tuple[float, ...], ...] | None


@dataclass(frozen=True)
class RegularizerSummary:
    """A regularizer in natural units. began: where the search began or, if unknown, the
    space. values: by epoch.
    """

    hyperparameter: Hyperparameter
    began: float
    values: tuple[float, ...]


class Reach(NamedTuple):
    """Shares of images, in [0, 1], to which a policy applies its operations.

    shares: by operation, the share of images that get a copy of it, whatever its
    magnitude; for mixing, of batches. numbers: the shares of images that get 0, 1, 2,
    ... operations of the walk.
    """

    shares: Mapping[str, float]
    numbers: tuple[float, ...]


def spaced(count: int, most: int) -> list[int]:
    """At most `most` of the indices 0 to count - 1, evenly spaced, including the first
    and the last.
    """
    return np.unique(
        np.linspace(0, count - 1, min(count, most)).round().astype(int)
    ).tolist()


def key_epochs(schedule: Schedule) -> tuple[int, ...]:
    """First, middle and last epoch, counted from 0; fewer for a short schedule."""
    return tuple(sorted({0, schedule.epochs // 2, schedule.epochs - 1}))


def copies_of(schedule: Schedule, operation: Operation, quantity: str) -> np.ndarray:
    """The columns of all copies, (epochs, copies); quantity is probability or
    magnitude.
    """
    names = [f"{prefix}.{quantity}" for prefix in schedule.space.prefixes(operation)]
    return schedule.values[:, [schedule.space.names.index(name) for name in names]]


def used_operations(schedule: Schedule) -> list[Operation]:
    """The operations that are applied in some epoch; empty if the policy augments
    nothing.
    """
    return [
        operation
        for operation in schedule.space.operations
        if copies_of(schedule, operation, "probability").any()
    ]


def band(schedule: Schedule) -> tuple[Schedule, Schedule]:
    """Schedules with values that are one spread of logits below, and above."""
    values = torch.tensor(schedule.values)
    spread = torch.tensor(schedule.spread)
    logits = schedule.space.encode(values)
    moved = (schedule.space.decode(logits + sign * spread) for sign in (-1, 1))
    below, above = (values.where(spread == 0, end).numpy() for end in moved)
    return dataclasses.replace(schedule, values=below), dataclasses.replace(
        schedule, values=above
    )


def summarize(schedule: Schedule, epochs: tuple[int, ...]) -> list[OperationSummary]:
    """Every operation at these epochs (from 0), sorted by the strength at the last,
    strongest first.
    """
    return sorted(
        _summarized(schedule, schedule.values[list(epochs)]),
        key=lambda summary: -summary.strength[-1],
    )


def changes(schedule: Schedule, epoch: int) -> list[OperationSummary]:
    """Every operation at the start of the search and at an epoch (from 0), in the order
    of the space.
    """
    start = start_of(schedule)
    values = np.stack(
        [schedule.values[0] if start is None else start, schedule.values[epoch]]
    )
    return _summarized(schedule, values)


def _summarized(schedule: Schedule, values: np.ndarray) -> list[OperationSummary]:
    rows = dataclasses.replace(schedule, values=values, spread=np.zeros(()))
    summaries = []
    for operation in schedule.space.operations:
        probability = copies_of(rows, operation, "probability")
        strength = probability
        magnitude = None
        shown = None
        if operation.magnitude_range is not None:
            copies = copies_of(rows, operation, "magnitude")
            nothing = operation.neutral
            magnitude = tuple(copies.mean(axis=1).tolist())
            is_split = (
                nothing is not None
                and (
                    (copies.min(axis=1) < nothing) & (nothing < copies.max(axis=1))
                ).any()
            )
            shown = (
                tuple(map(tuple, copies.tolist()))
                if is_split
                else tuple((mean,) for mean in magnitude)
            )
            strength = probability * np.vectorize(operation.strength)(copies)
        mean = tuple(probability.mean(axis=1).tolist())
        strengths = tuple(strength.mean(axis=1).tolist())
        summaries.append(OperationSummary(operation, mean, magnitude, strengths, shown))
    return summaries


def start_logits(schedule: Schedule) -> Tensor | None:
    """The start of the search, as logits (n,); None if it is unknown, as for a schedule
    from elsewhere.
    """
    settings: Any = schedule.provenance.get("settings")
    try:
        if (start := settings.get("init_from")) is not None:
            logits = of_row(schedule.space, start["values"])
        elif settings.get("init") == "randaugment":
            logits = randaugment(schedule.space)
        elif (
            fraction := number_of(settings.get("initial_fraction"), 0, 1)
        ) is not None:
            logits = schedule.space.initial(fraction)
        else:
            return None
        logits = started(schedule.space, logits, settings.get("start"))
        if getattr(SPACES.get(settings.get("space")), "always", False):
            is_searched = dataclasses.replace(schedule.space, always=True).is_searched(
                logits.device
            )
            logits = logits.where(is_searched, torch.inf)
        return logits
    except (SettingsError, AttributeError, KeyError, TypeError, ValueError):
        # Any program may have written the provenance.
        return None


def start_of(schedule: Schedule) -> np.ndarray | None:
    """The start of the search, in natural units (n,); None if it is unknown."""
    logits = start_logits(schedule)
    return None if logits is None else schedule.space.decode(logits.double()).numpy()


def reach(schedule: Schedule, epoch: int) -> Reach:
    """The shares of images to which the policy of an epoch, counted from 0, applies its
    operations.
    """
    space = schedule.space
    copies = schedule.space.copies
    values, spread = (
        torch.tensor(rows[epoch]) for rows in (schedule.values, schedule.spread)
    )
    means = mean_probabilities(space, values, spread)
    fires = [float(means[slot.probability]) for slot in space.slots[space.walk_slots]]
    limits = [0.0, *count_limits(space, means).tolist(), 1.0]
    chances = [after - before for before, after in itertools.pairwise(limits)]
    shares = {}
    for operation in space.operations:
        if operation.stage == WALK:
            continue
        # A batch is mixed without spread.
        row = values if operation.stage == MIXING else means
        shares[operation.name] = float(
            row[space.names.index(f"{operation.name}.probability")]
        )
    if {"Mixup", "CutMix"} <= shares.keys():
        # CutMix mixes a batch only if Mixup does not.
        shares["CutMix"] *= 1 - shares["Mixup"]
    for number, operation in enumerate(space.walk):
        first = number * copies
        end = (number + 1) * copies
        other_fires = fires[:first] + fires[end:]
        shares[operation.name] = 1 - _missed(
            chances, poisson_binomial(fires[first:end]), poisson_binomial(other_fires)
        )
    # All slots that fire are applied, but at most K.
    numbers = [0.0] * len(chances)
    for fired, p_fired in enumerate(poisson_binomial(fires)):
        for count, chance in enumerate(chances):
            numbers[min(fired, count)] += p_fired * chance
    return Reach(shares, tuple(numbers))


def _missed(chances: list[float], own_numbers: Floats, other_numbers: Floats) -> float:
    """The probability that no copy of an operation is applied."""
    return sum(
        chance
        * p_own
        * p_other
        * (math.comb(m, count) / math.comb(f + m, count) if f + m >= count else f == 0)
        for count, chance in enumerate(chances)
        for f, p_own in enumerate(own_numbers)
        for m, p_other in enumerate(other_numbers)
    )


def summarize_regularizers(schedule: Schedule) -> tuple[RegularizerSummary, ...]:
    """All regularizers, in the order of the space; empty if none was tuned."""
    space = schedule.space
    if not space.regularizers:
        return ()
    start = start_of(schedule)
    begun = space.decode(space.initial().double()).numpy() if start is None else start
    return tuple(
        # Six digits hide the rounding of a single-precision logit.
        RegularizerSummary(
            regularizer,
            float(f"{begun[column]:.6g}"),
            tuple(schedule.values[:, column].tolist()),
        )
        for column, regularizer in enumerate(space.regularizers, space.n_of_policy)
    )


def task_of_schedule(schedule: Schedule) -> Task:
    """The task of the search that found a schedule, or of a regularizer that this task
    does not have. A schedule of unknown origin is for images.
    """
    task = TASKS.get(str(schedule.provenance.get("task")), TASKS[Classification.name])
    for hyperparameter in schedule.space.regularizers:
        tasks = tasks_of(find_regularizer(hyperparameter.group))
        if task.name not in tasks:
            return TASKS[tasks[0]]
    return task


def left_out(space: SearchSpace) -> str:
    """Names of the regularizers that are left out with only operations, and where to
    find their values.
    """
    return (
        f"{first_of([regularizer.name for regularizer in space.regularizers], 8)};"
        " schedule.regularization(epoch) has their values"
    )
