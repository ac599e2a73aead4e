"""Images of more channels than colours have: class 1 is brighter in the last channel alone."""

from pathlib import Path

import numpy as np
import torch

from hba.data import LabelledImages


def of_channels(n: int, n_channels: int, seed: int = 0) -> LabelledImages:
    """8x8."""
    generator = torch.Generator().manual_seed(seed)
    images = torch.randint(0, 120, (n, n_channels, 8, 8), generator=generator)
    labels = torch.arange(n) % 2
    images[labels == 1, -1] += 100
    return LabelledImages(images.to(torch.uint8), labels)


def file_of(folder: Path, n: int, n_channels: int, dtype: str = "uint8") -> Path:
    """Channels last; of uint16, the same levels times 256."""
    made = of_channels(n, n_channels)
    images = made.images.permute(0, 2, 3, 1).numpy().astype(dtype) * (256 if dtype == "uint16" else 1)
    np.savez(folder / f"{n_channels}.npz", images=images.astype(dtype), labels=made.labels.numpy())
    return folder / f"{n_channels}.npz"
