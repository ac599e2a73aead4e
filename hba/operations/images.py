"""Checks of image batches, and colours for images of any number of channels."""

import torch
from torch import Tensor

from hba.errors import SettingsError
from hba.utils.devices import device_constant

LUMA_WEIGHTS = (0.299, 0.587, 0.114)
"""Of R, G and B, as in PIL's mode L."""


def check_images(images: Tensor, *, or_bytes: bool = False) -> None:
    """Raise SettingsError unless images are (B, C, H, W) floating point, or with or_bytes uint8. No value is read."""
    if not isinstance(images, Tensor):
        raise SettingsError(f"images must be a tensor (B, C, H, W), got {type(images).__name__}")
    is_number = images.is_floating_point() or (or_bytes and images.dtype == torch.uint8)
    if images.ndim != 4 or not images.shape[1] or not is_number:
        kinds = "uint8 or floating point" if or_bytes else "floating point"
        raise SettingsError(
            f"images must be {kinds} of shape (B, C, H, W) with at least one channel, "
            f"got {images.dtype} {tuple(images.shape)}"
        )


def luma(images: Tensor) -> Tensor:
    """The grey (B, 1, H, W) of RGB images (B, 3, H, W), by LUMA_WEIGHTS.

    A product, a sum, one after the other: the last bit is then the same on every machine, and in hba/packed.
    """
    weighted = [weight * images[:, channel : channel + 1] for channel, weight in enumerate(LUMA_WEIGHTS)]
    return weighted[0].add_(weighted[1]).add_(weighted[2])


def color_for(n_channels: int, color: tuple[float, ...]) -> tuple[float, ...]:
    """A colour with one number per channel: a single number is repeated, RGB becomes luma for grey images.

    Raises SettingsError for another number of them.
    """
    if len(color) == 3 and n_channels == 1:
        return (sum(weight * value for weight, value in zip(LUMA_WEIGHTS, color, strict=True)),)
    if len(color) not in (1, n_channels):
        raise SettingsError(
            f"a fill of {len(color)} numbers is for images of {len(color)} channels, got {n_channels}; give one number "
            "for all channels, or one for each"
        )
    return color * n_channels if len(color) == 1 else color


def fill_for(images: Tensor, color: tuple[float, ...]) -> Tensor:
    """The colour, in [0, 1], as a tensor (C,) for these images (B, C, H, W); float32 for uint8 images."""
    dtype = images.dtype if images.is_floating_point() else torch.float32
    return _color_tensor(color_for(images.shape[1], color), dtype, images.device)


@device_constant
def _color_tensor(color: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.tensor(color, dtype=dtype, device=device)
