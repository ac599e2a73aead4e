"""Random images, magnitudes and places, from a seed."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from hba.operations import Operation


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def random_images(
    shape: Sequence[int], seed: int, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Uniform in [0, 1], not on the 8-bit grid, with some exact ends."""
    images = torch.rand(*shape, generator=seeded(seed), dtype=torch.float64)
    return (images * 1.2 - 0.1).clamp(0, 1).to(dtype)


def eight_bit_images(
    shape: Sequence[int], seed: int, dtype: torch.dtype = torch.float32
) -> Tensor:
    return random_images(shape, seed, dtype).mul(255).round() / 255


def magnitudes_for(operation: Operation, count: int, seed: int) -> Tensor:
    """Uniform over the range, with either sign for a signed operation."""
    low, high = sorted(operation.magnitude_range or (0.0, 0.0))
    rng = np.random.default_rng(seed)
    sign = rng.choice([-1.0, 1.0], count) if operation.signed else 1.0
    return torch.tensor(rng.uniform(low, high, count) * sign, dtype=torch.float32)


def positions(count: int, seed: int) -> Tensor:
    return torch.rand(count, 2, generator=seeded(seed))
