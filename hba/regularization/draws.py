"""Numbers that are drawn anew for each image."""

import torch
from torch import Tensor


def uniform(low: Tensor, high: Tensor, generator: torch.Generator | None) -> Tensor:
    """U(low, high) elementwise, of the bounds' shape, on their device; the bound itself where they are equal."""
    return torch.rand(low.shape, generator=generator, dtype=low.dtype, device=low.device) * (high - low) + low
