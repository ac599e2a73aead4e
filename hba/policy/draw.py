"""The augmentation policy A(x; values): what to do to each image is drawn first, and applied after.

Paper, section 3.1; the walk is Algorithm 1 of PBA (Ho et al. 2019).
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from hba.distributed.collectives import draw_then_shard
from hba.errors import SettingsError
from hba.operations import check_channels, check_images
from hba.packed import apply_to_images
from hba.policy.space import SearchSpace
from hba.policy.spread import mean_probabilities, of_slots, spread_magnitudes


@dataclass(frozen=True)
class Draw:
    """What happens to each of B images, in at most S steps; can be replayed.

    slots (B, S): the slot that fired, -1 for nothing. magnitudes (B, S): natural units with the sign drawn, 0 where
    there is none. positions (B, S, 2): a place in [0, 1) of width and height, for operations that need one.
    """

    slots: Tensor
    magnitudes: Tensor
    positions: Tensor

    def __len__(self) -> int:
        return len(self.slots)


@dataclass(frozen=True)
class Walk:
    """Which slots each of B images came by, and which of those fired; both bool, (B, number of slots).

    Slots are asked whether they fire only until K have. The slots after that say nothing about probabilities.
    count (B, 1): K.
    """

    visited: Tensor
    fired: Tensor
    count: Tensor


def draw_operations(
    space: SearchSpace,
    values: Tensor,
    batch_size: int,
    generator: torch.Generator | None = None,
    spread: Tensor | None = None,
) -> Draw:
    """Draw for each image K, then walk the shuffled slots; the first K slots that fire are applied in that order.

    values: (n,) shared, or (B, n) with one row per image, on the generator's device. generator None means torch's
    default one. spread: as values, the standard deviation in logits by which each image's hyperparameters differ from
    them; None for 0. Nothing leaves the device.
    """
    return draw_walk(space, values, batch_size, generator, spread)[0]


def draw_walk(
    space: SearchSpace,
    values: Tensor,
    batch_size: int,
    generator: torch.Generator | None = None,
    spread: Tensor | None = None,
) -> tuple[Draw, Walk]:
    """The same draw as draw_operations makes, and the walk that led to it."""
    return draw_by_means(space, means_of(space, values, spread), batch_size, generator, spread)


def means_of(space: SearchSpace, values: Tensor, spread: Tensor | None) -> Tensor:
    """What draw_by_means takes in the place of values: to be worked out once for rows that many batches draw by."""
    rows = values.detach()
    return rows if spread is None else mean_probabilities(space, rows, spread)


def draw_by_means(
    space: SearchSpace,
    means: Tensor,
    batch_size: int,
    generator: torch.Generator | None = None,
    spread: Tensor | None = None,
) -> tuple[Draw, Walk]:
    """The same as draw_walk, for values whose probabilities are means over the spread already (see means_of)."""
    device, rows = means.device, means
    columns = space.slot_columns(device)

    def uniform(*shape: int) -> Tensor:
        # A compiler refuses the argument, even where it is None.
        if generator is None:
            return torch.rand(batch_size, *shape, device=device)
        return draw_then_shard(batch_size, lambda n: torch.rand(n, *shape, generator=generator, device=device))

    fires = uniform(space.n_slots) < rows[..., columns.probability]
    # A uniform random order of the slots is a random key for each; one that does not fire comes after all others.
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
        magnitudes = spread_magnitudes(space, magnitudes, slots, spread, generator)
    draw = Draw(
        slots=torch.where(applied, slots, -1),
        magnitudes=torch.where(negated, -magnitudes, magnitudes) * applied,
        positions=positions,
    )
    # The walk ends at the K-th slot that fires: at once for K = 0, never where fewer fire.
    last = torch.cat([keys.new_full((batch_size, 1), -1.0), keys], dim=1).gather(1, count)
    visited = place <= last
    return draw, Walk(visited, visited & fires, count)


def count_limits(space: SearchSpace, rows: Tensor) -> Tensor:
    """Probabilities that K is below 1, 2, ..., shape (max_count,) or (B, max_count).

    rows (n,) or (B, n): values with mean probabilities. Every image draws its own probabilities of K independently, so
    over images they multiply by their means.
    """
    columns = space.slot_columns(rows.device)
    return 1 - rows[..., columns.counts].cumprod(dim=-1) if space.searches_count else columns.count_limits


def apply_operations(space: SearchSpace, draw: Draw, images: Tensor, fill: Tensor) -> Tensor:
    """Replay a draw on images (B, C, H, W), float in [0, 1] or uint8; fill (C,) in [0, 1].

    Returns new images of that type. Levels of uint8 images are those of the images as floats, rounded at the end.
    """
    check_images(images, or_bytes=True)
    check_channels(space.operations, images.shape[1])
    if len(draw) != len(images):
        raise SettingsError(f"the draw is for {len(draw)} images, got {len(images)}")
    chosen = torch.where(draw.slots < 0, -1, space.slot_columns(images.device).operation[draw.slots.clamp(min=0)])
    return apply_to_images(space.operations, chosen, draw.magnitudes, draw.positions, images, fill)
