"""Operations that move pixels or cover them: shear, translate, rotate, Cutout.

Convention:
    images (B, C, H, W) float in [0, 1]; magnitude (B,) signed; fill (C,) is the colour of pixels that come from
    outside the image. Sampling is nearest neighbour, as PIL's default. 0 is the identity. Each function states
    which input pixel (x', y') an output pixel (x, y) shows, measured in pixels from the top left corner.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def shear_x(images: Tensor, magnitude: Tensor, fill: Tensor) -> Tensor:
    """x' = x + magnitude y. Ref: PIL.Image.transform(AFFINE, (1, m, 0, 0, 1, 0))."""
    return _warp(images, fill, xy=magnitude)


def shear_y(images: Tensor, magnitude: Tensor, fill: Tensor) -> Tensor:
    """y' = y + magnitude x. Ref: PIL.Image.transform(AFFINE, (1, 0, 0, m, 1, 0))."""
    return _warp(images, fill, yx=magnitude)


def translate_x(images: Tensor, magnitude: Tensor, fill: Tensor) -> Tensor:
    """x' = x + magnitude W. Ref: PIL.Image.transform(AFFINE, (1, 0, m W, 0, 1, 0))."""
    return _warp(images, fill, x0=magnitude * images.shape[3])


def translate_y(images: Tensor, magnitude: Tensor, fill: Tensor) -> Tensor:
    """y' = y + magnitude H. Ref: PIL.Image.transform(AFFINE, (1, 0, 0, 0, 1, m H))."""
    return _warp(images, fill, y0=magnitude * images.shape[2])


def rotate(images: Tensor, degrees: Tensor, fill: Tensor) -> Tensor:
    """Turn the image counter-clockwise about its centre. Ref: PIL.Image.rotate, without expanding."""
    height, width = images.shape[2:]
    angle = torch.deg2rad(degrees)
    cos, sin = torch.cos(angle), torch.sin(angle)
    return _warp(
        images,
        fill,
        xx=cos,
        xy=-sin,
        x0=(width - cos * width + sin * height) / 2,
        yx=sin,
        yy=cos,
        y0=(height - sin * width - cos * height) / 2,
    )


def cutout(images: Tensor, size: Tensor, fill: Tensor, position: Tensor) -> Tensor:
    """Cover a square with the fill colour.

    Convention: size (B,) is the side as a fraction of the image's shorter side, rounded to whole pixels; position
    (B, 2) in [0, 1) is the centre as fractions of width and height. The square is cut off at the borders, as
    in the Cutout paper (DeVries and Taylor 2017).
    """
    height, width = images.shape[2:]
    side = (size * min(height, width)).round()
    covered_x = _covered(width, position[:, 0], side, images)
    covered_y = _covered(height, position[:, 1], side, images)
    covered = covered_y[:, None, :, None] & covered_x[:, None, None, :]
    return torch.where(covered, fill[None, :, None, None], images)


def _covered(length: int, centre: Tensor, side: Tensor, images: Tensor) -> Tensor:
    """Which of `length` pixels a span of `side` pixels about the centre pixel covers; bool (B, length)."""
    first = (centre * length).floor() - (side / 2).floor()
    pixel = torch.arange(length, device=images.device)
    return (pixel >= first[:, None]) & (pixel < (first + side)[:, None])


def _warp(images: Tensor, fill: Tensor, **entries: Tensor) -> Tensor:
    """Sample at x' = xx x + xy y + x0, y' = yx x + yy y + y0 (pixels; absent entries are the identity's)."""
    height, width = images.shape[2:]
    zeros = images.new_zeros(len(images))
    ones = zeros + 1
    xx, xy, x0 = entries.get("xx", ones), entries.get("xy", zeros), entries.get("x0", zeros)
    yx, yy, y0 = entries.get("yx", zeros), entries.get("yy", ones), entries.get("y0", zeros)
    # affine_grid counts from -1 to 1 across the image: x = (u + 1) W / 2, y = (v + 1) H / 2.
    ratio = height / width
    rows = [
        torch.stack([xx, xy * ratio, xx + xy * ratio + 2 * x0 / width - 1], dim=1),
        torch.stack([yx / ratio, yy, yx / ratio + yy + 2 * y0 / height - 1], dim=1),
    ]
    matrix = torch.stack(rows, dim=1).to(images.dtype)
    grid = F.affine_grid(matrix, list(images.shape), align_corners=False)
    # A constant channel of ones tells which pixels come from inside.
    inside = images.new_ones(len(images), 1, height, width)
    sampled = F.grid_sample(torch.cat([images, inside], 1), grid, mode="nearest", align_corners=False)
    return torch.where(sampled[:, -1:] > 0.5, sampled[:, :-1], fill[None, :, None, None])
