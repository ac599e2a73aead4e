"""Operations that blend an image with a poorer version of itself: Brightness, Color, Contrast, Sharpness.

Convention:
    images (B, C, H, W) float in [0, 1], C 1 or 3 for Color and Contrast; factor (B,) as in PIL.ImageEnhance: 1 is
    the identity, 0 the poorer version, above 1 goes beyond the image. Results are clamped to [0, 1] and not rounded to
    8 bits. Rounded, they are within one grey level of PIL's. Unrounded, Color may differ by up to 1.5, because PIL
    rounds the luma.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hba.operations.operation import Kernel, Selection, Step

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Blend(Kernel):
    """An enhancer: from images to their poorer version, of a shape that broadcasts to the images'."""

    poorer: Callable[[Tensor], Tensor]

    def __call__(self, images: Tensor, factor: Tensor) -> Tensor:
        return blend(self.poorer(images), images, factor)

    @property
    def batch_group(self) -> Hashable:
        return Blend

    def on_batch(self, selections: Sequence[Selection[Blend]], images: Tensor, step: Step, fill: Tensor) -> Tensor:
        """One poorer version and one factor per image, and a single blend."""
        poorer, factor = images, images.new_ones(len(images))
        for selection in selections:
            poorer = selection.kernel.poorer(images).where(selection.images[:, None, None, None], poorer)
            factor = selection.magnitude.where(selection.images, factor)
        return blend(poorer, images, factor)


def blend(poorer: Tensor, images: Tensor, factor: Tensor) -> Tensor:
    """factor images + (1 - factor) poorer, within [0, 1]. Ref: PIL.Image.blend."""
    factor = factor.to(images.dtype)[:, None, None, None]
    return images.mul(factor).add_(poorer * (1 - factor)).clamp_(0, 1)


def black(images: Tensor) -> Tensor:
    """The poorer version for Brightness. Ref: PIL.ImageEnhance.Brightness."""
    return images.new_zeros(())


def gray(images: Tensor) -> Tensor:
    """The poorer version for Color: the luma, as PIL's mode L, but not rounded. Ref: PIL.ImageEnhance.Color."""
    from hba.operations.images import luma

    return images if images.shape[1] == 1 else luma(images)


def mean_gray(images: Tensor) -> Tensor:
    """The poorer version for Contrast: the mean grey level, rounded to 8 bits. Ref: PIL.ImageEnhance.Contrast."""
    import torch

    levels = images.float().mul(255).round_()
    if images.shape[1] == 3:
        # PIL's luma in whole numbers, exact in float32: for an image of one colour, all depends on its rounding.
        red, green, blue = (levels[:, channel : channel + 1] for channel in range(3))
        levels = (red * 19595).add_(green, alpha=38470).add_(blue, alpha=7471).add_(1 << 15).div_(1 << 16).floor_()
    # The sum of a large image is more than float32 counts.
    mean_level = levels.mean(dim=(1, 2, 3), keepdim=True, dtype=torch.float64).add_(0.5).floor_()
    return mean_level.div_(255).to(images.dtype)


def smooth(images: Tensor) -> Tensor:
    """The poorer version for Sharpness: a mean with weights ((1, 1, 1), (1, 5, 1), (1, 1, 1)) / 13.

    The outermost pixels stay. Ref: PIL.ImageEnhance.Sharpness, PIL.ImageFilter.SMOOTH.
    """
    result = images.clone()
    if min(images.shape[-2:]) < 3:
        return result
    rows = images[:, :, :-2] + images[:, :, 1:-1] + images[:, :, 2:]
    total = rows[..., :-2] + rows[..., 1:-1] + rows[..., 2:]
    total.add_(images[:, :, 1:-1, 1:-1], alpha=4)
    result[:, :, 1:-1, 1:-1] = total.mul_(255 / 13).round_().div_(255)
    return result
