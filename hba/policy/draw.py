"""The augmentation policy A(x; values): what happens to each image is drawn first, and applied afterwards.

Paper, section 3.1; the draw is Algorithm 1 of PBA (Ho et al. 2019). With a spread, every image draws its own
hyperparameters around the row, by normal noise on their logits. A slot fires by a probability that is an image's own
and independent of everything else that the image draws, so over images it fires with the mean of that probability.
Only magnitudes have to be drawn.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from hba.distributed.collectives import draw_then_shard
from hba.errors import SettingsError
from hba.operations import check_channels
from hba.operations.operation import check_images
from hba.packed import apply_to_images
from hba.policy.space import SearchSpace
from hba.utils.devices import device_constant

N_NODES = 40
"""Of the quadrature: for spreads up to 3 logits, the mean of a probability is then exact to 1e-4."""


@dataclass(frozen=True)
class BatchSample:
    """What happens to each of B images, in at most S steps; it can be replayed.

    slots (B, S): the slot that fired, -1 for nothing. magnitudes (B, S): natural units with the sign drawn, 0 where
    there is none. positions (B, S, 2): a place in [0, 1) of width and height, for operations that need one.
    """

    slots: Tensor
    magnitudes: Tensor
    positions: Tensor

    def __len__(self) -> int:
        return len(self.slots)


@dataclass(frozen=True)
class SampleTrace:
    """Which slots each of B images visited, and which of those fired; both bool, (B, number of slots).

    Slots are visited in random order until K have fired. The slots after that say nothing about probabilities.
    count (B, 1): K.
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
    """Draw K for each image, then visit its slots in random order; the first K that fire are applied in that order.

    values: (n,) shared, or (B, n) with one row per image, on the generator's device. generator None means torch's
    default one. spread: as values, the standard deviation in logits by which each image's hyperparameters differ from
    them; None for 0. Returns also which slots were visited. Nothing is copied to the host.
    """
    return draw_by_means(space, means_of(space, values, spread), batch_size, generator, spread)


def means_of(space: SearchSpace, values: Tensor, spread: Tensor | None) -> Tensor:
    """The values that draw_by_means takes, computed once for rows that many batches draw by."""
    rows = values.detach()
    return rows if spread is None else mean_probabilities(space, rows, spread)


def draw_by_means(
    space: SearchSpace,
    means: Tensor,
    batch_size: int,
    generator: torch.Generator | None = None,
    spread: Tensor | None = None,
) -> tuple[BatchSample, SampleTrace]:
    """The same as draw_with_trace, for values whose probabilities are already means over the spread (see means_of)."""
    device, rows = means.device, means
    columns = space.slot_columns(device)

    def uniform(*shape: int) -> Tensor:
        # A compiler refuses the argument, even where it is None.
        if generator is None:
            return torch.rand(batch_size, *shape, device=device)
        return draw_then_shard(batch_size, lambda n: torch.rand(n, *shape, generator=generator, device=device))

    fires = uniform(space.n_slots) < rows[..., columns.probability]
    # A uniform random order of the slots is a random key for each; those that do not fire come last.
    place = uniform(space.n_slots)
    key = torch.where(fires, place, 2.0)
    keys, slots = key.topk(space.max_count, dim=1, largest=False, sorted=True)
    reached = keys <= 1
    count = (uniform(1) >= count_limits(space, rows)).sum(dim=1, keepdim=True)
    applied = reached & (torch.arange(space.max_count, device=device) < count)
    negated = columns.signed[slots] & (uniform(space.max_count) < 0.5)
    positions = uniform(space.max_count, 2)
    magnitudes = of_slots(space, rows, slots)
    if spread is not None:
        magnitudes = _spread_magnitudes(space, magnitudes, slots, spread, generator)
    sample = BatchSample(
        slots=torch.where(applied, slots, -1),
        magnitudes=torch.where(negated, -magnitudes, magnitudes) * applied,
        positions=positions,
    )
    # Visiting ends at the K-th slot that fires: at once for K = 0, never where fewer fire.
    last = torch.cat([keys.new_full((batch_size, 1), -1.0), keys], dim=1).gather(1, count)
    visited = place <= last
    return sample, SampleTrace(visited, visited & fires, count)


def count_limits(space: SearchSpace, rows: Tensor) -> Tensor:
    """Probabilities that K is below 1, 2, ..., shape (max_count,) or (B, max_count).

    rows (n,) or (B, n): values with mean probabilities. Every image draws its own probabilities of K independently, so
    over images they multiply by their means.
    """
    columns = space.slot_columns(rows.device)
    return 1 - rows[..., columns.counts].cumprod(dim=-1) if space.searches_count else columns.count_limits


