"""The steps between the policy and the network: a data set's baseline augmentation
(paper, 4.2) and standardization.

They are not operations of a policy: a random resized crop changes the size of images,
PCA jitter may leave [0, 1], and on a GPU, where the step of a policy does not depend on
the draw, a flip and a crop would launch about 120 kernels instead of 15.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torchvision.transforms.v2 import functional as TF

from hba.data.images import Colors, Images
from hba.errors import SettingsError
from hba.operations import COMMON_CHANNELS, OPERATIONS
from hba.operations.color import blend, gray, mean_gray
from hba.utils.devices import exact_device
from hba.utils.tensors import device_constant


@dataclass(frozen=True)
class Baseline:
    """The random baseline augmentation of each image after the policy.

    Sizes are in pixels; False and 0 are off. Before standardization: random resized
    crop, colour jitter, PCA jitter. After it: flip, random crop, Cutout.
    """

    flip: bool = False
    crop_padding: int = 0
    cutout_size: int = 0
    random_resized_crop: bool = False
    color_jitter: float = 0.0
    """Largest change of the factors of brightness, contrast and saturation from 1."""
    pca_jitter: float = 0.0
    """Standard deviation of AlexNet's noise along the principal components of colour.
    """

    def scaled(self, factor: float) -> "Baseline":
        """For images whose side is `factor` times as long."""
        padding = round(self.crop_padding * factor)
        size = round(self.cutout_size * factor)
        return replace(self, crop_padding=padding, cutout_size=size)


BASELINES: Mapping[str, Baseline] = {
    "cifar10": Baseline(flip=True, crop_padding=4, cutout_size=16),
    "cifar100": Baseline(flip=True, crop_padding=4, cutout_size=16),
    "svhn": Baseline(cutout_size=20),
    "svhn-full": Baseline(cutout_size=20),
    "fashionmnist": Baseline(flip=True, crop_padding=4),
    "imagenet": Baseline(
        flip=True, random_resized_crop=True, color_jitter=0.4, pca_jitter=0.1
    ),
}
"""For each dataset, at its own image size; scaled with the images. All other images are
only standardized, because a flip or crop may not suit their labels.
"""
PHOTOGRAPHS = replace(BASELINES["cifar10"], cutout_size=0)
"""For photographs of any kind, at PHOTOGRAPHS_SIDE pixels: CIFAR-10's flip and crop,
without Cutout.
"""
PHOTOGRAPHS_SIDE = 32
STORED_PER_SIDE = 8 / 7
"""How much larger than the network's input images are stored: 256 pixels for 224."""


def network_input_size(data: Images, baseline: Baseline) -> int:
    """Side in pixels of the network's input.

    A random resized crop reduces it; this is the inverse of `stored_size`.
    """
    return (
        round(data.image_size / STORED_PER_SIDE)
        if baseline.random_resized_crop
        else data.image_size
    )


