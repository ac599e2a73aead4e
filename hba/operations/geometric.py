"""Operations that move or cover pixels: shears, shifts, turns, zooms, flips, crops,
Cutout (DeVries and Taylor 2017).

Convention:
    images (B, C, H, W) float in [0, 1]; magnitude (B,) of each image; fill (C,) is the
    colour of pixels from outside the image. An affine map has six coefficients in PIL's
    order, in pixels from the top left corner: the output pixel (x, y) shows the input
    at x' = a x + b y + c, y' = d x + e y + f. Functions of operations that move pixels
    take magnitudes (...) float64, height and width, and, if n_uniforms > 0, random
    numbers (..., n_uniforms). They return the coefficients {name: (...)} that may
    differ from the identity.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from hba.utils.tensors import device_constant, whole_numbers

if TYPE_CHECKING:
    import torch
    from torch import Tensor

# Exported files contain the rest of this module.


FRACTION_BITS = 16
ONE = 1 << FRACTION_BITS
"""One pixel in the fixed point of PIL's maps."""
LARGE_SIDE_PIXELS = 1 << 14


class Maps(NamedTuple):
    """Affine maps of N images: coefficients a to f (N, 6), exact as float64, and
    fixed_point as int64 in 2^-16 pixels.

    In fixed_point, the offsets c and f are for the centre of the first pixel.
    """

    exact: Tensor
    fixed_point: Tensor

    @staticmethod
    def of(coefficients: Mapping[str, Tensor]) -> "Maps":  # noqa: UP037
        """Make maps from coefficients by name, of any shape (...)."""
        import torch

        exact = torch.stack([coefficients[name] for name in "abcdef"], dim=-1)
        rows = exact.unflatten(-1, (2, 3))
        turned = rows[..., :2]
        half = rows[..., :2] / 2
        first = rows[..., 2:] + half[..., :1] + half[..., 1:]
        # PIL shifts an image by whole pixels if the map is only a shift, before it cuts
        # the fraction to 16 bits.
        is_shift = (
            (turned == identity_map(exact.device).view(2, 3)[:, :2])
            .flatten(-2)
            .all(dim=-1)[..., None, None]
        )
        first = torch.where(is_shift, first.floor(), first)
        return Maps(
            exact,
            torch.cat([turned, first], dim=-1)
            .flatten(-2)
            .mul_(ONE)
            .add_(0.5)
            .floor_()
            .long(),
        )


@device_constant
def identity_map(device: torch.device) -> Tensor:
    """The coefficients of the map that changes nothing, (6,)."""
    import torch

    return torch.tensor((1, 0, 0, 0, 1, 0), dtype=torch.float64, device=device)


def affine_maps(
    operation: Any, magnitude: Tensor, position: Tensor, height: int, width: int
) -> Maps:
    """The maps of an operation that moves pixels, for magnitudes (N,) and
    positions (N, n_uniforms).
    """
    magnitude = magnitude.double()
    coefficients = coefficients_of(operation, magnitude, position, height, width)
    return Maps.of({**identity_coefficients(magnitude), **coefficients})


def identity_coefficients(like: Tensor) -> dict[str, Tensor]:
    """Coefficients of the identity map, for each of (...). Must not be changed in
    place.
    """
    return {
        name: coefficient.expand_as(like)
        for name, coefficient in zip("abcdef", identity_map(like.device), strict=True)
    }


def coefficients_of(
    operation: Any, magnitude: Tensor, position: Tensor, height: int, width: int
) -> Mapping[str, Tensor]:
    """Call the function of an Operation that moves pixels, with magnitudes (...) as
    float64.
    """
    further = (
        (position[..., : operation.n_uniforms].double(),)
        if operation.n_uniforms
        else ()
    )
    return operation.function(magnitude, height, width, *further)


def shear_x(factor: Tensor, height: int, width: int) -> Mapping[str, Tensor]:
    """x' = x + factor y. Ref: PIL.Image.transform(AFFINE, (1, factor, 0, 0, 1, 0))."""
    return {"b": factor}


