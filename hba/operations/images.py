"""What operations ask of images, and colours in images of 1 or 3 channels."""

import torch
from kornia.color import rgb_to_grayscale
from torch import Tensor

from hba.errors import SettingsError
from hba.runtime.device_constants import device_constant

LUMA_WEIGHTS = (0.299, 0.587, 0.114)
"""Of R, G and B, as in PIL's mode L."""


def check_images(images: Tensor) -> None:
    """Raise SettingsError unless images are (B, 1 or 3, H, W) floating point. Values are not read."""
    if not isinstance(images, Tensor):
        raise SettingsError(f"images must be a tensor (B, C, H, W), got {type(images).__name__}")
    if images.ndim != 4 or images.shape[1] not in (1, 3) or not images.is_floating_point():
        raise SettingsError(
            "images must be floating point of shape (B, C, H, W) with C 1 or 3, "
            f"got {images.dtype} {tuple(images.shape)}"
        )


def luma(images: Tensor) -> Tensor:
    """The grey (B, 1, H, W) of RGB images (B, 3, H, W), by LUMA_WEIGHTS."""
    return rgb_to_grayscale(images)


def color_for(n_channels: int, color: tuple[float, ...]) -> tuple[float, ...]:
    """A colour of 1 or 3 numbers for images of 1 or 3 channels: RGB becomes luma, grey is repeated."""
    if len(color) == 3 and n_channels == 1:
        return (sum(weight * value for weight, value in zip(LUMA_WEIGHTS, color, strict=True)),)
    return color * n_channels if len(color) == 1 else color


def fill_for(images: Tensor, color: tuple[float, ...]) -> Tensor:
    """The colour as a tensor (C,) for these images (B, C, H, W)."""
    return _color_tensor(color_for(images.shape[1], color), images.dtype, images.device)


@device_constant
def _color_tensor(color: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.tensor(color, dtype=dtype, device=device)
