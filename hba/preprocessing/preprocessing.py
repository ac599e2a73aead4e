"""Preprocessing of images in [0, 1] into the input of a network, in training and in measurements."""

from dataclasses import dataclass

import torch
from torch import Tensor

from hba.data.images import Colors, Images
from hba.errors import SettingsError
from hba.operations import COMMON_CHANNELS
from hba.preprocessing.baseline import (
    Baseline,
    augment,
    center_crop,
    color_jitter,
    network_side,
    pca_jitter,
    random_resized_crop,
)


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


def network_input_size(data: Images, baseline: Baseline) -> int:
    """Side in pixels of the network's input, which a random resized crop makes of larger images."""
    return network_side(data.image_size) if baseline.random_resized_crop else data.image_size


@dataclass(frozen=True)
class Preprocessing:
    """The steps between the policy and the network: standardization and the dataset's baseline augmentation.

    image_size: side of the network's input in pixels; only a random resized crop changes the size of images.
    """

    standardize: Standardize
    baseline: Baseline
    image_size: int

    @staticmethod
    def of(data: Images, baseline: Baseline, colors: tuple[Colors, Colors] | None = None) -> "Preprocessing":
        """The preprocessing for these training images. colors: mean and standard deviation, instead of theirs."""
        for name, n_channels in (("color_jitter", COMMON_CHANNELS), ("pca_jitter", (3,))):
            if getattr(baseline, name) and data.n_channels not in n_channels:
                raise SettingsError(f"{name} is for images in colour, got {data.n_channels} channels; set it to 0")
        standardize = Standardize.of(data) if colors is None else Standardize.by(*colors, data.device)
        return Preprocessing(standardize, baseline, network_input_size(data, baseline))

    def train(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """The network's input for images (B, C, H, W) in [0, 1] after the policy, augmented (paper, 4.2)."""
        if self.baseline.random_resized_crop:
            images = random_resized_crop(images, self.image_size, generator)
        if self.baseline.color_jitter:
            images = color_jitter(images, self.baseline.color_jitter, generator)
        if self.baseline.pca_jitter:
            images = pca_jitter(images, self.baseline.pca_jitter, generator)
        return augment(self.standardize(images), self.baseline, generator)

    def measure(self, images: Tensor) -> Tensor:
        """The network's input for images (B, C, H, W) in [0, 1] without augmentation: validation and test."""
        if self.baseline.random_resized_crop:
            images = center_crop(images, self.image_size)
        return self.standardize(images)
