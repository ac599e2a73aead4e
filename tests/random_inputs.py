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
    """Drawn from magnitudes of a policy that are uniform over the range."""
    low, high = sorted(operation.magnitude_range or (0.0, 0.0))
    rng = np.random.default_rng(seed)
    numbers = rng.random(count)
    of_policy = rng.uniform(low, high, count)
    pairs = zip(of_policy.tolist(), numbers.tolist(), strict=True)
    return torch.tensor([operation.draw_magnitude(*pair) for pair in pairs])


def drawn_magnitudes(operation: Operation, magnitude: float, numbers: Tensor) -> Tensor:
    """What the draw makes of a policy's magnitude with numbers (B,) in [0, 1)."""
    return torch.tensor(
        [operation.draw_magnitude(magnitude, one) for one in numbers.tolist()]
    )


def positions(count: int, seed: int) -> Tensor:
    return torch.rand(count, 2, generator=seeded(seed))
