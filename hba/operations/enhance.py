"""Operations that blend an image with a poorer version of itself: Brightness, Color, Contrast, Sharpness.

Convention:
    images (B, C, H, W) float in [0, 1], C 1 or 3; factor (B,) as in PIL.ImageEnhance: 1 is the identity, 0 the
    poorer version, above 1 goes beyond the image. Results are clamped to [0, 1] and not rounded to 8 bits.
"""

import torch
from kornia.color import rgb_to_grayscale
from kornia.filters import filter2d
from torch import Tensor


def brightness(images: Tensor, factor: Tensor) -> Tensor:
    """Blend with black. Ref: PIL.ImageEnhance.Brightness."""
    return _blend(torch.zeros_like(images), images, factor)


def color(images: Tensor, factor: Tensor) -> Tensor:
    """Blend with the grey image; a one-channel image stays as it is. Ref: PIL.ImageEnhance.Color."""
    return _blend(_grayscale(images).expand_as(images), images, factor)


def contrast(images: Tensor, factor: Tensor) -> Tensor:
    """Blend with the mean grey level, rounded to 8 bits. Ref: PIL.ImageEnhance.Contrast."""
    gray_levels = _grayscale(images).mul(255).round()
    mean_level = gray_levels.mean(dim=(1, 2, 3), keepdim=True).add(0.5).floor()
    return _blend((mean_level / 255).expand_as(images), images, factor)


def sharpness(images: Tensor, factor: Tensor) -> Tensor:
    """Blend with the image smoothed by ((1, 1, 1), (1, 5, 1), (1, 1, 1)) / 13; the outermost pixels stay.

    Ref: PIL.ImageEnhance.Sharpness, PIL.ImageFilter.SMOOTH.
    """
    if min(images.shape[-2:]) < 3:
        return images.clone()
    kernel = images.new_full((1, 3, 3), 1 / 13)
    kernel[0, 1, 1] = 5 / 13
    smooth = images.clone()
    smooth[..., 1:-1, 1:-1] = filter2d(images, kernel, padding="valid").mul(255).round() / 255
    return _blend(smooth, images, factor)


def _grayscale(images: Tensor) -> Tensor:
    """Luma 0.299 R + 0.587 G + 0.114 B, as PIL's mode L, shape (B, 1, H, W)."""
    return images if images.shape[1] == 1 else rgb_to_grayscale(images)


def _blend(poorer: Tensor, images: Tensor, factor: Tensor) -> Tensor:
    return torch.lerp(poorer, images, factor.to(images.dtype)[:, None, None, None]).clamp(0, 1)