def shear_y(factor: Tensor, height: int, width: int) -> Mapping[str, Tensor]:
    """y' = y + factor x. Ref: PIL.Image.transform(AFFINE, (1, 0, 0, factor, 1, 0))."""
    return {"d": factor}


def translate_x(fraction: Tensor, height: int, width: int) -> Mapping[str, Tensor]:
    """x' = x + fraction W. Ref: PIL.Image.transform(AFFINE, (1, 0, fraction W, 0, 1,
    0)).
    """
    return {"c": fraction * width}


def translate_y(fraction: Tensor, height: int, width: int) -> Mapping[str, Tensor]:
    """y' = y + fraction H. Ref: PIL.Image.transform(AFFINE, (1, 0, 0, 0, 1, fraction
    H)).
    """
    return {"f": fraction * height}


def rotate(degrees: Tensor, height: int, width: int) -> Mapping[str, Tensor]:
    """Turn counter-clockwise about the image's centre. Ref: PIL.Image.rotate, without
    expanding.
    """
    angle = degrees.deg2rad()
    return turn(angle.cos(), angle.sin(), height, width)


def turn(cos: Tensor, sin: Tensor, height: int, width: int) -> Mapping[str, Tensor]:
    """Turn about the centre by the angle with this cosine and sine."""
    x = width / 2
    y = height / 2
    return {
        "a": cos,
        "b": -sin,
        "c": x - cos * x + sin * y,
        "d": sin,
        "e": cos,
        "f": y - sin * x - cos * y,
    }


def horizontal_flip(magnitude: Tensor, height: int, width: int) -> Mapping[str, Tensor]:
    """Left becomes right. Ref: PIL.Image.transpose(FLIP_LEFT_RIGHT)."""
    return {"a": 0 * magnitude - 1, "c": 0 * magnitude + width}


def vertical_flip(magnitude: Tensor, height: int, width: int) -> Mapping[str, Tensor]:
    """Top becomes bottom. Ref: PIL.Image.transpose(FLIP_TOP_BOTTOM)."""
    return {"e": 0 * magnitude - 1, "f": 0 * magnitude + height}


def quarter_turn(
    magnitude: Tensor, height: int, width: int, uniforms: Tensor
) -> Mapping[str, Tensor]:
    """Turn counter-clockwise by 90, 180 or 270 degrees, equally likely; uniforms (...,
    1).

    Ref: PIL.Image.transpose(ROTATE_90). After 90 or 270 degrees, an image that is not
    square is stretched to its size.
    """
    quarters = 1 + (3 * uniforms[..., 0]).floor()
    cos = (quarters - 1) * (quarters - 3)
    sin = 2 - quarters
    across = width / 2
    down = height / 2
    c = across * (1 - cos + sin)
    f = down * (1 - sin - cos)
    return {
        "a": cos,
        "b": -sin * (width / height),
        "c": c,
        "d": sin * (height / width),
        "e": cos,
        "f": f,
    }


def shear(degrees: Tensor, height: int, width: int) -> Mapping[str, Tensor]:
    """Shear along x about the centre. Ref: torchvision's RandomAffine(shear)."""
    tan = degrees.deg2rad().tan()
    return {"b": tan, "c": -tan * (height / 2)}


def zoom(factor: Tensor, height: int, width: int) -> Mapping[str, Tensor]:
    """Enlarge about the centre. Ref: torchvision's RandomAffine(scale)."""
    share = 1 / factor
    return {
        "a": share,
        "c": (1 - share) * (width / 2),
        "e": share,
        "f": (1 - share) * (height / 2),
    }


CROP_RATIO = 4 / 3
"""Largest ratio of a crop's width to its height, relative to the image; the smallest is
3 / 4.
"""


