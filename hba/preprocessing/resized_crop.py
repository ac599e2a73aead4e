"""Crops of random size and shape, resized to one size, and the crop from the centre that goes with them."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from hba.distributed.collectives import draw_then_shard
from hba.utils.devices import device_constant

SCALE = (0.08, 1.0)
"""Share of the image's area that a crop has."""
RATIO = (3 / 4, 4 / 3)
"""Width to height of a crop."""
N_TRIES = 10
STORED_PER_SIDE = 8 / 7
"""By how much images are stored larger than the network takes them: 256 pixels for 224."""


def stored_side(side: int) -> int:
    """Side in pixels to store images with, of which a network takes `side`."""
    return round(side * STORED_PER_SIDE)


def network_side(stored: int) -> int:
    """The other way round; exact for every side."""
    return round(stored / STORED_PER_SIDE)


def random_resized_crop(images: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """A box of its own of each image (B, C, H, W), resized to (B, C, size, size)."""
    return resized_crop(images, random_boxes(len(images), images.shape[2], images.shape[3], generator), size)


def random_boxes(batch: int, height: int, width: int, generator: torch.Generator) -> Tensor:
    """Boxes (B, 4) of whole numbers: top, left, height, width. Ref: torchvision's RandomResizedCrop.get_params.

    An area and a shape are drawn up to ten times; the first box that fits is taken, or else the whole image (which is
    torchvision's rule too for images that are about square, as all stored ones are).
    """
    device = generator.device

    def tries(low: float, high: float) -> Tensor:
        return draw_then_shard(
            batch, lambda n: torch.empty(n, N_TRIES, device=device).uniform_(low, high, generator=generator)
        )

    area = tries(*SCALE) * (height * width)
    log_ratio = tries(*map(math.log, RATIO))
    sizes = torch.stack([area * (-log_ratio).exp(), area * log_ratio.exp()]).sqrt().round()
    limits = _limits(height, width, device)
    fits = (sizes <= limits[..., None]).all(dim=0)
    # argmax of truth values is the first that is true.
    first = fits.int().argmax(dim=1, keepdim=True)
    chosen = sizes.gather(2, first.expand(2, -1, -1))[..., 0]
    chosen = torch.where(fits.any(dim=1), chosen.clamp(min=1), limits)
    place = draw_then_shard(batch, lambda n: torch.rand(2, n, generator=generator, device=device), dim=1)
    place = place * (limits - chosen + 1)
    # The product may round up to the limit itself.
    corner = place.floor().minimum(limits - chosen)
    return torch.cat([corner, chosen]).T


@device_constant
def _limits(height: int, width: int, device: torch.device) -> Tensor:
    return torch.tensor([[height], [width]], dtype=torch.float32, device=device)


def resized_crop(images: Tensor, boxes: Tensor, size: int) -> Tensor:
    """The boxes (B, 4) of top, left, height, width in images (B, C, H, W), resized to (B, C, size, size).

    Bilinear without antialiasing, which makes little difference here: a crop is hardly ever reduced by more than the
    8 / 7 by which images are stored larger than the network takes them. What lies outside of the box never counts.
    """
    height, width = images.shape[-2:]
    middles = (torch.arange(size, device=images.device) + 0.5) / size
    top, left, box_height, box_width = boxes.to(images.dtype).T[..., None]

    def places(start: Tensor, length: Tensor, full: int) -> Tensor:
        """Where the result's pixels lie, (B, size), as grid_sample counts: from -1 to 1 between outer edges."""
        pixels = (middles * length - 0.5).clamp(min=0).minimum(length - 1)
        return (2 * (start + pixels) + 1) / full - 1

    rows, columns = places(top, box_height, height), places(left, box_width, width)
    grid = torch.stack(torch.broadcast_tensors(columns[:, None, :], rows[:, :, None]), dim=3)
    return F.grid_sample(images, grid, mode="bilinear", padding_mode="border", align_corners=False)


def center_crop(images: Tensor, size: int) -> Tensor:
    """The middle (B, C, size, size) of images that are at least as large."""
    top, left = (round((full - size) / 2) for full in images.shape[-2:])
    return images[..., top : top + size, left : left + size]
