"""Resampling through affine maps: each output pixel is found in the input, at the nearest pixel or between four.

Convention:
    images (B, C, H, W) float in [0, 1]; fill (C,) is the colour of pixels that come from outside the image. Maps as in
    geometric.
"""

from collections.abc import Mapping
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from hba.utils.devices import whole_numbers

FRACTION_BITS = 16
ONE = 1 << FRACTION_BITS
LARGE_SIDE_PIXELS = 1 << 14


def identity_coefficients(like: Tensor) -> dict[str, Tensor]:
    """The map that changes nothing, for each of (N,)."""
    zero, one = torch.zeros_like(like), torch.ones_like(like)
    return {"a": one, "b": zero, "c": zero, "d": zero, "e": one, "f": zero}


class Maps(NamedTuple):
    """Affine maps of N images, coefficients a to f in the last of (N, 6): float64, and in units of 2^-16 pixel, int64.

    In the second the offsets c and f are those of the first pixel's centre.
    """

    exact: Tensor
    fixed_point: Tensor

    @staticmethod
    def of(coefficients: Mapping[str, Tensor]) -> "Maps":
        """From coefficients by name, of any shape (...)."""
        a, b, c, d, e, f = (coefficients[name] for name in "abcdef")
        # PIL moves an image that keeps its form by whole pixels, before the fraction is cut to 16 bits.
        moved = (a == 1) & (b == 0) & (d == 0) & (e == 1)
        x0 = torch.where(moved, (c + a / 2).floor(), c + a / 2 + b / 2)
        y0 = torch.where(moved, (f + e / 2).floor(), f + d / 2 + e / 2)
        fixed_point = torch.stack([a, b, x0, d, e, y0], dim=-1).mul(ONE).add(0.5).floor().long()
        return Maps(torch.stack([a, b, c, d, e, f], dim=-1), fixed_point)


def warp(images: Tensor, maps: Maps, fill: Tensor, interpolation: str) -> Tensor:
    """Each of B images through its map. Ref: PIL.Image.transform(AFFINE), nearest or bilinear."""
    if interpolation == "nearest":
        return _nearest(images, maps.fixed_point, fill)
    return _bilinear(images, maps.exact, fill)


def _nearest(images: Tensor, maps: Tensor, fill: Tensor) -> Tensor:
    """The input pixel in which the centre of each output pixel falls.

    In whole numbers with 16 bits of fraction, as PIL computes it: ties fall on the same side.
    """
    batch, channels, height, width = images.shape
    framed = fill.to(images.dtype)[:, None, None].repeat(batch, 1, height + 2, width + 2)
    framed[:, :, 1:-1, 1:-1] = images
    # int32 is faster, and holds the places of images of usual size.
    whole = torch.int32 if max(height, width) < LARGE_SIDE_PIXELS else torch.int64
    xx, xy, x0, yx, yy, y0 = maps.to(whole).unbind(1)
    x = _source(xx, xy, x0, height, width).clamp_(0, width + 1)
    y = _source(yx, yy, y0, height, width).clamp_(0, height + 1)
    pixel = x.add_(y, alpha=width + 2).flatten(1).long()
    shown = framed.flatten(2).gather(2, pixel[:, None].expand(batch, channels, height * width))
    return shown.view(images.shape)


def _source(per_column: Tensor, per_row: Tensor, first: Tensor, height: int, width: int) -> Tensor:
    """Row or column of the input for each output pixel, (B, H, W); 1 is the image's first, for a frame of 1 pixel."""
    columns = whole_numbers(width, first.dtype, first.device)
    rows = whole_numbers(height, first.dtype, first.device)
    in_first_row = torch.addcmul((first + ONE)[:, None], per_column[:, None], columns)
    below = per_row[:, None] * rows
    return (in_first_row[:, None, :] + below[:, :, None]).bitwise_right_shift_(FRACTION_BITS)


def _bilinear(images: Tensor, maps: Tensor, fill: Tensor) -> Tensor:
    """A mean of the four input pixels about the place of each output pixel's centre; outside, the fill colour."""
    if images.dtype in (torch.float16, torch.bfloat16):
        return _bilinear(images.float(), maps, fill.float()).to(images.dtype)
    height, width = images.shape[2:]
    a, b, c, d, e, f = maps.unbind(1)
    columns = whole_numbers(width, maps.dtype, maps.device) + 0.5
    rows = whole_numbers(height, maps.dtype, maps.device) + 0.5

    def place(per_column: Tensor, per_row: Tensor, first: Tensor) -> Tensor:
        across = per_column[:, None, None] * columns + first[:, None, None]
        return across + per_row[:, None, None] * rows[:, None]

    x, y = place(a, b, c), place(d, e, f)
    grid = torch.stack([2 * x / width - 1, 2 * y / height - 1], dim=3).to(images.dtype)
    sampled = F.grid_sample(images, grid, mode="bilinear", padding_mode="border", align_corners=False)
    inside = ((x >= 0) & (x < width) & (y >= 0) & (y < height)).to(images.dtype)[:, None]
    # The four weights may sum to a last bit more than 1.
    return sampled.clamp_(0, 1).mul_(inside).add_(fill[:, None, None] * (1 - inside))
