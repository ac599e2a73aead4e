"""Operations that look every grey level up in a table: AutoContrast, Equalize, Invert, Solarize, Posterize.

Convention:
    images (B, C, H, W) float in [0, 1] are read on the 8-bit grid: level = round(255 x). The table has one row
    of 256 levels per image and channel, the result is level / 255. No gradient reaches the images. Inputs are
    never changed.
"""

import torch
from torch import Tensor

N_LEVELS = 256


def to_levels(images: Tensor) -> Tensor:
    """The nearest of the 256 grey levels, int64 in [0, 255], same shape."""
    return images.mul(255).round().clamp(0, 255).long()


def auto_contrast(images: Tensor) -> Tensor:
    """Stretch each channel so that its darkest level becomes 0 and its brightest 255.

    A channel with one level stays as it is. Ref: PIL.ImageOps.autocontrast, cutoff 0, which truncates to the
    level below; computed in float64 as there, so that the truncation falls on the same side.
    """
    levels = to_levels(images)
    lowest = levels.amin(dim=(2, 3)).double()[..., None]
    highest = levels.amax(dim=(2, 3)).double()[..., None]
    span = highest - lowest
    # A number divided by a tensor would be a product with its reciprocal, which rounds twice.
    scale = torch.full_like(span, 255.0) / span.clamp(min=1)
    every_level = _every_level(images)
    stretched = (every_level.double() * scale - lowest * scale).trunc().clamp(0, 255).long()
    return _look_up(images, levels, torch.where(span > 0, stretched, every_level))


def equalize(images: Tensor) -> Tensor:
    """Spread the levels of each channel so that their histogram becomes as flat as a table can make it.

    Ref: PIL.ImageOps.equalize, in whole numbers as there: step = (pixels - pixels at the brightest level) // 255,
    table[i] = (step // 2 + pixels darker than i) // step, and no change where step is 0.
    """
    levels = to_levels(images)
    batch, channels = levels.shape[:2]
    flat = levels.reshape(batch, channels, -1)
    counts = flat.new_zeros(batch, channels, N_LEVELS).scatter_add_(2, flat, torch.ones_like(flat))
    brightest = levels.amax(dim=(2, 3))[..., None]
    step = (flat.shape[2] - counts.gather(2, brightest)) // 255
    darker = counts.cumsum(2) - counts
    spread = ((step // 2 + darker) // step.clamp(min=1)).clamp(0, 255)
    return _look_up(images, levels, torch.where(step > 0, spread, _every_level(images)))


def invert(images: Tensor) -> Tensor:
    """255 minus the level. Ref: PIL.ImageOps.invert."""
    return (255 - to_levels(images)).to(images.dtype) / 255


def solarize(images: Tensor, threshold: Tensor) -> Tensor:
    """Invert every level at or above the threshold (grey levels, (B,)). Ref: PIL.ImageOps.solarize.

    Convention: 256 is the identity, 0 inverts the whole image.
    """
    levels = to_levels(images)
    kept = levels < threshold[:, None, None, None]
    return torch.where(kept, levels, 255 - levels).to(images.dtype) / 255


def posterize(images: Tensor, bits: Tensor) -> Tensor:
    """Keep the highest bits of every level. Ref: PIL.ImageOps.posterize.

    Convention: bits (B,) is rounded to a whole number and kept within [1, 8], because 0 bits is a black image;
    8 is the identity.
    """
    dropped = 8 - bits.round().clamp(1, 8).long()[:, None, None, None]
    return ((to_levels(images) >> dropped) << dropped).to(images.dtype) / 255


def _every_level(images: Tensor) -> Tensor:
    return torch.arange(N_LEVELS, device=images.device)


def _look_up(images: Tensor, levels: Tensor, table: Tensor) -> Tensor:
    """table[b, c, level] / 255 for each pixel; table (B, C, 256)."""
    return table.gather(2, levels.flatten(2)).reshape(levels.shape).to(images.dtype) / 255