@dataclass(frozen=True)
class Preprocessing:
    """Standardization and the dataset's baseline augmentation."""

    mean: Tensor
    """Of images in [0, 1], (1, C, 1, 1)."""
    std: Tensor
    """Of images in [0, 1], (1, C, 1, 1)."""
    baseline: Baseline
    image_size: int
    """Side of the input in pixels; only random crops resize."""

    @staticmethod
    def of(
        data: Images, baseline: Baseline, colors: tuple[Colors, Colors] | None = None
    ) -> "Preprocessing":
        """The preprocessing for these training images, on their device.

        Args:
            data: The training images.
            baseline: Their baseline augmentation.
            colors: Mean and std, instead of those of the images unless these have
                another number of channels.
        """
        for name, n_channels in (
            ("color_jitter", COMMON_CHANNELS),
            ("pca_jitter", (3,)),
        ):
            if getattr(baseline, name) and data.n_channels not in n_channels:
                raise SettingsError(
                    f"{name} is for images in color, got {data.n_channels} channels;"
                    " set it to 0"
                )
        mean_and_std = (
            colors
            if colors is not None and len(colors[0]) == data.n_channels
            else data.mean_and_std()
        )
        mean, std = (
            torch.tensor(color, device=data.device)[None, :, None, None]
            for color in mean_and_std
        )
        return Preprocessing(mean, std, baseline, network_input_size(data, baseline))

    def standardize(self, images: Tensor) -> Tensor:
        return (images - self.mean) / self.std

    def train(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """The network's input for images after the policy, augmented (paper, 4.2).

        Each image has its own draws. Crop and Cutout uncover 0, the mean colour after
        standardization.

        Args:
            images: (B, C, H, W) in [0, 1].
            generator: Of the draws.
        """
        device = images.device
        images = images.to(exact_device(device))
        if self.baseline.random_resized_crop:
            boxes = random_boxes(
                len(images), images.shape[2], images.shape[3], generator
            )
            images = resized_crop(images, boxes, self.image_size)
        if self.baseline.color_jitter:
            images = color_jitter(images, self.baseline.color_jitter, generator)
        if self.baseline.pca_jitter:
            images = pca_jitter(images, self.baseline.pca_jitter, generator)
        images = self.standardize(images.to(device))
        if self.baseline.flip:
            flipped = (
                uniform_draws(len(images), (1, 1, 1), generator, images.device) < 0.5
            )
            images = torch.where(flipped, images.flip(3), images)
        if self.baseline.crop_padding:
            images = random_crop(images, self.baseline.crop_padding, generator)
        if self.baseline.cutout_size:
            images = random_cutout(images, self.baseline.cutout_size, generator)
        return images

    def measure(self, images: Tensor) -> Tensor:
        """The network's input for images without augmentation: validation and test.

        Args:
            images: (B, C, H, W) in [0, 1].
        """
        if self.baseline.random_resized_crop:
            images = TF.center_crop(images, [self.image_size, self.image_size])
        return self.standardize(images)


def uniform_draws(
    batch: int,
    shape: tuple[int, ...],
    generator: torch.Generator | None,
    device: torch.device,
    *limits: float,
) -> Tensor:
    """Draws (B, *shape) from U(0, 1), or between two limits."""
    drawing = exact_device(device)
    draws = torch.empty(batch, *shape, device=drawing)
    return draws.uniform_(*limits, generator=generator).to(device)


def random_crop(images: Tensor, padding: int, generator: torch.Generator) -> Tensor:
    """Pad with 0 on all sides and cut the old size out again.

    The place of each image is one of (2 padding + 1)^2.
    """
    batch, channels, height, width = images.shape
    device = images.device
    options: Any = {"generator": generator, "device": generator.device}
    offsets = torch.randint(2 * padding + 1, (2, batch, 1), **options).to(device)
    rows = offsets[0] + torch.arange(height, device=device)
    columns = offsets[1] + torch.arange(width, device=device)
    image = torch.arange(batch, device=device)[:, None, None, None]
    channel = torch.arange(channels, device=device)[None, :, None, None]
    return F.pad(images, [padding] * 4)[
        image, channel, rows[:, None, :, None], columns[:, None, None, :]
    ]


def random_cutout(images: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """Set a square to 0 about a uniformly drawn pixel (DeVries and Taylor 2017).

    Args:
        images: (B, C, H, W).
        size: Side of the square in pixels.
        generator: Of the draws.
    """
    batch, channels, height, width = images.shape
    device = images.device
    images = images.to(exact_device(device))
    fraction = images.new_full((batch,), size / min(height, width))
    position = uniform_draws(batch, (2,), generator, images.device)
    return OPERATIONS["Cutout"](
        images, fraction, fill=images.new_zeros(channels), position=position
    ).to(device)


EIGENVALUES = (0.2175, 0.0188, 0.0045)
"""Of the covariance of ImageNet's colours in [0, 1]."""
EIGENVECTORS = (
    (-0.5675, 0.7192, 0.4009),
    (-0.5808, -0.0045, -0.8140),
    (-0.5836, -0.6948, 0.4203),
)
"""Of the same covariance; a row for each channel, a column for each component."""


def color_jitter(images: Tensor, strength: float, generator: torch.Generator) -> Tensor:
    """Enhance images by random factors, in random order.

    Ref: torchvision's ColorJitter.

    Args:
        images: (B, C, H, W).
        strength: Factors are from U(1 - strength, 1 + strength).
        generator: Of the draws.
    """
    factors = uniform_draws(
        len(images), (3,), generator, images.device, 1 - strength, 1 + strength
    )
    order = uniform_draws(len(images), (3,), generator, images.device).argsort(dim=1)
    return jittered(images, factors, order)


def jittered(images: Tensor, factors: Tensor, order: Tensor) -> Tensor:
    """Enhance brightness, contrast and saturation.

    Args:
        images: (B, C, H, W).
        factors: Of the three enhancements (B, 3).
        order: Of the three enhancements (B, 3), the numbers 0, 1 and 2.
    """
    for step in order.T:
        enhancement = step[:, None, None, None]
        poorer = torch.where(enhancement == 1, mean_gray(images), gray(images)).where(
            enhancement != 0, 0
        )
        images = blend(poorer, images, factors.gather(1, step[:, None])[:, 0])
    return images


def pca_jitter(images: Tensor, std: float, generator: torch.Generator) -> Tensor:
    """Add noise along the principal components of colour.

    It is the same to all pixels of an image, and is not clamped. Ref: Krizhevsky,
    Sutskever and Hinton 2012, 4.1.

    Args:
        images: (B, 3, H, W).
        std: Standard deviation of alpha for each component.
        generator: Of the draws.
    """
    device = images.device
    alpha = torch.randn(
        len(images), len(EIGENVALUES), generator=generator, device=device
    )
    return images + ((alpha * std) @ _components(device))[:, :, None, None]


@device_constant
def _components(device: torch.device) -> Tensor:
    """(component, channel): each eigenvector times its eigenvalue."""
    return (
        torch.tensor(EIGENVECTORS, device=device).T
        * torch.tensor(EIGENVALUES, device=device)[:, None]
    )


SCALE = (0.08, 1.0)
"""Share of the image's area that a crop has."""
RATIO = (3 / 4, 4 / 3)
"""Width to height of a crop."""
N_TRIES = 10
"""Number of boxes that are drawn for each image; the first that fits is taken."""


def random_boxes(
    batch: int, height: int, width: int, generator: torch.Generator
) -> Tensor:
    """Boxes of random resized crops. Ref: torchvision's RandomResizedCrop.get_params.

    An area and a shape are drawn up to ten times; the first box that fits is taken,
    otherwise the whole image (as in torchvision for images that are about square, as
    all stored ones are).

    Returns:
        Whole numbers (B, 4): top, left, height, width.
    """
    device = generator.device
    area = uniform_draws(batch, (N_TRIES,), generator, device, *SCALE) * (
        height * width
    )
    log_ratio = uniform_draws(
        batch, (N_TRIES,), generator, device, *map(math.log, RATIO)
    )
    sizes = (
        torch.stack([area * (-log_ratio).exp(), area * log_ratio.exp()]).sqrt().round()
    )
    limits = _limits(height, width, device)
    fits = (sizes <= limits[..., None]).all(dim=0)
    # argmax of truth values is the first that is true.
    first = fits.int().argmax(dim=1, keepdim=True)
    chosen = sizes.gather(2, first.expand(2, -1, -1))[..., 0]
    chosen = torch.where(fits.any(dim=1), chosen.clamp(min=1), limits)
    place = torch.rand(2, batch, generator=generator, device=device)
    place = place * (limits - chosen + 1)
    # The product may round up to the limit itself.
    corner = place.floor().minimum(limits - chosen)
    return torch.cat([corner, chosen]).T


@device_constant
def _limits(height: int, width: int, device: torch.device) -> Tensor:
    return torch.tensor([[height], [width]], dtype=torch.float32, device=device)


def resized_crop(images: Tensor, boxes: Tensor, size: int) -> Tensor:
    """Cut boxes out of images, and resize them to a square.

    Bilinear without antialiasing, which makes little difference here: a crop is hardly
    ever reduced by more than the 8 / 7 by which images are stored larger than the
    network takes them. Pixels outside of the box have no influence.

    Args:
        images: (B, C, H, W).
        boxes: Top, left, height and width (B, 4).
        size: Side of the result in pixels.

    Returns:
        Images (B, C, size, size).
    """
    height, width = images.shape[-2:]
    middles = (torch.arange(size, device=images.device) + 0.5) / size
    top, left, box_height, box_width = boxes.to(images.dtype).T[..., None]

    def places(start: Tensor, length: Tensor, full: int) -> Tensor:
        """Places (B, size) of the result's pixels, in coordinates of grid_sample: -1 to
        1 between outer edges.
        """
        pixels = (middles * length - 0.5).clamp(min=0).minimum(length - 1)
        return (2 * (start + pixels) + 1) / full - 1

    rows = places(top, box_height, height)
    columns = places(left, box_width, width)
    grid = torch.stack(
        torch.broadcast_tensors(columns[:, None, :], rows[:, :, None]), dim=3
    )
    return F.grid_sample(
        images, grid, mode="bilinear", padding_mode="border", align_corners=False
    )