def apply_operations(space: SearchSpace, sample: BatchSample, images: Tensor, fill: Tensor) -> Tensor:
    """Replay a sample on images (B, C, H, W), float in [0, 1] or uint8; fill (C,) in [0, 1].

    Returns new images of that type. Levels of uint8 images are those of the images as floats, rounded at the end.
    """
    check_images(images, or_bytes=True)
    check_channels(space.operations, images.shape[1])
    if len(sample) != len(images):
        raise SettingsError(f"the draw is for {len(sample)} images, got {len(images)}")
    chosen = torch.where(sample.slots < 0, -1, space.slot_columns(images.device).operation[sample.slots.clamp(min=0)])
    return apply_to_images(space.operations, chosen, sample.magnitudes, sample.positions, images, fill)


def mean_probabilities(space: SearchSpace, values: Tensor, spread: Tensor) -> Tensor:
    """Values (..., n) with every probability p replaced by the mean of sigmoid(logit(p) + spread epsilon).

    spread (..., n). By Gauss-Hermite quadrature.
    """
    columns = space.probability_columns(values.device)
    probabilities, widths = (rows[..., columns] for rows in torch.broadcast_tensors(values, spread))
    nodes, weights = quadrature(values.dtype, values.device)
    means = ((probabilities.logit()[..., None] + widths[..., None] * nodes).sigmoid() * weights).sum(dim=-1)
    # Bit for bit the same where the spread is 0.
    means = torch.where(widths > 0, means, probabilities)
    return values.expand(*means.shape[:-1], space.n).index_copy(-1, columns, means)


def logits_between(values: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """The logits of places in ranges; minus infinity in a range of one value."""
    return ((values - low) / torch.where(high == low, 1.0, high - low)).clamp(0, 1).logit()


def moved_by(space: SearchSpace, values: Tensor, offset: Tensor) -> Tensor:
    """Values (..., n) whose logits are moved by an offset (..., n); those at an end of their range stay."""
    low, high = space.bounds(values)
    moved = low.lerp(high, (logits_between(values, low, high) + offset).sigmoid())
    return torch.where(offset == 0, values, moved)


def of_slots(space: SearchSpace, rows: Tensor, slots: Tensor) -> Tensor:
    """The entry of each slot's magnitude in a row (n,), or in rows (B, n), for slots (B, S); 0 where there is none."""
    columns = space.slot_columns(rows.device).magnitude
    padded = torch.cat([rows, rows.new_zeros(*rows.shape[:-1], 1)], dim=-1)
    return padded[columns][slots] if rows.ndim == 1 else padded.gather(1, columns[slots])


def _spread_magnitudes(
    space: SearchSpace, magnitudes: Tensor, slots: Tensor, spread: Tensor, generator: torch.Generator | None
) -> Tensor:
    """Magnitudes (B, S) of slots (B, S), each moved by normal noise on its logit; spread (n,) or (B, n)."""
    low, high = (ends[slots] for ends in _ranges_of_slots(space, magnitudes.dtype, magnitudes.device))
    dtype, device = magnitudes.dtype, magnitudes.device
    if generator is None:
        noise = torch.randn(magnitudes.shape, dtype=dtype, device=device)
    else:
        noise = draw_then_shard(
            len(magnitudes),
            lambda n: torch.randn(n, *magnitudes.shape[1:], dtype=dtype, device=device, generator=generator),
        )
    width = of_slots(space, spread, slots)
    moved = low.lerp(high, (logits_between(magnitudes, low, high) + width * noise).sigmoid())
    return torch.where(width > 0, moved, magnitudes)


@device_constant
def _ranges_of_slots(space: SearchSpace, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """(low, high) of each slot's magnitude, both (n_slots,); (0, 0) where there is none."""
    ends = [(0.0, 0.0) if slot.magnitude is None else space.ranges[slot.magnitude] for slot in space.slots]
    low, high = torch.tensor(ends, dtype=dtype, device=device).unbind(1)
    return low, high


@device_constant
def quadrature(dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """Nodes and weights (N_NODES,) of the mean over a standard normal variable, by Gauss and Hermite."""
    at, share = np.polynomial.hermite_e.hermegauss(N_NODES)
    nodes, weights = (torch.tensor(one, dtype=dtype, device=device) for one in (at, share / share.sum()))
    return nodes, weights
