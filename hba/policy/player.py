"""Plays the policies of a schedule on single images: the place in the schedule, its row
of plain numbers, and the draw for one image.

hba.Schedule.transform() and exported files use it. For a single image, calls into
PyTorch would cost many times as much as the image itself, so a row and a draw are plain
numbers.
"""

from __future__ import annotations

import copy
import copyreg
import itertools
import math
from collections.abc import Iterable, Mapping
from multiprocessing.context import get_spawning_popen
from multiprocessing.sharedctypes import RawValue
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from numpy.polynomial.hermite_e import hermegauss
from torch import Tensor

from hba.operations.image_operation import ImageOperation

# Exported files contain the rest of this module.


N_NODES = 40
"""Nodes of the quadrature. For spreads up to 3 logits, the mean of a probability is
then exact to 1e-4.
"""


class OpSample(NamedTuple):
    """An operation to apply.

    Attributes:
        operation: Of the schedule.
        magnitude: Drawn from that of the policy; 0 without magnitude.
        position: Random numbers in [0, 1).
    """

    operation: ImageOperation
    magnitude: float
    position: tuple[float, ...]


class PlainSlot(NamedTuple):
    """An operation, its magnitude, the logit of the magnitude in the range from low to
    high, and its spread; all 0 without magnitude.
    """

    operation: ImageOperation
    magnitude: float = 0.0
    low: float = 0.0
    high: float = 0.0
    logit: float = 0.0
    spread: float = 0.0


class PlainRow(NamedTuple):
    """A policy in plain Python numbers, computed once for all images that use it.

    Attributes:
        probabilities: The mean probability of each slot.
        limits: Probabilities that K is below 1, 2, ...
        slots: The slots of the policy.
        is_spread: Whether images draw magnitudes around those of the slots.
        walk: The slots of the walk.
        n_uniforms: Random numbers of a step of the walk, and of another step.
    """

    probabilities: list[float]
    limits: list[float]
    slots: list[PlainSlot]
    is_spread: bool
    walk: slice
    n_uniforms: tuple[int, int]


def draw_for_one(
    row: PlainRow, generator: torch.Generator | None = None
) -> list[OpSample]:
    """Draw what hba's draw_with_trace draws for a batch of one image with the same
    generator on the CPU.

    Magnitudes with a spread agree up to its single precision.
    """
    walk = range(len(row.slots))[row.walk]
    other_slots = [number for number in range(len(row.slots)) if number not in walk]
    max_count = len(row.limits)
    n_uniforms, n_other_uniforms = row.n_uniforms
    n_numbers = (
        2 * len(walk)
        + 1
        + max_count * (1 + n_uniforms)
        + len(other_slots) * (2 + n_other_uniforms)
    )
    numbers = iter(torch.rand(n_numbers, generator=generator).tolist())

    def take(count: int) -> tuple[float, ...]:
        return tuple(itertools.islice(numbers, count))

    fires = take(len(walk))
    keys = take(len(walk))
    (count,) = take(1)
    walk_numbers = take(max_count)
    positions = [take(n_uniforms) for _ in range(max_count)]
    other_fires = take(len(other_slots))
    other_positions = [take(n_other_uniforms) for _ in other_slots]
    other_numbers = take(len(other_slots))
    noise = (
        torch.randn(len(other_slots) + max_count, generator=generator).tolist()
        if row.is_spread
        else None
    )
    limit = sum(count >= bound for bound in row.limits)
    fired = [
        number
        for number in range(len(walk))
        if fires[number] < row.probabilities[walk[number]]
    ]
    on_walk = sorted(fired, key=keys.__getitem__)[:limit]
    # Each step: its index into the noise, the slot, the number that the magnitude is
    # drawn by, and its further random numbers.
    steps = [
        (walk.start + step, walk[number], walk_numbers[step], positions[step])
        for step, number in enumerate(on_walk)
    ]
    for order, number in enumerate(other_slots):
        if other_fires[order] < row.probabilities[number]:
            step = order if number < walk.start else order + max_count
            steps.append((step, number, other_numbers[order], other_positions[order]))
    samples = []
    for step, number, random_number, position in sorted(steps):
        slot = row.slots[number]
        magnitude = slot.magnitude
        if noise is not None and slot.spread:
            # The sigmoid in terms of tanh, which does not overflow.
            share = 0.5 + 0.5 * math.tanh((slot.logit + slot.spread * noise[step]) / 2)
            magnitude = slot.low + (slot.high - slot.low) * share
        magnitude = slot.operation.draw_magnitude(magnitude, random_number)
        samples.append(OpSample(slot.operation, magnitude, position))
    return samples


