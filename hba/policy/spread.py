"""The spread of a policy: every image draws its hyperparameters around the row, by normal noise on their logits.

A slot fires by a probability that is an image's own, and independent of all else that the image draws. So over images
it fires with the mean of that probability, and nothing more can be told of it. Only magnitudes have to be drawn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hba.utils.device_constants import device_constant

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from hba.policy.space import SearchSpace

N_NODES = 40
"""Of the quadrature: for spreads up to 3 logits, the mean of a probability is then exact to 1e-4."""


def mean_probabilities(space: SearchSpace, values: Tensor, spread: Tensor) -> Tensor:
    """Values (..., n) with every probability p replaced by the mean of sigmoid(logit(p) + spread epsilon).

    spread (..., n). By Gauss-Hermite quadrature.
    """
    import torch

    columns = space.probability_columns(values.device)
    probabilities, widths = (rows[..., columns] for rows in torch.broadcast_tensors(values, spread))
    nodes, weights = quadrature(values.dtype, values.device)
    means = ((probabilities.logit()[..., None] + widths[..., None] * nodes).sigmoid() * weights).sum(dim=-1)
    # Exactly what it was where nothing is spread.
    means = torch.where(widths > 0, means, probabilities)
    return values.expand(*means.shape[:-1], space.n).index_copy(-1, columns, means)


def spread_magnitudes(
    space: SearchSpace, magnitudes: Tensor, slots: Tensor, spread: Tensor, generator: torch.Generator | None
) -> Tensor:
    """Magnitudes (B, S) of slots (B, S), each moved by normal noise on its logit; spread (n,) or (B, n)."""
    import torch

    low, high = (ends[slots] for ends in _ranges_of_slots(space, magnitudes.dtype, magnitudes.device))
    noise = _normal(magnitudes, generator)
    width = of_slots(space, spread, slots)
    moved = low.lerp(high, (logits_between(magnitudes, low, high) + width * noise).sigmoid())
    return torch.where(width > 0, moved, magnitudes)


def logits_between(values: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """The logits of places in ranges; minus infinity in a range of one value."""
    import torch

    return ((values - low) / torch.where(high == low, 1.0, high - low)).clamp(0, 1).logit()


def moved_by(space: SearchSpace, values: Tensor, offset: Tensor) -> Tensor:
    """Values (..., n) whose logits are moved by an offset (..., n); those at an end of their range stay."""
    import torch

    low, high = space.bounds(values)
    moved = low.lerp(high, (logits_between(values, low, high) + offset).sigmoid())
    return torch.where(offset == 0, values, moved)


def _normal(like: Tensor, generator: torch.Generator | None) -> Tensor:
    import torch

    from hba.distributed.collectives import draw_then_shard

    # A compiler refuses the argument, even where it is None.
    if generator is None:
        return torch.randn(like.shape, dtype=like.dtype, device=like.device)
    return draw_then_shard(
        len(like),
        lambda n: torch.randn(n, *like.shape[1:], dtype=like.dtype, device=like.device, generator=generator),
    )


def of_slots(space: SearchSpace, rows: Tensor, slots: Tensor) -> Tensor:
    """The magnitude's number in a row (n,), or in rows (B, n), of each of the slots (B, S), 0 where it has none."""
    import torch

    columns = space.slot_columns(rows.device).magnitude
    padded = torch.cat([rows, rows.new_zeros(*rows.shape[:-1], 1)], dim=-1)
    return padded[columns][slots] if rows.ndim == 1 else padded.gather(1, columns[slots])


@device_constant
def _ranges_of_slots(space: SearchSpace, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """(low, high) of each slot's magnitude, both (n_slots,); (0, 0) where it has none."""
    import torch

    ends = [(0.0, 0.0) if slot.magnitude is None else space.ranges[slot.magnitude] for slot in space.slots]
    low, high = torch.tensor(ends, dtype=dtype, device=device).unbind(1)
    return low, high


@device_constant
def quadrature(dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """Nodes and weights (N_NODES,) of the mean over a standard normal variable, by Gauss and Hermite."""
    import torch

    at, share = np.polynomial.hermite_e.hermegauss(N_NODES)
    nodes, weights = (torch.tensor(one, dtype=dtype, device=device) for one in (at, share / share.sum()))
    return nodes, weights
