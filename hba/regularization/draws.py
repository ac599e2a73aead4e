"""Numbers that are drawn anew for each image."""

import torch
from torch import Tensor

from hba.distributed.collectives import draw_then_shard


def uniform(low: Tensor, high: Tensor, generator: torch.Generator | None) -> Tensor:
    """U(low, high) elementwise, (B, ...) as the bounds, on their device; the bound itself where they are equal."""
    drawn = draw_then_shard(
        len(low), lambda n: torch.rand(n, *low.shape[1:], generator=generator, dtype=low.dtype, device=low.device)
    )
    return drawn * (high - low) + low
