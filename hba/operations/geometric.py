"""Operations that move or cover pixels: shear, translate, rotate, and Cutout (DeVries and Taylor 2017).

Convention:
    images (B, C, H, W) float in [0, 1]; magnitude (B,), signed, 0 is the identity; fill (C,) is the colour of pixels
    that come from outside the image. An affine map has six coefficients in PIL's order, in pixels from the top left
    corner: the output pixel (x, y) shows the input at x' = a x + b y + c, y' = d x + e y + f.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hba.operations.operation import FRACTION_BITS, ONE, Kernel, Maps, Operation, Selection, Step
from hba.utils.devices import whole_numbers

if TYPE_CHECKING:
    from torch import Tensor

    Coefficients = Callable[[Tensor, int, int], Mapping[str, Tensor]]

LARGE_SIDE_PIXELS = 1 << 14


@dataclass(frozen=True)
class Warp(Kernel):
    """A geometric operation: from magnitudes (N,) float64, height and width to its coefficients {name: (N,)}.

    It need not name those that are the identity's. A step holds the maps of all images, so one resampling does for
    all operations of an interpolation.
    """

    coefficients: Coefficients
    interpolation: str = "nearest"

    def __call__(self, images: Tensor, magnitude: Tensor, fill: Tensor) -> Tensor:
        return warp(images, self.maps(magnitude.double(), *images.shape[2:]), fill, self.interpolation)

    @property
    def batch_group(self) -> Hashable:
        return Warp, self.interpolation

    @property
    def subset_group(self) -> Hashable:
        return self.batch_group

    def map_coefficients(self, magnitude: Tensor, height: int, width: int) -> Mapping[str, Tensor]:
        return self.coefficients(magnitude, height, width)

    def on_subset(self, operation: Operation, images: Tensor, step: Step, fill: Tensor) -> Tensor:
        return warp(images, step.maps, fill, self.interpolation)

    def on_batch(self, selections: Sequence[Selection[Warp]], images: Tensor, step: Step, fill: Tensor) -> Tensor:
        return warp(images, step.maps, fill, self.interpolation)

    def with_interpolation(self, interpolation: str) -> Warp:
        return dataclasses.replace(self, interpolation=interpolation)


def shear_x(factor: Tensor, height: int, width: int) -> Mapping[str, Tensor]:
    """x' = x + factor y. Ref: PIL.Image.transform(AFFINE, (1, factor, 0, 0, 1, 0))."""
    return {"b": factor}


def shear_y(factor: Tensor, height: int, width: int) -> Mapping[str, Tensor]:
    """y' = y + factor x. Ref: PIL.Image.transform(AFFINE, (1, 0, 0, factor, 1, 0))."""
    return {"d": factor}


def translate_x(fraction: Tensor, height: int, width: int) -> Mapping[str, Tensor]:
    """x' = x + fraction W. Ref: PIL.Image.transform(AFFINE, (1, 0, fraction W, 0, 1, 0))."""
    return {"c": fraction * width}


def translate_y(fraction: Tensor, height: int, width: int) -> Mapping[str, Tensor]:
    """y' = y + fraction H. Ref: PIL.Image.transform(AFFINE, (1, 0, 0, 0, 1, fraction H))."""
    return {"f": fraction * height}


def rotate(degrees: Tensor, height: int, width: int) -> Mapping[str, Tensor]:
    """Turn counter-clockwise about the image's centre. Ref: PIL.Image.rotate, without expanding."""
    angle = degrees.deg2rad()
    return turn(angle.cos(), angle.sin(), height, width)


def turn(cos: Tensor, sin: Tensor, height: int, width: int) -> Mapping[str, Tensor]:
    """Turn about the centre, by an angle of which there are cosine and sine."""
    x, y = width / 2, height / 2
    return {"a": cos, "b": -sin, "c": x - cos * x + sin * y, "d": sin, "e": cos, "f": y - sin * x - cos * y}


def warp(images: Tensor, maps: Maps, fill: Tensor, interpolation: str) -> Tensor:
    """Each of B images through its map. Ref: PIL.Image.transform(AFFINE), nearest or bilinear."""
    if interpolation == "nearest":
        return _nearest(images, maps.fixed_point, fill)
    return _bilinear(images, maps.exact, fill)


def _nearest(images: Tensor, maps: Tensor, fill: Tensor) -> Tensor:
    """The input pixel in which the centre of each output pixel falls.

    In whole numbers with 16 bits of fraction, as PIL computes it: ties fall on the same side.
    """
    import torch

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
    import torch

    columns = whole_numbers(width, first.dtype, first.device)
    rows = whole_numbers(height, first.dtype, first.device)
    in_first_row = torch.addcmul((first + ONE)[:, None], per_column[:, None], columns)
    below = per_row[:, None] * rows
    return (in_first_row[:, None, :] + below[:, :, None]).bitwise_right_shift_(FRACTION_BITS)


def _bilinear(images: Tensor, maps: Tensor, fill: Tensor) -> Tensor:
    """A mean of the four input pixels about the place of each output pixel's centre; outside, the fill colour."""
    import torch

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
    sampled = torch.nn.functional.grid_sample(images, grid, mode="bilinear", padding_mode="border", align_corners=False)
    inside = ((x >= 0) & (x < width) & (y >= 0) & (y < height)).to(images.dtype)[:, None]
    # The four weights may sum to a last bit more than 1.
    return sampled.clamp_(0, 1).mul_(inside).add_(fill[:, None, None] * (1 - inside))


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
