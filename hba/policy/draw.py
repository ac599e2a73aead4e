"""Draws operations for each image, applies them, and computes how often each operation
is applied.

Paper, section 3.1; the draw is Algorithm 1 of PBA (Ho et al. 2019). With a spread,
every image draws its own hyperparameters around the values, by normal noise on their
logits. The drawn probability of a slot is independent of everything else in an image,
so a slot fires with the mean probability, and only magnitudes have to be drawn.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hba.errors import SettingsError
from hba.operations import Operation, check_channels
from hba.operations.apply import Candidates, maps_of_steps, needs_fixed_shapes
from hba.operations.geometric import Maps, check_mask_fill, warp
from hba.packed import apply_to_images
from hba.policy import player
from hba.policy.batch_draw import (
    draw_magnitudes,
    draw_slots,
    move_classes,
    random_numbers,
)
from hba.policy.player import logits_between, means_over_images
from hba.policy.space import SearchSpace
from hba.tasks import task_of
from hba.tasks.segmentation import IGNORED
from hba.utils.devices import exact_device
from hba.utils.tensors import device_constant

quadrature = device_constant(player.quadrature)

Floats = NDArray[np.float64]
Numbers = Sequence[float] | Floats


@dataclass(frozen=True)
class BatchSample:
    """A draw for each of B images, in at most S steps, which can be replayed.

    The steps are: one for each operation before the walk, those of the walk, and one
    for each operation after it. slots (B, S): the slot that fired, -1 for none.
    magnitudes (B, S): drawn from those of the policy, in natural units; 0 for
    operations without magnitude. positions (B, S, P): random numbers in [0, 1), for
    operations that use them. labels (B,): of the images after the draw; None if they
    are unknown.
    """

    slots: Tensor
    magnitudes: Tensor
    positions: Tensor
    labels: Tensor | None = None

    def __len__(self) -> int:
        return len(self.slots)


@dataclass(frozen=True)
class SampleTrace:
    """Which slots each of B images visited, and which of those fired; both bool, (B,
    number of slots).

    Slots of the walk are visited in random order until K have fired; slots that are not
    visited carry no information about probabilities. All other slots are visited. count
    (B, 1): K.
    """

    visited: Tensor
    fired: Tensor
    count: Tensor


def augment(
    space: SearchSpace,
    values: Tensor,
    images: Tensor,
    labels: Tensor | None,
    generator: torch.Generator | None,
    fill: Tensor,
    *,
    candidates: Candidates = None,
    spread: Tensor | None = None,
) -> tuple[Tensor, Tensor | None, SampleTrace]:
    """Draw operations for the images of a batch, and apply them.

    Symmetries by class change labels (B,); masks (B, H, W) move with the images, and
    are IGNORED where the images are uncovered.

    Args:
        space: The search space.
        values: As draw_with_trace takes them.
        images: As apply_operations takes them.
        labels: Of the images; None if they are unknown.
        generator: As draw_with_trace takes it.
        fill: As apply_operations takes it.
        candidates: As apply_operations takes them.
        spread: As draw_with_trace takes it.

    Returns:
        New images, their labels, and the draws.
    """
    # Images with several labels, or with masks, are in no class alone.
    has_class = labels is not None and labels.ndim == 1
    sample, trace = draw_with_trace(
        space, values, len(images), generator, spread, labels if has_class else None
    )
    if space.acts_on_images:
        images = apply_operations(space, sample, images, fill, candidates)
        if labels is not None and task_of(labels).has_masks:
            labels = move_masks(space, sample, labels[:, None], IGNORED, candidates)
            labels = labels[:, 0]
    return images, labels if sample.labels is None else sample.labels, trace


def draw_with_trace(
    space: SearchSpace,
    values: Tensor,
    batch_size: int,
    generator: torch.Generator | None = None,
    spread: Tensor | None = None,
    labels: Tensor | None = None,
) -> tuple[BatchSample, SampleTrace]:
    """Draw K for each image, then visit the slots of the walk in random order; the
    first K that fire are applied in that order. Every other slot fires independently.

    values: (n,) shared, or (B, n) with one row per image, on the generator's device;
    with a spread, the result of mean_probabilities. generator: None uses torch's
    default one. spread: of the shape of values, the standard deviation of each image's
    hyperparameters around them, in logits; None for 0. labels (B,): of the images,
    which symmetries by class change; without them, those are left out. Nothing is
    copied to the host.
    """
    device = values.device
    rows = values.detach()
    if (drawing := exact_device(device)) != device:
        widths = None if spread is None else spread.to(drawing)
        sample, trace = draw_with_trace(
            space,
            rows.to(drawing),
            batch_size,
            generator,
            widths,
            None if labels is None else labels.to(drawing),
        )
        return _on_device(sample, device), _on_device(trace, device)
    columns = space.slot_columns(device)
    drawn = draw_slots(
        rows[..., columns.probability],
        count_limits(space, rows),
        space.walk_slots,
        space.n_uniforms,
        batch_size,
        generator,
    )
    results = space.class_results(device)
    if results:
        drawn, labels = move_classes(drawn, labels, results)
    magnitudes = of_slots(space, rows, drawn.slots)
    if spread is not None:
        low, high = (
            of_slots(space, ends, drawn.slots)
            for ends in space.bounds(magnitudes.dtype, device)
        )
        noise = random_numbers(
            torch.randn,
            generator,
            *magnitudes.shape,
            dtype=magnitudes.dtype,
            device=device,
        )
        width = of_slots(space, spread, drawn.slots)
        logits = logits_between(magnitudes, low, high) + width * noise
        magnitudes = torch.where(
            width > 0, low.lerp(high, logits.sigmoid()), magnitudes
        )
    magnitudes = draw_magnitudes(
        magnitudes,
        drawn.numbers,
        columns.drawing[drawn.slots],
        columns.identity[drawn.slots].to(magnitudes.dtype),
        space.drawings,
    )
    sample = BatchSample(
        torch.where(drawn.applied, drawn.slots, -1),
        magnitudes * drawn.applied,
        drawn.positions,
        labels,
    )
    fired = drawn.visited & drawn.fires
    return sample, SampleTrace(drawn.visited, fired, drawn.limit)


def _on_device(tensors: Any, device: torch.device) -> Any:
    """A copy of a dataclass of tensors on the device."""
    moved = {
        name: None if tensor is None else tensor.to(device)
        for name, tensor in vars(tensors).items()
    }
    return replace(tensors, **moved)


def count_limits(space: SearchSpace, rows: Tensor) -> Tensor:
    """Probabilities that K is below 1, 2, ..., shape (max_count,) or (B, max_count).

    rows (n,) or (B, n): values with mean probabilities. They multiply, because images
    draw those of K independently.
    """
    columns = space.slot_columns(rows.device)
    return (
        1 - rows[..., columns.counts].cumprod(dim=-1)
        if space.searches_count
        else columns.count_limits
    )


def apply_operations(
    space: SearchSpace,
    sample: BatchSample,
    images: Tensor,
    fill: Tensor,
    candidates: Candidates = None,
) -> Tensor:
    """Replay a sample on images (B, C, H, W), float in [0, 1] or uint8; fill (C,) in
    [0, 1].

    candidates: for each step, the numbers of the operations that the sample may
    contain; None for all of the space. Returns new images of the same type. uint8
    images are rounded after each operation, as PIL does.
    """
    check_channels(space.operations, images.shape[1])
    if len(sample) != len(images):
        raise SettingsError(f"the draw is for {len(sample)} images, got {len(images)}")
    device = images.device
    if (applying := exact_device(device)) != device:
        moved = _on_device(sample, applying), images.to(applying), fill.to(applying)
        return apply_operations(space, *moved, candidates).to(device)
    steps = (
        space.slot_columns(device).operation[sample.slots],
        sample.magnitudes,
        sample.positions,
    )
    return apply_to_images(
        space.operations, steps, images, fill, candidates or space.steps
    )


def move_masks(
    space: SearchSpace,
    sample: BatchSample,
    masks: Tensor,
    mask_fill: float,
    candidates: Candidates = None,
) -> Tensor:
    """Move masks (B, N, H, W) of any dtype as the sample moves the pixels of its
    images.

    Masks take the nearest pixel, and mask_fill where the image is uncovered. TypeError
    if an operation of the space does not say whether it moves pixels.
    """
    unknown = [
        operation.name
        for operation in space.on_images
        if operation.moves_pixels is None
    ]
    if unknown:
        names = ", ".join(unknown)
        raise TypeError(
            f"only images can go through {names}; leave them out by"
            " schedule.without(...)"
        )
    check_masks_hold(mask_fill, masks.dtype)
    if not masks.numel():
        return masks.clone()
    chosen = space.slot_columns(masks.device).operation[sample.slots]
    height, width = masks.shape[2:]
    maps = maps_of_steps(
        space.operations, chosen, sample.magnitudes, sample.positions, height, width
    )
    fill = masks.new_full((masks.shape[1],), mask_fill)
    for step, indices in enumerate(candidates or space.steps):
        if any(space.operations[index].interpolation for index in indices):
            of_step = Maps(maps.exact[:, step], maps.fixed_point[:, step])
            masks = warp(masks, of_step, fill, "nearest")
        for index in indices:
            operation = space.operations[index]
            if operation.moves_pixels and not operation.interpolation:
                gets = chosen[:, step] == index
                arguments = sample.magnitudes[:, step], sample.positions[:, step]
                masks = _distort_masks(operation, gets, arguments, masks, mask_fill)
    return masks


def _distort_masks(
    operation: Operation,
    gets: Tensor,
    arguments: tuple[Tensor, Tensor],
    masks: Tensor,
    mask_fill: float,
) -> Tensor:
    """Move masks by an operation without affine map.

    The operation moves an image of coordinates, which then tell the nearest pixel.

    Args:
        operation: The operation.
        gets: Which masks it moves, bool (B,).
        arguments: Its magnitudes (B,) and random numbers (B, P).
        masks: Masks (B, N, H, W).
        mask_fill: The value of uncovered pixels.
    """
    if not needs_fixed_shapes(masks):
        places = gets.nonzero()[:, 0]
        if not len(places):
            return masks
        of_places = tuple(values[places] for values in arguments)
        moved = masks.clone()
        moved[places] = _distorted(operation, of_places, masks[places], mask_fill)
        return moved
    # Magnitudes of other operations may be outside of its range.
    magnitudes = arguments[0].where(gets, 0.0)
    moved = _distorted(operation, (magnitudes, arguments[1]), masks, mask_fill)
    return torch.where(gets[:, None, None, None], moved, masks)


def _distorted(
    operation: Operation,
    arguments: tuple[Tensor, ...],
    masks: Tensor,
    mask_fill: float,
) -> Tensor:
    magnitudes, positions = arguments
    n_masks, n_planes, height, width = masks.shape
    options: Any = {"device": masks.device, "dtype": torch.float32}
    rows, columns = (
        (torch.arange(side, **options) + 0.5) / side for side in (height, width)
    )
    shape = (n_masks, height, width)
    coordinates = torch.stack(
        [
            rows[:, None].expand(shape),
            columns.expand(shape),
            torch.ones(shape, **options),
        ],
        dim=1,
    )
    black = torch.zeros(3, **options)
    moved = operation.compute(coordinates, magnitudes, black, positions)
    # Where the image ends, coordinates are blended with black, as is the 1.
    covered = moved[:, 2]
    row, column = (
        (moved[:, axis] / covered.clamp(min=1e-6) * side).long().clamp(0, side - 1)
        for axis, side in enumerate((height, width))
    )
    places = (row * width + column).flatten(1)[:, None].expand(-1, n_planes, -1)
    taken = masks.flatten(2).gather(2, places).view(masks.shape)
    return taken.where(covered[:, None] >= 0.5, mask_fill)


def check_masks_hold(mask_fill: float, dtype: torch.dtype) -> None:
    """Raise SettingsError if masks of this dtype cannot hold `mask_fill`."""
    try:
        check_mask_fill(mask_fill, dtype)
    except ValueError as error:
        raise SettingsError(str(error)) from None


def mean_probabilities(
    space: SearchSpace, values: Tensor, spread: Tensor | None
) -> Tensor:
    """Return values (..., n), detached, with every probability p replaced by the mean
    of sigmoid(logit(p) + spread epsilon), by Gauss-Hermite quadrature. spread: (...,
    n), or None for 0.
    """
    values = values.detach()
    if spread is None:
        return values
    columns = space.probability_columns(values.device)
    probabilities, widths = (
        rows[..., columns] for rows in torch.broadcast_tensors(values, spread)
    )
    nodes, weights = quadrature(values.dtype, values.device)
    means = means_over_images(probabilities, widths, nodes, weights)
    return values.expand(*means.shape[:-1], space.n).index_copy(-1, columns, means)


def of_slots(space: SearchSpace, rows: Tensor, slots: Tensor) -> Tensor:
    """Entries of the magnitudes of slots (B, S) in a row (n,) or rows (B, n); 0 for a
    slot without magnitude.
    """
    columns = space.slot_columns(rows.device).magnitude
    padded = torch.cat([rows, rows.new_zeros(*rows.shape[:-1], 1)], dim=-1)
    return (
        padded[columns][slots] if rows.ndim == 1 else padded.gather(1, columns[slots])
    )


def draw_steps(probabilities: Numbers, limits: Numbers) -> list[tuple[float, Floats]]:
    """Probability of an image's first, second, ... operation, given the one before, and
    the share of each slot.
    """
    steps = []
    before = 1.0
    for of_slots in applied(probabilities, limits):
        together = float(of_slots.sum())
        if together <= 0:
            break
        steps.append((min(1.0, together / before), of_slots / together))
        before = together
    return steps


def applied(probabilities: Numbers, limits: Numbers) -> Floats:
    """Probability that each slot is the s-th operation of an image, shape (max_count,
    n_slots).

    probabilities (n_slots,): that each slot fires. limits (max_count,): as count_limits
    returns them.
    """
    fires = np.array(probabilities, dtype=float)
    # In a random order of the slots that fired, each is equally likely to be the s-th.
    shares = fires[:, None] * _numbers_of_others(fires) / np.arange(1, len(fires) + 1)
    at_least: Floats = np.cumsum(shares[:, ::-1], axis=1)[:, ::-1].T
    return (1 - np.array(limits, dtype=float))[:, None] * at_least[: len(limits)]


def poisson_binomial(probabilities: Iterable[float]) -> Floats:
    """Probabilities that 0, 1, 2, ... of the independent events occur."""
    numbers: Floats = np.ones(1)
    for probability in probabilities:
        numbers = np.convolve(numbers, (1 - probability, probability))
    return numbers


def _numbers_of_others(fires: Floats) -> Floats:
    """Row i: probabilities that 0, 1, ... of the slots other than i fire independently,
    shape (n_slots, n_slots).
    """
    n_slots = len(fires)
    numbers = np.zeros((n_slots, n_slots))
    numbers[:, :1] = 1.0
    for slot, chance in enumerate(fires):
        chances = np.full((n_slots, 1), chance)
        chances[slot] = 0.0
        numbers[:, 1:] = numbers[:, 1:] * (1 - chances) + numbers[:, :-1] * chances
        numbers[:, :1] *= 1 - chances
    return numbers
