"""Operations on colours: some map every grey level to a new one, others blend the image
with another version of it.

Convention:
    images (B, C, H, W) float in [0, 1]; inputs are never changed.
    AutoContrast, Equalize, Invert, Solarize, Posterize round images to 8-bit levels:
        level = round(255 x). The result
    is a whole level divided by 255, and no gradient reaches the images. A curve takes
        levels of any shape (B, ...),
    which it may overwrite, and magnitudes (B,), and returns new levels. A stretch takes
        levels (B, C, H, W), and
    returns a table of new levels, (B, C, 256).
    Brightness, Color, Contrast, Sharpness blend an image with a poorer version of it.
        Their functions return that
    version in a shape that broadcasts to the images; C is 1 or 3 for Color and
        Contrast. The factor (B,) is as in
    PIL.ImageEnhance: 1 is the identity, 0 the poorer version, and above 1 extrapolates.
        Results are clamped to
    [0, 1] and not rounded to 8 bits. Rounded, they are within one grey level of PIL's.
        Unrounded, Color may differ by
    up to 1.5, because PIL rounds the luma.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from hba.utils.tensors import whole_numbers

if TYPE_CHECKING:
    from torch import Tensor

# Exported files contain the rest of this module.

N_LEVELS = 256
LUMA_WEIGHTS = (0.299, 0.587, 0.114)
"""Weights of R, G and B, as in PIL's mode L."""


def to_levels(images: Tensor) -> Tensor:
    """Round images to the nearest of 256 grey levels: whole numbers in [0, 255], of the
    same shape and type.
    """
    return images.mul(255).round_().clamp_(0, 255)


def every_level(like: Tensor) -> Tensor:
    """0, 1, ..., 255 as float64: the table that changes no level."""
    import torch

    return whole_numbers(N_LEVELS, torch.float64, like.device)


def look_up(tables: Tensor, levels: Tensor) -> Tensor:
    """tables[b, c, level] / 255 of each pixel, in the type of the levels. tables: (B,
    C, 256). levels: (B, C, H, W).
    """
    return (
        tables.to(levels.dtype)
        .div(255)
        .gather(2, levels.flatten(2).long())
        .view(levels.shape)
    )


def curve(formula: Callable[..., Tensor], images: Tensor, *magnitude: Tensor) -> Tensor:
    """Change the grey levels of images by a formula."""
    return formula(to_levels(images), *magnitude).div_(255)


def stretch(tables: Callable[[Tensor], Tensor], images: Tensor) -> Tensor:
    """Change the grey levels of images by a table that depends on each channel."""
    levels = to_levels(images)
    return look_up(tables(levels), levels)


def enhance(
    poorer: Callable[[Tensor], Tensor], images: Tensor, factor: Tensor
) -> Tensor:
    """Blend images with a poorer version of them."""
    return blend(poorer(images), images, factor)


KERNELS: Mapping[str, Callable[..., Tensor]] = {
    "curve": curve,
    "stretch": stretch,
    "blend": enhance,
}
"""How to apply functions of these kernels to images."""


def auto_contrast(levels: Tensor) -> Tensor:
    """Stretch each channel: its darkest level becomes 0, its brightest 255.

    A channel with one level does not change. Ref: PIL.ImageOps.autocontrast, cutoff 0,
    which truncates to the level below; float64 as in PIL, so that both truncate to the
    same level.
    """
    import torch

    lowest, highest = (
        end(levels, dim=(2, 3)).double()[..., None] for end in (torch.amin, torch.amax)
    )
    span = highest - lowest
    level = every_level(levels)
    # A number divided by a tensor would be multiplied by its reciprocal, which rounds
    # twice.
    scale = level[-1:] / span.clamp(min=1)
    stretched = (level * scale - lowest * scale).trunc_()
    # Levels that the image lacks may go anywhere.
    return stretched.where(span > 0, level)


def equalize(levels: Tensor) -> Tensor:
    """Spread the levels of each channel: their histogram becomes as flat as a table can
    make it.

    Ref: PIL.ImageOps.equalize, in whole numbers like PIL: step = (pixels - pixels at
    the brightest level) // 255, table[i] = (step // 2 + pixels darker than i) // step,
    and no change if step is 0.
    """
    flat = levels.flatten(2).long()
    level = every_level(levels)
    one = whole_numbers(2, flat.dtype, flat.device)[1:]
    counts = flat.new_zeros(*flat.shape[:2], N_LEVELS).scatter_add_(
        2, flat, one.expand(flat.shape)
    )
    # Whole numbers in float64: exact, and faster to divide than integers.
    step = (
        (flat.shape[2] - counts.gather(2, flat.amax(dim=2, keepdim=True)))
        .double()
        .div_(255, rounding_mode="floor")
    )
    darker = (
        counts.cumsum(2).sub_(counts).double().add_(step.div(2, rounding_mode="floor"))
    )
    spread = darker.div_(step.clamp(min=1)).floor_().clamp_(max=255)
    return spread.where(step > 0, level)


