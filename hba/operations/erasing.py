"""Random erasing (Zhong et al. 2020): a rectangle in the fill colour."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hba.utils.tensors import whole_numbers

if TYPE_CHECKING:
    from torch import Tensor

# Exported files contain the rest of this module.

SMALLEST_SHARE = 0.02
ASPECTS = (0.3, 3.3)


def _between(low: Tensor | float, high: Tensor | float, uniform: Tensor) -> Tensor:
    """Map a number of U(0, 1) to U(low, high)."""
    return (high - low) * uniform + low


def erase(images: Tensor, largest: Tensor, fill: Tensor, uniforms: Tensor) -> Tensor:
    """Cover a rectangle of U(0.02, largest) of the image's area with the fill colour;
    none if `largest` is 0.

    Convention:
        images (B, C, H, W) float in [0, 1]; largest (B,), 0.02 if it is smaller; fill
            (C,); uniforms (B, 4) in [0, 1)
        choose the share, the ratio of height to width, log-uniform in [0.3, 3.3], and
            the place in x and y.
        A rectangle larger than the image is cut. Ref: torchvision's RandomErasing,
            which draws again up to ten times.
    """
    height, width = images.shape[2:]
    share, aspect, x, y = uniforms.double().unbind(dim=1)
    area = _between(
        SMALLEST_SHARE, largest.double().clamp(min=SMALLEST_SHARE), share
    ) * (height * width)
    ratio = _between(math.log(ASPECTS[0]), math.log(ASPECTS[1]), aspect).exp()
    down = _span(height, (area * ratio).sqrt(), y)
    across = _span(width, (area / ratio).sqrt(), x)
    covered = down[:, :, None] & across[:, None, :] & (largest > 0)[:, None, None]
    return fill.to(images.dtype)[:, None, None].where(covered[:, None], images)


def _span(length: int, side: Tensor, place: Tensor) -> Tensor:
    """Which of `length` pixels lie in a span of `side` (B,) pixels, rounded, that
    starts at `place` (B,) in [0, 1).
    """
    side = side.round().clamp(max=length)
    first = (place * (length - side + 1)).floor()
    beyond = whole_numbers(length, side.dtype, side.device) - first[:, None]
    return (beyond >= 0) & (beyond < side[:, None])
