"""Cutout: a square of one colour over a part of the image (DeVries and Taylor 2017)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hba.utils.devices import whole_numbers

if TYPE_CHECKING:
    from torch import Tensor


def cutout(images: Tensor, size: Tensor, fill: Tensor, position: Tensor) -> Tensor:
    """Cover a square with the fill colour. Ref: PIL.ImageDraw.rectangle, filled.

    Convention:
        images (B, C, H, W) float in [0, 1]; size (B,) is the side as a fraction of the image's shorter side, rounded
        to whole pixels, 0 is the identity; fill (C,); position (B, 2) in [0, 1) is the centre as fractions of width
        and height. The square covers side x side pixels, fewer at a border.
    """
    height, width = images.shape[2:]
    # In float64, as in plain Python: halves are rounded to the same side.
    side = (size.double() * min(height, width)).round()
    across = covered(width, position[:, 0].double(), side)
    down = covered(height, position[:, 1].double(), side)
    square = (down[:, :, None] * across[:, None, :])[:, None].to(images.dtype)
    return (images * (1 - square)).add_(square * fill[:, None, None])


def covered(length: int, centre: Tensor, side: Tensor) -> Tensor:
    """1 where one of `length` pixels lies in a span of `side` pixels about the centre pixel, else 0; (..., length).

    centre (...) in [0, 1) is a fraction of the length, side (...) a whole number; float64.
    """
    first = (centre * length).floor() - (side / 2).floor()
    beyond = whole_numbers(length, centre.dtype, centre.device) - first[..., None]
    return ((beyond >= 0) & (beyond < side[..., None])).to(side.dtype)