def invert(levels: Tensor) -> Tensor:
    """255 minus the level. Ref: PIL.ImageOps.invert."""
    return levels.sub_(255).neg_()


def solarize(levels: Tensor, threshold: Tensor) -> Tensor:
    """Invert every level at or above the threshold (B,). Ref: PIL.ImageOps.solarize.

    Convention: 256 is the identity, 0 inverts the whole image.
    """
    # 1 at and above the threshold, 0 below, because levels are whole numbers. Faster
    # than a comparison.
    inverted = (levels - _per_image(threshold.ceil(), levels)).add_(1).clamp_(0, 1)
    return levels.sub_(inverted, alpha=255).abs_()


def posterize(levels: Tensor, bits: Tensor) -> Tensor:
    """Keep the highest bits of every level. Ref: PIL.ImageOps.posterize.

    Convention: bits (B,) is rounded and clamped to [1, 8], because 0 bits give a black
    image; 8 is the identity.
    """
    step = (8 - bits.round().clamp(1, 8)).exp2()
    return (
        levels.mul_(_per_image(1 / step, levels))
        .floor_()
        .mul_(_per_image(step, levels))
    )


def _per_image(magnitude: Tensor, levels: Tensor) -> Tensor:
    """Magnitudes (B,) in the shape (B, 1, ...), which broadcasts to the levels."""
    return magnitude.to(levels.dtype).view(-1, *[1] * (levels.ndim - 1))


def blend(poorer: Tensor, images: Tensor, factor: Tensor) -> Tensor:
    """factor images + (1 - factor) poorer, clamped to [0, 1]. Ref: PIL.Image.blend."""
    factor = factor.to(images.dtype)[:, None, None, None]
    return images.mul(factor).add_(poorer * (1 - factor)).clamp_(0, 1)


def black(images: Tensor) -> Tensor:
    """The poorer version for Brightness. Ref: PIL.ImageEnhance.Brightness."""
    return whole_numbers(1, images.dtype, images.device)


def gray(images: Tensor) -> Tensor:
    """The poorer version for Color: the luma as in PIL's mode L, but not rounded. Ref:
    PIL.ImageEnhance.Color.
    """
    return images if images.shape[1] == 1 else luma(images)


def luma(images: Tensor) -> Tensor:
    """The grey (B, 1, H, W) of RGB images (B, 3, H, W), by LUMA_WEIGHTS.

    Products and sums run one after the other, so the last bit is the same on every
    machine, and in hba/packed.
    """
    weighted = [
        weight * images[:, channel : channel + 1]
        for channel, weight in enumerate(LUMA_WEIGHTS)
    ]
    return weighted[0].add_(weighted[1]).add_(weighted[2])


def mean_gray(images: Tensor) -> Tensor:
    """The poorer version for Contrast: the mean grey level, rounded to 8 bits. Ref:
    PIL.ImageEnhance.Contrast.
    """
    import torch

    levels = images.float().mul(255).round_()
    if images.shape[1] == 3:
        # PIL's luma, exact in float32 in any order. For an image of one colour, its
        # rounding decides the result.
        red, green, blue = (levels[:, channel : channel + 1] for channel in range(3))
        shares = 19595 / 65536, 38470 / 65536, 7471 / 65536
        levels = (
            (red * shares[0])
            .add_(green, alpha=shares[1])
            .add_(blue, alpha=shares[2])
            .add_(0.5)
            .floor_()
        )
    # float32 cannot hold the exact sum over a large image.
    mean_level = (
        levels.mean(dim=(1, 2, 3), keepdim=True, dtype=torch.float64).add_(0.5).floor_()
    )
    return mean_level.div_(255).to(images.dtype)


def smooth(images: Tensor) -> Tensor:
    """The poorer version for Sharpness: a mean with weights ((1, 1, 1), (1, 5, 1), (1,
    1, 1)) / 13.

    The outermost pixels do not change. Ref: PIL.ImageEnhance.Sharpness,
    PIL.ImageFilter.SMOOTH.
    """
    result = images.clone()
    if min(images.shape[-2:]) < 3:
        return result
    rows = images[:, :, :-2] + images[:, :, 1:-1] + images[:, :, 2:]
    total = rows[..., :-2] + rows[..., 1:-1] + rows[..., 2:]
    total.add_(images[:, :, 1:-1, 1:-1], alpha=4)
    result[:, :, 1:-1, 1:-1] = total.mul_(255 / 13).round_().div_(255)
    return result
