"""Operations that move pixels: shear, translate, rotate.

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

from hba.operations.operation import Kernel, Operation, Selection, Step

if TYPE_CHECKING:
    from torch import Tensor

    Coefficients = Callable[[Tensor, int, int], Mapping[str, Tensor]]


@dataclass(frozen=True)
class Warp(Kernel):
    """A geometric operation: from magnitudes (N,) float64, height and width to its coefficients {name: (N,)}.

    It need not name those that are the identity's. A step holds the maps of all images, so one resampling does for
    all operations of an interpolation.
    """

    coefficients: Coefficients
    interpolation: str = "nearest"

    def __call__(self, images: Tensor, magnitude: Tensor, fill: Tensor) -> Tensor:
        from hba.operations.resample import warp

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
        from hba.operations.resample import warp

        return warp(images, step.maps, fill, self.interpolation)

    def on_batch(self, selections: Sequence[Selection[Warp]], images: Tensor, step: Step, fill: Tensor) -> Tensor:
        from hba.operations.resample import warp

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
