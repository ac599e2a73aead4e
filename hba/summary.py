"""What a schedule amounts to, operation by operation."""

from dataclasses import dataclass

import numpy as np

from hba.operations import Operation
from hba.schedule import Schedule


@dataclass(frozen=True)
class OperationSummary:
    """One operation at several epochs, as means over its copies.

    probability: per epoch. magnitude: per epoch in natural units, None for an operation without magnitude. strength:
    per epoch, mean over copies of probability times how far the magnitude is from doing nothing, in [0, 1].
    """

    operation: Operation
    probability: tuple[float, ...]
    magnitude: tuple[float, ...] | None
    strength: tuple[float, ...]


def key_epochs(schedule: Schedule) -> tuple[int, ...]:
    """First, middle and last epoch, counted from 0; fewer for a short schedule."""
    return tuple(sorted({0, schedule.epochs // 2, schedule.epochs - 1}))


def copies_of(schedule: Schedule, operation: Operation, kind: str) -> np.ndarray:
    """The columns of all copies, (epochs, copies); kind is probability or magnitude."""
    names = [f"{operation.name}.{copy}.{kind}" for copy in range(1, schedule.space.copies + 1)]
    return schedule.values[:, [schedule.space.names.index(name) for name in names]]


def summarize(schedule: Schedule, epochs: tuple[int, ...]) -> list[OperationSummary]:
    """Every operation at these epochs (from 0), the strongest at the last of them first."""
    summaries = [_summarize(schedule, operation, list(epochs)) for operation in schedule.space.operations]
    return sorted(summaries, key=lambda summary: -summary.strength[-1])


def _summarize(schedule: Schedule, operation: Operation, epochs: list[int]) -> OperationSummary:
    probability = copies_of(schedule, operation, "probability")[epochs]
    if operation.magnitude_range is None:
        means = tuple(probability.mean(axis=1).tolist())
        return OperationSummary(operation, means, None, means)
    magnitude = copies_of(schedule, operation, "magnitude")[epochs]
    strength = probability * np.vectorize(operation.strength)(magnitude)
    return OperationSummary(
        operation,
        tuple(probability.mean(axis=1).tolist()),
        tuple(magnitude.mean(axis=1).tolist()),
        tuple(strength.mean(axis=1).tolist()),
    )