def resized_crop(
    area: Tensor, height: int, width: int, uniforms: Tensor
) -> Mapping[str, Tensor]:
    """Crop a share of the image's area and resize it to the full size; uniforms (...,
    3): ratio, place.

    The logarithm of the ratio of the sides relative to the image is from U(-log 4/3,
    log 4/3), or from a smaller interval if the crop would leave the image. Ref:
    torchvision's RandomResizedCrop, which then draws another area and ratio, and crops
    whole pixels; PIL.Image.transform(EXTENT).
    """
    ratio = area.reciprocal().clamp(max=CROP_RATIO) ** (2 * uniforms[..., 0] - 1)
    across = (area * ratio).sqrt()
    down = (area / ratio).sqrt()
    left = uniforms[..., 1] * (1 - across) * width
    top = uniforms[..., 2] * (1 - down) * height
    return {"a": across, "c": left, "e": down, "f": top}


def padded_crop(
    fraction: Tensor, height: int, width: int, uniforms: Tensor
) -> Mapping[str, Tensor]:
    """Shift by at most `fraction` of width and height, by whole pixels, all equally
    likely; uniforms (..., 2).

    Ref: torchvision's RandomCrop with a padding of round(fraction W), round(fraction H)
    pixels.
    """
    across = (fraction * width).round()
    down = (fraction * height).round()
    places = uniforms[..., 0] * (2 * across + 1), uniforms[..., 1] * (2 * down + 1)
    return {"c": places[0].floor() - across, "f": places[1].floor() - down}


def warp(images: Tensor, maps: Maps, fill: Tensor, interpolation: str | None) -> Tensor:
    """Apply its map to each of B images. Ref: PIL.Image.transform(AFFINE), nearest or
    bilinear.
    """
    if interpolation == "bilinear":
        return _bilinear(images, maps.exact, fill)
    return _nearest(images, maps.fixed_point, fill)


def matrices(maps: Maps, interpolation: str) -> Tensor:
    """Matrices (N, 3, 3), float64, that lead from places in results to places in
    images, in pixels from the top left corner.
    """
    import torch

    a, b, c, d, e, f = maps.exact.unbind(1)
    if interpolation == "nearest":
        # PIL shifts an image by whole pixels if the map is only a shift.
        is_shift = (a == 1) & (b == 0) & (d == 0) & (e == 1)
        c = torch.where(is_shift, (c + 0.5).floor(), c)
        f = torch.where(is_shift, (f + 0.5).floor(), f)
    zero = torch.zeros_like(a)
    rows = torch.stack([a, b, c, d, e, f, zero, zero, zero + 1], dim=1)
    return rows.view(-1, 3, 3)


def check_mask_fill(mask_fill: float, dtype: torch.dtype) -> None:
    """Raise ValueError if masks of this dtype cannot hold the value."""
    import torch

    if dtype == torch.bool:
        fits = mask_fill in (0, 1)
    elif dtype.is_floating_point:
        limits = torch.finfo(dtype)
        fits = limits.min <= mask_fill <= limits.max
    else:
        whole = torch.iinfo(dtype)
        fits = whole.min <= mask_fill <= whole.max and mask_fill == int(mask_fill)
    if not fits:
        name = str(dtype).removeprefix("torch.")
        raise ValueError(
            f"mask_fill must be a value of the masks' dtype, {name}, got {mask_fill}"
        )


def _nearest(images: Tensor, maps: Tensor, fill: Tensor) -> Tensor:
    """Use the input pixel that contains the centre of each output pixel.

    In whole numbers with 16 bits of fraction, as in PIL, so that ties fall on the same
    side.
    """
    import torch

    batch, channels, height, width = images.shape
    framed = fill.to(images.dtype)[:, None, None].repeat(
        batch, 1, height + 2, width + 2
    )
    framed[:, :, 1:-1, 1:-1] = images
    # int32 is faster, and large enough for images of usual size.
    whole = torch.int32 if max(height, width) < LARGE_SIDE_PIXELS else torch.int64
    x, y = _sources(maps.to(whole).view(-1, 2, 3), height, width).unbind(1)
    pixel = (
        x.clamp_(0, width + 1)
        .add_(y.clamp_(0, height + 1), alpha=width + 2)
        .flatten(1)
        .long()
    )
    shown = framed.flatten(2).gather(
        2, pixel[:, None].expand(batch, channels, height * width)
    )
    return shown.view(images.shape)


