"""Standardisation of images by channel."""

from dataclasses import dataclass

import torch
from torch import Tensor

from hba.data.images import Colors, Images


@dataclass(frozen=True)
class Standardize:
    """(x - mean) / std per channel, for images (B, C, H, W) in [0, 1]; mean and std of shape (1, C, 1, 1)."""

    mean: Tensor
    std: Tensor

    @staticmethod
    def of(data: Images) -> "Standardize":
        """With mean and standard deviation of these images, on their device."""
        return Standardize.by(data.mean_color(), data.std_color(), data.device)

    @staticmethod
    def by(mean: Colors, std: Colors, device: torch.device) -> "Standardize":
        """With these, by channel and in [0, 1]."""
        return Standardize(*(torch.tensor(color, device=device)[None, :, None, None] for color in (mean, std)))

    def __call__(self, images: Tensor) -> Tensor:
        return (images - self.mean) / self.std
