"""Operations that give every grey level a new one: AutoContrast, Equalize, Invert, Solarize, Posterize.

Convention:
    images (B, C, H, W) float in [0, 1] are read on the 8-bit grid: level = round(255 x). The result is a whole level
    divided by 255. No gradient reaches the images. Inputs are never changed.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hba.operations.operation import Kernel, Selection, Step
from hba.utils.devices import whole_numbers

if TYPE_CHECKING:
    from torch import Tensor


N_LEVELS = 256


class Levels(Kernel):
    """An operation that can be written as a table of new levels."""

    @abstractmethod
    def tables(self, levels: Tensor, *magnitude: Tensor) -> Tensor:
        """The new level of each level, (B, 1 or C, 256), from levels (B, C, H, W) and magnitudes (B,), if any."""

    @property
    def batch_group(self) -> Hashable:
        return Levels

    def on_batch(self, selections: Sequence[Selection[Levels]], images: Tensor, step: Step, fill: Tensor) -> Tensor:
        """One table per image and channel, and a single look-up."""
        levels = to_levels(images)
        tables = every_level(images)
        for selection in selections:
            magnitude = selection.operation.arguments(selection.magnitude, fill, step.position)
            tables = selection.kernel.tables(levels, *magnitude).where(selection.images[:, None, None], tables)
        return look_up(tables.expand(*images.shape[:2], N_LEVELS), levels)


@dataclass(frozen=True)
class Curve(Levels):
    """New levels by a formula: from levels of any shape (B, ...), which it may overwrite, and magnitudes (B,)."""

    formula: Callable[..., Tensor]

    def __call__(self, images: Tensor, *magnitude: Tensor) -> Tensor:
        return self.formula(to_levels(images), *magnitude).div_(255)

    def tables(self, levels: Tensor, *magnitude: Tensor) -> Tensor:
        """(B, 1, 256); what levels the images hold does not matter."""
        return self.formula(every_level(levels).repeat(len(levels), 1, 1), *magnitude)


@dataclass(frozen=True)
class Stretch(Levels):
    """New levels by what each channel holds: from levels (B, C, H, W) to the new level of each level (B, C, 256)."""

    stretch: Callable[[Tensor], Tensor]

    def __call__(self, images: Tensor) -> Tensor:
        levels = to_levels(images)
        return look_up(self.stretch(levels), levels)

    def tables(self, levels: Tensor, *magnitude: Tensor) -> Tensor:
        return self.stretch(levels)


def to_levels(images: Tensor) -> Tensor:
    """The nearest of the 256 grey levels: whole numbers in [0, 255], in the images' shape and type."""
    return images.mul(255).round_().clamp_(0, 255)


def every_level(like: Tensor) -> Tensor:
    """0, 1, ..., 255 as float64: the table that changes nothing."""
    import torch

    return whole_numbers(N_LEVELS, torch.float64, like.device)


def look_up(tables: Tensor, levels: Tensor) -> Tensor:
    """tables[b, c, level] / 255 for each pixel, in the type of the levels: tables (B, C, 256), levels (B, C, H, W)."""
    return tables.to(levels.dtype).div(255).gather(2, levels.flatten(2).long()).view(levels.shape)


def auto_contrast(levels: Tensor) -> Tensor:
    """Stretch each channel: its darkest level becomes 0, its brightest 255.

    A channel with one level stays as it is. Ref: PIL.ImageOps.autocontrast, cutoff 0, which truncates to the
    level below; computed in float64 as there, so the truncation falls on the same side.
    """
    lowest = levels.amin(dim=(2, 3)).double()[..., None]
    highest = levels.amax(dim=(2, 3)).double()[..., None]
    span = highest - lowest
    # A number divided by a tensor would be a product with its reciprocal, which rounds twice.
    scale = span.new_full(span.shape, 255.0) / span.clamp(min=1)
    level = every_level(levels)
    stretched = (level * scale - lowest * scale).trunc().clamp(0, 255)
    return stretched.where(span > 0, level)


def equalize(levels: Tensor) -> Tensor:
    """Spread the levels of each channel: their histogram becomes as flat as a table can make it.

    Ref: PIL.ImageOps.equalize, in whole numbers as there: step = (pixels - pixels at the brightest level) // 255,
    table[i] = (step // 2 + pixels darker than i) // step, and no change where step is 0.
    """
    flat = levels.flatten(2).long()
    counts = flat.new_zeros(*flat.shape[:2], N_LEVELS).scatter_add_(2, flat, flat.new_ones(1).expand_as(flat))
    brightest = flat.amax(dim=2, keepdim=True)
    # Whole numbers in float64: exact, and faster to divide than integers.
    step = ((flat.shape[2] - counts.gather(2, brightest)).double() / 255).floor_()
    darker = counts.cumsum(2).sub_(counts).double()
    spread = darker.add_((step / 2).floor_()).div_(step.clamp(min=1)).floor_().clamp_(0, 255)
    return spread.where(step > 0, every_level(levels))


def invert(levels: Tensor) -> Tensor:
    """255 minus the level. Ref: PIL.ImageOps.invert."""
    return levels.sub_(255).neg_()


def solarize(levels: Tensor, threshold: Tensor) -> Tensor:
    """Invert every level at or above the threshold (B,). Ref: PIL.ImageOps.solarize.

    Convention: 256 is the identity, 0 inverts the whole image.
    """
    # 1 from the threshold on, 0 below: levels are whole numbers. Faster than a comparison.
    inverted = (levels - _per_image(threshold.ceil(), levels)).add_(1).clamp_(0, 1)
    return levels.sub_(inverted, alpha=255).abs_()


def posterize(levels: Tensor, bits: Tensor) -> Tensor:
    """Keep the highest bits of every level. Ref: PIL.ImageOps.posterize.

    Convention: bits (B,) is rounded to a whole number and kept within [1, 8], because 0 bits is a black image;
    8 is the identity.
    """
    step = (8 - bits.round().clamp(1, 8)).exp2()
    return levels.mul_(_per_image(1 / step, levels)).floor_().mul_(_per_image(step, levels))


def _per_image(magnitude: Tensor, levels: Tensor) -> Tensor:
    """Magnitudes (B,) in the shape (B, 1, ...) that meets the levels'."""
    return magnitude.to(levels.dtype).view(-1, *[1] * (levels.ndim - 1))