def move_class(
    drawn: Iterable[OpSample],
    label: int | None,
    class_moves: Mapping[str, list[list[int]]],
) -> tuple[list[OpSample], int | None]:
    """Leave out moves to which the class of the image has no answer, and return the
    label of the moved image, as hba's move_classes does for a batch.

    Args:
        drawn: As draw_for_one returns them.
        label: Of the image; None if it is unknown. Then only moves that keep every
            class are applied.
        class_moves: Of the Tables.
    """
    kept = []
    for sample in drawn:
        moves = class_moves.get(sample.operation.name)
        if moves is not None:
            move = min(int(sample.position[0] * len(moves)), len(moves) - 1)
            labels = moves[move]
            if label is None:
                if labels != [*range(len(labels))]:
                    continue
            elif labels[label] < 0:
                continue
            else:
                label = labels[label]
        kept.append(sample)
    return kept, label


class SharedNumber:
    """A number, `value`, that the processes which are started with a copy of it share,
    however they are started.

    A copy from a pickle that is not for a new process has a number of its own. Where
    there is no shared memory, and thus no process could be started, it is an ordinary
    number.
    """

    def __init__(self, value: float) -> None:
        # Unlike a tensor's memory, this does not depend on PyTorch's sharing strategy.
        try:
            self._holder: Any = RawValue("d", value)
        except OSError:
            self._holder = SimpleNamespace(value=value)

    @property
    def value(self) -> float:
        return float(self._holder.value)

    @value.setter
    def value(self, value: float) -> None:
        self._holder.value = value

    def __reduce__(self) -> Any:
        if get_spawning_popen() is None:
            return SharedNumber, (self.value,)
        return copyreg.__newobj__, (SharedNumber,), vars(self)  # type: ignore[attr-defined]


class Tables(NamedTuple):
    """A schedule in plain numbers: a row for each epoch, with a number for each slot in
    probabilities and magnitudes.

    The spreads are the standard deviations, from image to image, of the logits of
    probabilities, magnitudes and counts. A table of a single row holds for all epochs.

    Attributes:
        epochs: Number of rows.
        slots: The name of an operation, and the range from low to high of its
            magnitude.
        walk: The first slot of which an image gets only some, and the one after the
            last.
        n_uniforms: Random numbers of a step of the walk, and of another step.
        probabilities: That a slot fires.
        magnitudes: 0 for an operation without one.
        counts: The probability that an image that may get k - 1 operations may get k,
            for k = 1, 2, ...; empty rows if `limits` holds for all epochs.
        limits: Probabilities that an image may get fewer than 1, 2, ... operations.
        class_moves: For operations that move images by class, and each of their moves,
            the label of moved images of each class; -1 for a class whose images must
            not be moved.
    """

    epochs: int
    slots: list[tuple[str, float, float]]
    walk: tuple[int, int]
    n_uniforms: tuple[int, int]
    limits: list[float]
    probabilities: list[list[float]]
    probability_spread: list[list[float]]
    magnitudes: list[list[float]]
    magnitude_spread: list[list[float]]
    counts: list[list[float]]
    count_spread: list[list[float]]
    class_moves: dict[str, list[list[int]]]


