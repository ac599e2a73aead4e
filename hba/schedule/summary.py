"""What a schedule amounts to, operation by operation."""

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hba.errors import SettingsError
from hba.operations import Operation
from hba.policy.spread import moved_by, quadrature
from hba.policy.starts import at_fraction, of_row, randaugment
from hba.schedule.schedule import Schedule
from hba.utils.provenance import number_of

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
