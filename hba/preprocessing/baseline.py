"""The baseline augmentation of a dataset, and Cutout: what every training does behind the policy (paper, 4.2)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import torch
import torch.nn.functional as F
from torch import Tensor

from hba.distributed.collectives import draw_then_shard
from hba.operations import OPERATIONS


@dataclass(frozen=True)
class Baseline:
    """What is drawn anew for each image behind the policy; sizes in pixels; False and 0 are off.

    Before standardisation: random resized crop, colour jitter, PCA jitter. After it: flip, random crop, Cutout.
    color_jitter: largest change of the factors of brightness, contrast and saturation from 1. pca_jitter: standard
    deviation of AlexNet's noise along the principal components of colour.
    """

    flip: bool = False
    crop_padding: int = 0
    cutout_size: int = 0
    random_resized_crop: bool = False
    color_jitter: float = 0.0
    pca_jitter: float = 0.0

    def scaled(self, factor: float) -> "Baseline":
        """For images whose side is `factor` times as long."""
        return replace(
            self, crop_padding=round(self.crop_padding * factor), cutout_size=round(self.cutout_size * factor)
        )


BASELINES: Mapping[str, Baseline] = MappingProxyType(
    {
        "cifar10": Baseline(flip=True, crop_padding=4, cutout_size=16),
        "cifar100": Baseline(flip=True, crop_padding=4, cutout_size=16),
        "svhn": Baseline(cutout_size=20),
        "svhn-full": Baseline(cutout_size=20),
        "fashionmnist": Baseline(flip=True, crop_padding=4),
        "imagenet": Baseline(flip=True, random_resized_crop=True, color_jitter=0.4, pca_jitter=0.1),
    }
)
"""By dataset, at its own image size; scaled with the images. All others are standardised only, because a flip or crop
may not suit their labels.
"""

PHOTOGRAPHS = replace(BASELINES["cifar10"], cutout_size=0)
"""What photographs of any kind bear, for images of PHOTOGRAPHS_SIDE pixels: CIFAR-10's flip and crop, no Cutout."""
PHOTOGRAPHS_SIDE = 32


def augment(images: Tensor, baseline: Baseline, generator: torch.Generator) -> Tensor:
    """Flip, crop and Cutout for standardised images (B, C, H, W), each image on its own draw.

    What crop and Cutout uncover is 0, the mean colour after standardisation.
    """
    if baseline.flip:
        flipped = (
            draw_then_shard(len(images), lambda n: torch.rand(n, 1, 1, 1, generator=generator, device=images.device))
            < 0.5
        )
        images = torch.where(flipped, images.flip(3), images)
    if baseline.crop_padding:
        images = random_crop(images, baseline.crop_padding, generator)
    if baseline.cutout_size:
        images = random_cutout(images, baseline.cutout_size, generator)
    return images


def random_crop(images: Tensor, padding: int, generator: torch.Generator) -> Tensor:
    """Pad with 0 on all sides and cut the old size out again, at one of (2 padding + 1)^2 places per image."""
    batch, channels, height, width = images.shape
    device = images.device
    places = 2 * padding + 1
    offsets = draw_then_shard(
        batch, lambda n: torch.randint(places, (2, n, 1), generator=generator, device=device), dim=1
    )
    rows = offsets[0] + torch.arange(height, device=device)
    columns = offsets[1] + torch.arange(width, device=device)
    image = torch.arange(batch, device=device)[:, None, None, None]
    channel = torch.arange(channels, device=device)[None, :, None, None]
    return F.pad(images, [padding] * 4)[image, channel, rows[:, None, :, None], columns[:, None, None, :]]


def random_cutout(images: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """Set a square of `size` pixels to 0 about a uniformly drawn pixel (DeVries and Taylor 2017)."""
    batch, channels, height, width = images.shape
    fraction = images.new_full((batch,), size / min(height, width))
    position = draw_then_shard(batch, lambda n: torch.rand(n, 2, generator=generator, device=images.device))
    return OPERATIONS["Cutout"](images, fraction, fill=images.new_zeros(channels), position=position)
