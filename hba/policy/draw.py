"""Draws operations for each image, applies them, and computes how often each operation
is applied.

Paper, section 3.1; the draw is Algorithm 1 of PBA (Ho et al. 2019). With a spread,
every image draws its own hyperparameters around the values, by normal noise on their
logits. The drawn probability of a slot is independent of everything else in an image,
so a slot fires with the mean probability, and only magnitudes have to be drawn.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from hba.errors import SettingsError
from hba.operations import check_channels
from hba.operations.apply import Candidates, maps_of_steps
from hba.operations.geometric import Maps, fits_dtype, warp
from hba.packed import apply_to_images
from hba.policy import player
from hba.policy.player import logits_between, means_over_images
from hba.policy.space import SearchSpace
from hba.utils.devices import exact_device
from hba.utils.tensors import device_constant, whole_numbers

quadrature = device_constant(player.quadrature)

Floats = NDArray[np.float64]
Numbers = Sequence[float] | Floats


@dataclass(frozen=True)
class BatchSample:
    """A draw for each of B images, in at most S steps, which can be replayed.

    The steps are: one for each operation before the walk, those of the walk, and one
    for each operation after it. slots (B, S): the slot that fired, -1 for none.
    magnitudes (B, S): in natural units with the drawn sign, 0 for operations without
    magnitude. positions (B, S, P): random numbers in [0, 1), for operations that use
    them.
    """

    slots: Tensor
    magnitudes: Tensor
    positions: Tensor

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


def draw_with_trace(
    space: SearchSpace,
    values: Tensor,
    batch_size: int,
    generator: torch.Generator | None = None,
    spread: Tensor | None = None,
) -> tuple[BatchSample, SampleTrace]:
    """Draw K for each image, then visit the slots of the walk in random order; the
    first K that fire are applied in that order. Every other slot fires independently.

    values: (n,) shared, or (B, n) with one row per image, on the generator's device;
    with a spread, the result of mean_probabilities. generator: None uses torch's
    default one. spread: of the shape of values, the standard deviation of each image's
    hyperparameters around them, in logits; None for 0. Nothing is copied to the host.
    """
    device = values.device
    rows = values.detach()
    if (drawing := exact_device(device)) != device:
        widths = None if spread is None else spread.to(drawing)
        drawn = draw_with_trace(space, rows.to(drawing), batch_size, generator, widths)
        sample, trace = (_on_device(one, device) for one in drawn)
        return sample, trace
    columns = space.slot_columns(device)
    walk = space.walk_slots
    n_walk = walk.stop - walk.start
    n_steps = space.max_count
    n_others, (n_numbers, n_other_numbers) = len(space.slots) - n_walk, space.n_uniforms

    def uniform(*shape: int) -> Tensor:
        return _random(torch.rand, generator, batch_size, *shape, device=device)

    fires = uniform(n_walk) < rows[..., columns.probability[walk]]
    # Random keys put the slots in a uniformly random order; slots that do not fire come
    # last.
    place = uniform(n_walk)
    key = torch.where(fires, place, 2.0)
    keys, slots = key.topk(n_steps, dim=1, largest=False, sorted=True)
    reached = keys <= 1
    count = (uniform(1) >= count_limits(space, rows)).sum(dim=1, keepdim=True)
    applied = reached & (whole_numbers(n_steps, torch.int64, device) < count)
    negated = columns.signed[walk][slots] & (uniform(n_steps) < 0.5)
    positions = uniform(n_steps, n_numbers)
    # Visiting ends at the K-th slot that fires: at once for K = 0, never if fewer fire.
    last = torch.cat([keys.new_full((batch_size, 1), -1.0), keys], dim=1).gather(
        1, count
    )
    visited = place <= last
    if n_others:
        others = _without(
            whole_numbers(len(space.slots), torch.int64, device), walk
        ).expand(batch_size, -1)
        other_fires = uniform(n_others) < _without(rows[..., columns.probability], walk)
        other_positions = uniform(n_others, n_other_numbers)

        def around(of_others: Tensor, of_walk: Tensor) -> Tensor:
            return torch.cat(
                [of_others[:, : walk.start], of_walk, of_others[:, walk.start :]], dim=1
            )

        widest = max(n_numbers, n_other_numbers)
        positions = around(
            *(
                pad(one, (0, widest - one.shape[2]))
                for one in (other_positions, positions)
            )
        )
        slots = around(others, slots + walk.start)
        applied = around(other_fires, applied)
        visited = around(others >= 0, visited)
        fires = around(other_fires, fires)
        negated = around(torch.zeros_like(other_fires), negated)
    magnitudes = of_slots(space, rows, slots)
    if spread is not None:
        low, high = (
            of_slots(space, ends, slots)
            for ends in space.bounds(magnitudes.dtype, device)
        )
        noise = _random(
            torch.randn,
            generator,
            *magnitudes.shape,
            dtype=magnitudes.dtype,
            device=device,
        )
        width = of_slots(space, spread, slots)
        moved = low.lerp(
            high, (logits_between(magnitudes, low, high) + width * noise).sigmoid()
        )
        magnitudes = torch.where(width > 0, moved, magnitudes)
    signed = torch.where(negated, -magnitudes, magnitudes) * applied
    sample = BatchSample(torch.where(applied, slots, -1), signed, positions)
    return sample, SampleTrace(visited, visited & fires, count)


def _on_device(tensors: Any, device: torch.device) -> Any:
    """A copy of a dataclass of tensors on the device."""
    return replace(
        tensors, **{name: tensor.to(device) for name, tensor in vars(tensors).items()}
    )


def _without(values: Tensor, walk: slice) -> Tensor:
    """Values (..., number of slots) of the slots that are not on the walk."""
    return torch.cat([values[..., : walk.start], values[..., walk.stop :]], dim=-1)


def _random(
    make: Callable[..., Tensor],
    generator: torch.Generator | None,
    *shape: int,
    **options: Any,
) -> Tensor:
    """Random numbers for all images, by torch.rand or torch.randn."""
    # A compiler refuses the generator argument, even if it is None.
    if generator is None:
        return make(*shape, **options)
    return make(*shape, generator=generator, **options)


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
    space: SearchSpace, sample: BatchSample, masks: Tensor, mask_fill: float
) -> Tensor:
    """Move masks (B, N, H, W) of any dtype as the sample moves the pixels of its
    images.

    Masks take the nearest pixel, and mask_fill where the image is uncovered. TypeError
    if an operation of the space does not say where pixels move.
    """
    unknown = [
        one.name
        for one in space.operations
        if one.moves_pixels is None or (one.moves_pixels and not one.interpolation)
    ]
    if unknown:
        names = ", ".join(unknown)
        raise TypeError(
            f"only images can go through {names}; leave them out by"
            " schedule.without(...)"
        )
    check_mask_fill(mask_fill, masks.dtype)
    if not masks.numel():
        return masks.clone()
    chosen = space.slot_columns(masks.device).operation[sample.slots]
    height, width = masks.shape[2:]
    maps = maps_of_steps(
        space.operations, chosen, sample.magnitudes, sample.positions, height, width
    )
    fill = masks.new_full((masks.shape[1],), mask_fill)
    for step in range(sample.slots.shape[1]):
        of_step = Maps(maps.exact[:, step], maps.fixed_point[:, step])
        masks = warp(masks, of_step, fill, "nearest")
    return masks


def check_mask_fill(mask_fill: float, dtype: torch.dtype) -> None:
    """SettingsError if masks of this dtype cannot hold `mask_fill`."""
    if not fits_dtype(mask_fill, dtype):
        name = str(dtype).removeprefix("torch.")
        raise SettingsError(
            f"mask_fill must be a value of the masks' dtype, {name}, got {mask_fill}"
        )


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
        own = np.full((n_slots, 1), chance)
        own[slot] = 0.0
        numbers[:, 1:] = numbers[:, 1:] * (1 - own) + numbers[:, :-1] * own
        numbers[:, :1] *= 1 - own
    return numbers