def quadrature(dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """Nodes and weights (N_NODES,) of Gauss-Hermite quadrature for the mean over a
    standard normal variable.
    """
    nodes, shares = hermegauss(N_NODES)
    weights = shares / shares.sum()
    return (
        torch.tensor(nodes, dtype=dtype, device=device),
        torch.tensor(weights, dtype=dtype, device=device),
    )


def means_over_images(
    probabilities: Tensor, spread: Tensor, nodes: Tensor, weights: Tensor
) -> Tensor:
    """The means of sigmoid(logit(p) + spread epsilon), by the quadrature."""
    logits = probabilities.logit()[..., None] + spread[..., None] * nodes
    means = (logits.sigmoid() * weights).sum(dim=-1)
    # Where the spread is 0, probabilities stay bit for bit the same.
    return torch.where(spread > 0, means, probabilities)


def logits_between(values: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Logits of the places of values in their ranges; minus infinity in a range of one
    value.
    """
    width = torch.where(high == low, 1.0, high - low)
    return ((values - low) / width).clamp(0, 1).logit()


def row_at(
    operations: Mapping[str, ImageOperation], tables: Tables, position: float
) -> PlainRow:
    """The policy at a row number that may be fractional, linear between two rows."""

    def at(rows: list[list[float]]) -> Tensor:
        before = min(int(position), len(rows) - 1)
        after = min(before + 1, len(rows) - 1)
        share = position - int(position)
        pairs = zip(rows[before], rows[after], strict=True)
        values = [start + (end - start) * share for start, end in pairs]
        return torch.tensor(values, dtype=torch.float32)

    nodes, weights = quadrature(torch.float32, torch.device("cpu"))
    probability_spread = at(tables.probability_spread)
    magnitude_spread = at(tables.magnitude_spread)
    count_spread = at(tables.count_spread)
    probabilities = means_over_images(
        at(tables.probabilities), probability_spread, nodes, weights
    )
    counts = means_over_images(at(tables.counts), count_spread, nodes, weights)
    magnitudes = at(tables.magnitudes)
    low = torch.tensor([low for _, low, _ in tables.slots], dtype=torch.float32)
    high = torch.tensor([high for _, _, high in tables.slots], dtype=torch.float32)
    logits = logits_between(magnitudes, low, high)
    numbers = torch.stack([magnitudes, low, high, logits, magnitude_spread], dim=1)
    slots = [
        PlainSlot(operations[name], *of_slot)
        for (name, _, _), of_slot in zip(tables.slots, numbers.tolist(), strict=True)
    ]
    spreads = (probability_spread, magnitude_spread, count_spread)
    return PlainRow(
        probabilities=probabilities.tolist(),
        limits=tables.limits or (1 - counts.cumprod(dim=0)).tolist(),
        slots=slots,
        is_spread=any(bool(spread.any()) for spread in spreads),
        walk=slice(*tables.walk),
        n_uniforms=tables.n_uniforms,
    )


class Place:
    """The place in a schedule at which images are augmented; until it is chosen, the
    last epoch.

    A module derives from it and then from its class of modules.
    """

    def __init__(self, epochs: int, **settings: Any) -> None:
        """Start in the last of the epochs; settings are those of the next base."""
        super().__init__(**settings)
        self.epochs = epochs
        # A row number. Worker processes hold copies of this object, but see the same
        # number.
        self._position = SharedNumber(epochs - 1.0)

    @property
    def position(self) -> float:
        """The current epoch of the schedule, counted from 0; fractional between two
        epochs.
        """
        return self._position.value

    def set_epoch(self, epoch: int, epochs: int) -> None:
        """Use the policy of an epoch, from 0, in a training of `epochs` epochs."""
        if not 0 <= epoch < epochs:
            raise ValueError(f"epoch must lie in [0, {epochs - 1}], got {epoch}")
        self.set_progress(epoch / (epochs - 1) if epochs > 1 else 0.5)

    def set_progress(self, fraction: float) -> None:
        """Move to a fraction in [0, 1] of the schedule, linear between epochs."""
        if not 0 <= fraction <= 1:
            raise ValueError(
                f"the fraction of the training must lie in [0, 1], got {fraction}"
            )
        self._position.value = fraction * (self.epochs - 1)

    def extra_repr(self) -> str:
        return f"epochs={self.epochs}, position={self.position:g}"

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """A copy that shares the place: set_epoch of one of them moves both."""
        return copy.copy(self)


class Player(Place):
    """The operations of a schedule, and its policy at the current place."""

    def __init__(
        self,
        operations: Mapping[str, ImageOperation],
        tables: Tables,
        **settings: Any,
    ) -> None:
        super().__init__(tables.epochs, **settings)
        self.operations = operations
        self.tables = tables
        self._last: tuple[float, PlainRow] | None = None

    def row(self) -> PlainRow:
        """The policy at the current place; made again when the place changes."""
        position = self.position
        if self._last is None or self._last[0] != position:
            self._last = (position, row_at(self.operations, self.tables, position))
        return self._last[1]

    def __getstate__(self) -> dict[str, Any]:
        """Without what is kept from one call to the next, so that a pickle does not
        depend on calls.
        """
        return {**vars(self), "_last": None}
