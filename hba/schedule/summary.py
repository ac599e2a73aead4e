"""What a schedule amounts to, operation by operation."""

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hba.errors import SettingsError
from hba.operations import Operation
from hba.policy.draw import count_limits, mean_probabilities, moved_by, quadrature
from hba.policy.rates import Floats, applied, poisson_binomial
from hba.policy.space import SearchSpace
from hba.policy.starts import at_fraction, of_row, randaugment
from hba.regularization.groups import find_regularizer
from hba.regularization.hyperparameter import Hyperparameter
from hba.schedule.schedule import Schedule
from hba.utils.provenance import number_of
from hba.utils.text import first_of

Pair = tuple[float, float]


@dataclass(frozen=True)
class OperationSummary:
    """One operation at several epochs, as means over its copies.

    probability: per epoch. magnitude: per epoch in natural units, None for an operation without magnitude. strength:
    per epoch, mean over copies of probability times how far the magnitude is from doing nothing, in [0, 1]; where they
    are spread, of the means of both over images. shown_magnitudes: per epoch, what a person should read: one number,
    that mean, or one for each copy where they are on both sides of what does nothing, which the mean hides.
    """

    operation: Operation
    probability: tuple[float, ...]
    magnitude: tuple[float, ...] | None
    strength: tuple[float, ...]
    shown_magnitudes: tuple[tuple[float, ...], ...] | None