def _sources(maps: Tensor, height: int, width: int) -> Tensor:
    """Column and row of the input for each output pixel, (B, 2, H, W). The frame of 1
    pixel is 0, the image begins at
    1. maps (B, 2, 3): whole numbers, for columns and rows, by column, by row, and of
       the first pixel.
    """
    import torch

    per_column, per_row, first = maps.split(1, dim=2)
    columns = whole_numbers(width, maps.dtype, maps.device)
    rows = whole_numbers(height, maps.dtype, maps.device)
    in_first_row = torch.addcmul(first + ONE, per_column, columns)
    below = per_row * rows
    return (in_first_row[:, :, None] + below[..., None]).bitwise_right_shift_(
        FRACTION_BITS
    )


def _bilinear(images: Tensor, maps: Tensor, fill: Tensor) -> Tensor:
    """Interpolate between the four input pixels around the source of each output pixel;
    outside, the fill colour.
    """
    import torch

    if images.dtype in (torch.float16, torch.bfloat16):
        return _bilinear(images.float(), maps, fill.float()).to(images.dtype)
    height, width = images.shape[2:]
    per_column, per_row, first = maps.view(-1, 2, 3).split(1, dim=2)
    columns, rows = (
        whole_numbers(side, maps.dtype, maps.device) + 0.5 for side in (width, height)
    )
    # x and y of each source, (B, 2, H, W).
    places = (per_column * columns + first)[:, :, None] + (per_row * rows)[..., None]
    sides = image_sides(height, width, maps.device)
    grid = (2 * places / sides - 1).to(images.dtype).permute(0, 2, 3, 1)
    sampled = torch.nn.functional.grid_sample(
        images, grid, mode="bilinear", padding_mode="border", align_corners=False
    )
    inside = (
        ((places >= 0) & (places < sides)).all(dim=1, keepdim=True).to(images.dtype)
    )
    # Because of rounding, the four weights may sum to slightly more than 1.
    return sampled.clamp_(0, 1).mul_(inside).add_(fill[:, None, None] * (1 - inside))


@device_constant
def image_sides(height: int, width: int, device: torch.device) -> Tensor:
    """Width and height, float64 (2, 1, 1)."""
    import torch

    return torch.tensor([[[width]], [[height]]], dtype=torch.float64, device=device)


def cutout(images: Tensor, size: Tensor, fill: Tensor, position: Tensor) -> Tensor:
    """Cover a square with the fill colour. Ref: PIL.ImageDraw.rectangle, filled.

    Convention:
        images (B, C, H, W) float in [0, 1]; size (B,) is the side as a fraction of the
            image's shorter side, rounded
        to whole pixels, 0 is the identity; fill (C,); position (B, 2) in [0, 1) is the
            centre as fractions of width
        and height. The square covers side x side pixels, fewer at a border.
    """
    import torch

    height, width = images.shape[2:]
    # In float64, as in plain Python, so that halves are rounded to the same side.
    side = (size.double() * min(height, width)).round()[:, None]
    centre = (
        position.double() * image_sides(height, width, images.device).flatten()
    ).floor()
    # How far each column and row is behind the first one that is covered.
    x, y = (centre - (side / 2).floor())[..., None].unbind(1)
    across = whole_numbers(width, x.dtype, x.device) - x
    down = whole_numbers(height, y.dtype, y.device) - y
    columns = (across >= 0) & (across < side)
    rows = (down >= 0) & (down < side)
    square = rows[:, None, :, None] & columns[:, None, None, :]
    return torch.where(square, fill.to(images.dtype)[:, None, None], images)
