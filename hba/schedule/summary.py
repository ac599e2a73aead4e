"""What a schedule amounts to: operation by operation, in images that operations reach, and in regularizers.

How many images an operation reaches is computed from the walk of hba/policy/draw.py, without drawing. A slot's
probability says how often it would fire; where that is spread, it is its mean over images. Of the slots that fire for
an image, in random order, only the first K are applied: far fewer than the probabilities suggest.

    symbol  in the code    meaning
    f       own            how many copies of the operation fire
    m       others         how many other slots fire
    K       count          how many operations the image may get

All orders of the f + m slots are equally likely: none of the f is among the first K with C(m, K) / C(f + m, K).
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
from hba.regularization.groups import find_regularizer
from hba.regularization.regularizer import Hyperparameter
from hba.schedule.file import FORMER_GROUPS
from hba.schedule.schedule import Schedule
from hba.utils.text import first_of, number_of


@dataclass(frozen=True)
class OperationSummary:
    """One operation at several epochs, as means over its copies; magnitudes are None for an operation without one.

    strength: in [0, 1], mean over copies of probability times how far the magnitude is from doing nothing.
    shown_magnitudes: what a person should read: that mean, or one number for each copy where they are on both sides of
    what does nothing, which the mean hides. moved: how far a copy moved from the first to the last of the epochs, as
    the mean over copies; the larger of the moves of both numbers, as a share of its range, in [0, 1].
    """

    operation: Operation
    probability: tuple[float, ...]
    magnitude: tuple[float, ...] | None
    strength: tuple[float, ...]
    shown_magnitudes: tuple[tuple[float, ...], ...] | None
    moved: float


@dataclass(frozen=True)
class RegularizerSummary:
    """One regularizer in natural units. began: where the search or, if unknown, the space begins. values: by epoch."""

    hyperparameter: Hyperparameter
    began: float
    values: tuple[float, ...]


class Reach(NamedTuple):
    """What share of images a policy reaches, in [0, 1].

    shares: by operation, of images to which a copy of it is applied, whether its magnitude changes anything or not; of
    mixing, of batches. numbers: of images to which 0, 1, 2, ... operations of the walk are applied.
    """

    shares: Mapping[str, float]
    numbers: tuple[float, ...]


def spaced(count: int, most: int) -> list[int]:
    """At most so many of the indices 0 to count - 1, evenly spaced, the first and the last among them."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int)).tolist()