def key_epochs(schedule: Schedule) -> tuple[int, ...]:
    """First, middle and last epoch, counted from 0; fewer for a short schedule."""
    return tuple(sorted({0, schedule.epochs // 2, schedule.epochs - 1}))


def copies_of(schedule: Schedule, operation: Operation, kind: str) -> np.ndarray:
    """The columns of all copies, (epochs, copies); kind is probability or magnitude."""
    names = [f"{operation.name}.{copy}.{kind}" for copy in range(1, schedule.space.copies + 1)]
    return schedule.values[:, [schedule.space.names.index(name) for name in names]]


def band(schedule: Schedule) -> tuple[Schedule, Schedule]:
    """The schedules of rows that are one spread of logits below, and above."""
    values, spread = torch.tensor(schedule.values), torch.tensor(schedule.spread)
    below, above = (moved_by(schedule.space, values, sign * spread).numpy() for sign in (-1, 1))
    return dataclasses.replace(schedule, values=below), dataclasses.replace(schedule, values=above)


def summarize(schedule: Schedule, epochs: tuple[int, ...]) -> list[OperationSummary]:
    """Every operation at these epochs (from 0), the strongest at the last of them first."""
    rows = dataclasses.replace(schedule, values=schedule.values[list(epochs)], spread=schedule.spread[list(epochs)])
    around = _around(rows)
    summaries = [_summarize(rows, around, operation) for operation in schedule.space.operations]
    return sorted(summaries, key=lambda summary: -summary.strength[-1])


def _around(rows: Schedule) -> list[tuple[float, Schedule]]:
    """Schedules whose rows stand for those of images, with the share of images that each stands for."""
    if not rows.spread.any():
        return [(1.0, rows)]
    values, spread = torch.tensor(rows.values), torch.tensor(rows.spread)
    nodes, weights = quadrature(values.dtype, values.device)
    return [
        (weight, dataclasses.replace(rows, values=moved_by(rows.space, values, node * spread).numpy()))
        for node, weight in zip(nodes.tolist(), weights.tolist(), strict=True)
    ]


def _summarize(rows: Schedule, around: list[tuple[float, Schedule]], operation: Operation) -> OperationSummary:
    probability = copies_of(rows, operation, "probability")
    # Independent of the magnitude, so the mean of the product is the product of the means.
    strength = sum(weight * copies_of(one, operation, "probability") for weight, one in around)
    magnitude, shown = None, None
    if operation.magnitude_range is not None:
        copies = copies_of(rows, operation, "magnitude")
        magnitude, shown = tuple(copies.mean(axis=1).tolist()), _shown(operation, copies)
        far = np.vectorize(operation.strength)
        strength *= sum(weight * far(copies_of(one, operation, "magnitude")) for weight, one in around)
    mean, strengths = tuple(probability.mean(axis=1).tolist()), tuple(np.mean(strength, axis=1).tolist())
    return OperationSummary(operation, mean, magnitude, strengths, shown)


@dataclass(frozen=True)
class Change:
    """What a search made of one operation: (from, to).

    probability: means over the operation's copies. magnitude: in natural units, None for an operation without
    magnitude; one number, the mean over copies, or one for each copy where they are on both sides of what does nothing,
    before or after. size: how far a copy moved, as the mean over copies; the larger of both moves, as a share of its
    range, in [0, 1].
    """

    operation: Operation
    probability: Pair
    magnitude: tuple[tuple[float, ...], tuple[float, ...]] | None
    size: float


def changes(schedule: Schedule, epoch: int) -> list[Change]:
    """Every operation from where the search began to an epoch (from 0), what changed most first."""
    start = start_of(schedule)
    values = schedule.values[0] if start is None else start
    pair = dataclasses.replace(
        schedule, values=np.stack([values, schedule.values[epoch]]), spread=schedule.spread[epoch]
    )
    return sorted((_change(pair, operation) for operation in pair.space.operations), key=lambda change: -change.size)


def start_logits(schedule: Schedule) -> Tensor | None:
    """Where the search began, as logits (n,); None where nobody knows, as for a schedule from elsewhere."""
    settings = schedule.provenance.get("settings")
    if not isinstance(settings, dict):
        return None
    start = settings.get("init_from")
    if isinstance(start, dict):
        return _start_of_row(schedule, start.get("values"))
    if settings.get("init") == "randaugment":
        return randaugment(schedule.space)
    fraction = number_of(settings.get("initial_fraction"), 0, 1)
    return None if fraction is None else at_fraction(schedule.space, fraction)


_ANY = (-1e9, 1e9)
"""What a row may hold in natural units."""


def _start_of_row(schedule: Schedule, row: Any) -> Tensor | None:
    """row: of the schedule where the search began, as hba.algorithms.start keeps it; None where it is none."""
    if not isinstance(row, dict) or any(number_of(value, *_ANY) is None for value in row.values()):
        return None
    try:
        return of_row(schedule.space, row)
    except SettingsError:
        return None


def start_of(schedule: Schedule) -> np.ndarray | None:
    """The same in natural units."""
    logits = start_logits(schedule)
    return None if logits is None else schedule.space.decode(logits.double()).numpy()


def _change(pair: Schedule, operation: Operation) -> Change:
    probability = copies_of(pair, operation, "probability")
    size, magnitude = _mean_move(probability), None
    if operation.magnitude_range is not None:
        copies = copies_of(pair, operation, "magnitude")
        low, high = operation.magnitude_range
        size = max(size, _mean_move(copies) / abs(high - low) if high != low else 0.0)
        before_and_after = _shown(operation, copies)
        magnitude = (before_and_after[0], before_and_after[1])
    before, after = probability.mean(axis=1).tolist()
    return Change(operation, (before, after), magnitude, size)


def _mean_move(copies: np.ndarray) -> float:
    """From the first row to the second (2, copies). It is of each copy, because opposite moves would cancel out."""
    return float(abs(copies[1] - copies[0]).mean())


def _shown(operation: Operation, magnitudes: np.ndarray) -> tuple[tuple[float, ...], ...]:
    """By row (epochs, copies): the mean, or each copy where the mean would hide that they are on both sides."""
    shown = magnitudes if _on_both_sides(operation, magnitudes) else magnitudes.mean(axis=1, keepdims=True)
    return tuple(tuple(row) for row in shown.tolist())


def _on_both_sides(operation: Operation, magnitudes: np.ndarray) -> bool:
    """Whether in any row (epochs, copies) one copy is below what does nothing and another above."""
    nothing = operation.identity
    return nothing is not None and bool(((magnitudes.min(axis=1) < nothing) & (nothing < magnitudes.max(axis=1))).any())


@dataclass(frozen=True)
class RegularizerSummary:
    """One regularizer in natural units. began: where the search began, or where the space says that one would begin.
    values: one for each epoch.
    """

    hyperparameter: Hyperparameter
    began: float
    values: tuple[float, ...]

    @property
    def size(self) -> float:
        """How far it moved from where it began to the last epoch, in [0, 1] of its range on its scale."""
        return abs(place_of(self.hyperparameter, self.values[-1]) - place_of(self.hyperparameter, self.began))


def is_of_text(schedule: Schedule) -> bool:
    """Whether a search on text found it, or it has what language models alone have."""
    own = (find_regularizer(one.group).place == "states" for one in schedule.space.regularizers)
    return "vocabulary_size" in schedule.provenance or any(own)


def summarize_regularizers(schedule: Schedule) -> tuple[RegularizerSummary, ...]:
    """All of them, in the order of the space; empty where none was tuned."""
    space = schedule.space
    if not space.regularizers:
        return ()
    start = start_of(schedule)
    begun = space.decode(space.initial().double()).numpy() if start is None else start
    return tuple(
        # Without what a logit of single precision adds.
        RegularizerSummary(one, float(f"{begun[column]:.6g}"), tuple(schedule.values[:, column].tolist()))
        for column, one in enumerate(space.regularizers, space.n_of_policy)
    )


def by_group(summaries: Sequence[RegularizerSummary]) -> dict[str, list[RegularizerSummary]]:
    """Those that are tuned together, by the group's name."""
    found: dict[str, list[RegularizerSummary]] = {}
    for one in summaries:
        found.setdefault(one.hyperparameter.group, []).append(one)
    return found


def of_one_range(summaries: Sequence[RegularizerSummary]) -> list[list[RegularizerSummary]]:
    """Those of one group that one axis holds: they have range, scale and unit alike."""
    found: dict[tuple[object, ...], list[RegularizerSummary]] = {}
    for summary in summaries:
        one = summary.hyperparameter
        found.setdefault((one.group, one.low, one.high, one.scale, one.unit), []).append(summary)
    return list(found.values())


def on_pixels(space: SearchSpace) -> tuple[str, ...]:
    """Groups that act on images in [0, 1], so a picture can show what they do; as `tune` calls them."""
    found = [find_regularizer(name) for name in dict.fromkeys(one.group for one in space.regularizers)]
    return tuple(one.tuned_as for one in found if one.place == "pixels")


def not_on_pixels(space: SearchSpace) -> tuple[str, ...]:
    """Names of the other regularizers, which no picture shows."""
    return tuple(one.name for one in space.regularizers if find_regularizer(one.group).place != "pixels")


def place_of(hyperparameter: Hyperparameter, value: float) -> float:
    """Where in its range a value is, in [0, 1]: on a log scale, of the logarithms."""
    low, high = hyperparameter.low, hyperparameter.high
    if hyperparameter.scale == "log":
        low, high, value = math.log(low), math.log(high), math.log(value)
    return (value - low) / (high - low)


def left_out(space: SearchSpace, most: int | None = None) -> str:
    """What is not taken where operations alone are, and where it is found. most: regularizers that are named."""
    names = [one.name for one in space.regularizers]
    return f"{first_of(names, most or len(names))}; schedule.regularization(epoch) has their values"


@dataclass(frozen=True)
class Reach:
    """What share of images a policy reaches, in [0, 1].

    shares: by the operation's name, the share of images to which at least one of its copies is applied, whether its
    magnitude then changes anything or not. numbers: shares of images to which 0, 1, 2, ... operations are applied.
    """

    shares: Mapping[str, float]
    numbers: tuple[float, ...]

    @property
    def per_image(self) -> float:
        """Mean number of operations that are applied to an image."""
        return sum(number * share for number, share in enumerate(self.numbers))

    @property
    def unchanged(self) -> float:
        """Share of images to which none is applied."""
        return self.numbers[0]


@dataclass(frozen=True)
class _Walks:
    """fires: how often each slot fires. chances: of K = 0, 1, 2, ..."""

    fires: list[float]
    chances: list[float]


def _walks(schedule: Schedule, epoch: int) -> _Walks:
    space = schedule.space
    values, spread = (torch.tensor(rows[epoch]) for rows in (schedule.values, schedule.spread))
    means = mean_probabilities(space, values, spread)
    limits = count_limits(space, means).tolist()
    return _Walks(
        [float(means[slot.probability]) for slot in space.slots],
        [after - before for before, after in itertools.pairwise([0.0, *limits, 1.0])],
    )


def reach(schedule: Schedule, epoch: int) -> Reach:
    """Of the policy of an epoch, counted from 0."""
    space, walks = schedule.space, _walks(schedule, epoch)
    fires, numbers = walks.fires, poisson_binomial
    copies = {
        operation.name: slice(number * space.copies, (number + 1) * space.copies)
        for number, operation in enumerate(space.operations)
    }
    return Reach(
        {
            name: 1 - _missed(walks.chances, numbers(fires[own]), numbers(fires[: own.start] + fires[own.stop :]))
            for name, own in copies.items()
        },
        _numbers(walks),
    )


def applied_per_image(schedule: Schedule, epoch: int) -> Mapping[str, float]:
    """By the operation's name, how often it is applied to an image on average, its copies together; at an epoch from 0.

    They add up to Reach.per_image.
    """
    space, walks = schedule.space, _walks(schedule, epoch)
    found = dict.fromkeys((operation.name for operation in space.operations), 0.0)
    limits = np.cumsum(walks.chances)[:-1]
    for slot, often in zip(space.slots, applied(walks.fires, limits).sum(axis=0).tolist(), strict=True):
        found[slot.operation.name] += often
    return found


def numbers_applied(schedule: Schedule, epoch: int) -> tuple[float, ...]:
    """The numbers of reach, alone."""
    return _numbers(_walks(schedule, epoch))


def _numbers(walks: _Walks) -> tuple[float, ...]:
    """As many are applied as fire, but at most K."""
    numbers = [0.0] * len(walks.chances)
    for fired, p_fired in enumerate(poisson_binomial(walks.fires)):
        for count, chance in enumerate(walks.chances):
            numbers[min(fired, count)] += p_fired * chance
    return tuple(numbers)


def _missed(chances: list[float], own: Floats, others: Floats) -> float:
    """The probability that no copy of an operation is applied. chances: of K = 0, 1, 2, ..."""
    return sum(
        chance * p_own * p_others * _none_applied(f, m, count)
        for count, chance in enumerate(chances)
        for f, p_own in enumerate(own)
        for m, p_others in enumerate(others)
    )


def _none_applied(f: int, m: int, count: int) -> float:
    """The probability that none of f slots is among the first `count` of f + m."""
    if f + m < count:
        return float(f == 0)
    return comb(m, count) / comb(f + m, count)