def key_epochs(schedule: Schedule) -> tuple[int, ...]:
    """First, middle and last epoch, counted from 0; fewer for a short schedule."""
    return tuple(sorted({0, schedule.epochs // 2, schedule.epochs - 1}))


def copies_of(schedule: Schedule, operation: Operation, kind: str) -> np.ndarray:
    """The columns of all copies, (epochs, copies); kind is probability or magnitude."""
    names = [f"{prefix}.{kind}" for prefix in schedule.space.prefixes(operation)]
    return schedule.values[:, [schedule.space.names.index(name) for name in names]]


def used_operations(schedule: Schedule) -> list[Operation]:
    """The operations that are applied in some epoch; all where none is."""
    operations = schedule.space.operations
    return [one for one in operations if copies_of(schedule, one, "probability").any()] or [*operations]


def band(schedule: Schedule) -> tuple[Schedule, Schedule]:
    """The schedules whose rows are one spread of logits below, and above."""
    values, spread = torch.tensor(schedule.values), torch.tensor(schedule.spread)
    logits = schedule.space.encode(values)
    moved = (schedule.space.decode(logits + sign * spread) for sign in (-1, 1))
    below, above = (values.where(spread == 0, one).numpy() for one in moved)
    return dataclasses.replace(schedule, values=below), dataclasses.replace(schedule, values=above)


def summarize(schedule: Schedule, epochs: tuple[int, ...]) -> list[OperationSummary]:
    """Every operation at these epochs (from 0), the strongest at the last of them first."""
    summaries = _summarized(schedule, schedule.values[list(epochs)])
    return sorted(summaries, key=lambda summary: -summary.strength[-1])


def changes(schedule: Schedule, epoch: int) -> list[OperationSummary]:
    """Every operation where the search began and at an epoch (from 0), what moved most first."""
    start = start_of(schedule)
    values = np.stack([schedule.values[0] if start is None else start, schedule.values[epoch]])
    return sorted(_summarized(schedule, values), key=lambda summary: -summary.moved)


def _summarized(schedule: Schedule, values: np.ndarray) -> list[OperationSummary]:
    rows, found = dataclasses.replace(schedule, values=values, spread=np.zeros(())), []
    for operation in schedule.space.operations:
        probability = copies_of(rows, operation, "probability")
        # Copies that move in opposite directions must not cancel out.
        moved = float(abs(probability[-1] - probability[0]).mean())
        strength, magnitude, shown = probability, None, None
        if operation.magnitude_range is not None:
            copies, (low, high) = copies_of(rows, operation, "magnitude"), operation.magnitude_range
            moved = max(moved, float(abs(copies[-1] - copies[0]).mean()) / abs(high - low) if high != low else 0.0)
            magnitude, shown = tuple(copies.mean(axis=1).tolist()), _shown(operation, copies)
            strength = probability * np.vectorize(operation.strength)(copies)
        mean, strengths = tuple(probability.mean(axis=1).tolist()), tuple(strength.mean(axis=1).tolist())
        found.append(OperationSummary(operation, mean, magnitude, strengths, shown, moved))
    return found


def _shown(operation: Operation, copies: np.ndarray) -> tuple[tuple[float, ...], ...]:
    """By row of magnitudes (epochs, copies): the mean, or each copy where the mean would hide opposite ones."""
    nothing = operation.identity
    is_split = nothing is not None and ((copies.min(axis=1) < nothing) & (nothing < copies.max(axis=1))).any()
    return tuple(tuple(row) for row in (copies if is_split else copies.mean(axis=1, keepdims=True)).tolist())


def start_logits(schedule: Schedule) -> Tensor | None:
    """Where the search began, as logits (n,); None where that is unknown, as for a schedule from elsewhere."""
    settings: Any = schedule.provenance.get("settings")
    try:
        if not FORMER_GROUPS.isdisjoint(settings.get("tune", ())):
            return None
        if (start := settings.get("init_from")) is not None:
            found = of_row(schedule.space, start["values"])
        elif settings.get("init") == "randaugment":
            found = randaugment(schedule.space)
        elif (fraction := number_of(settings.get("initial_fraction"), 0, 1)) is not None:
            found = schedule.space.initial(fraction)
        else:
            return None
        found = started(schedule.space, found, settings.get("start"))
        if getattr(SPACES.get(settings.get("space")), "always", False):
            is_searched = dataclasses.replace(schedule.space, always=True).is_searched(found.device)
            found = found.where(is_searched, torch.inf)
        return found
    except (SettingsError, AttributeError, KeyError, TypeError, ValueError):
        # Provenance may have been written by any program.
        return None


def start_of(schedule: Schedule) -> np.ndarray | None:
    """Where the search began, in natural units (n,); None where that is unknown."""
    logits = start_logits(schedule)
    return None if logits is None else schedule.space.decode(logits.double()).numpy()


def reach(schedule: Schedule, epoch: int) -> Reach:
    """What the policy of an epoch, counted from 0, reaches."""
    space, copies = schedule.space, schedule.space.copies
    values, spread = (torch.tensor(rows[epoch]) for rows in (schedule.values, schedule.spread))
    means = mean_probabilities(space, values, spread)
    fires = [float(means[slot.probability]) for slot in space.slots[space.walk_slots]]
    limits = [0.0, *count_limits(space, means).tolist(), 1.0]
    chances = [after - before for before, after in itertools.pairwise(limits)]
    shares = {}
    for one in (one for one in space.operations if one.stage != WALK):
        # A batch is mixed without spread.
        row = values if one.stage == MIXING else means
        shares[one.name] = float(row[space.names.index(f"{one.name}.probability")])
    if {"Mixup", "CutMix"} <= shares.keys():
        # A batch is mixed by CutMix only if it is not by Mixup.
        shares["CutMix"] *= 1 - shares["Mixup"]
    for number, operation in enumerate(space.walk):
        first, end = number * copies, (number + 1) * copies
        others = fires[:first] + fires[end:]
        shares[operation.name] = 1 - _missed(chances, poisson_binomial(fires[first:end]), poisson_binomial(others))
    # As many are applied as fire, but at most K.
    numbers = [0.0] * len(chances)
    for fired, p_fired in enumerate(poisson_binomial(fires)):
        for count, chance in enumerate(chances):
            numbers[min(fired, count)] += p_fired * chance
    return Reach(shares, tuple(numbers))


def _missed(chances: list[float], own: Floats, others: Floats) -> float:
    """The probability that no copy of an operation is applied."""
    return sum(
        chance * p_own * p_others * (math.comb(m, count) / math.comb(f + m, count) if f + m >= count else f == 0)
        for count, chance in enumerate(chances)
        for f, p_own in enumerate(own)
        for m, p_others in enumerate(others)
    )


def summarize_regularizers(schedule: Schedule) -> tuple[RegularizerSummary, ...]:
    """All of them, in the order of the space; empty where none was tuned."""
    space = schedule.space
    if not space.regularizers:
        return ()
    start = start_of(schedule)
    begun = space.decode(space.initial().double()).numpy() if start is None else start
    return tuple(
        # Six digits leave out what a logit of single precision adds.
        RegularizerSummary(one, float(f"{begun[column]:.6g}"), tuple(schedule.values[:, column].tolist()))
        for column, one in enumerate(space.regularizers, space.n_of_policy)
    )


def is_of_text(schedule: Schedule) -> bool:
    """Whether a search on text found it, or it tunes what only language models have."""
    own = (find_regularizer(one.group).place == "states" for one in schedule.space.regularizers)
    return "vocabulary_size" in schedule.provenance or any(own)


def not_shown(space: SearchSpace) -> tuple[str, ...]:
    """Names of mixing and regularizers, which no picture of single images shows."""
    return (*(one.name for one in space.mixing), *(one.name for one in space.regularizers))


def left_out(space: SearchSpace) -> str:
    """What is left out where only operations are taken, and where to find it."""
    return f"{first_of([one.name for one in space.regularizers], 8)}; schedule.regularization(epoch) has their values"
