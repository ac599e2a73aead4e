"""Random affine maps: rotation, shear, translation and scale at once, with strengths of its own for each image."""

from collections.abc import Mapping

import torch
from torch import Tensor

from hba.operations.resample import Maps, warp
from hba.regularization.draws import uniform


def affine(
    images: Tensor,
    generator: torch.Generator | None,
    *,
    degrees: Tensor,
    shear: Tensor,
    translate: Tensor,
    scale: Tensor,
    fill: Tensor,
) -> Tensor:
    """Images (B, C, H, W) in [0, 1], each through one random affine map, a new tensor of the same shape.

    Strengths (B,), at least 0, are largest changes. degrees: the angle is from U(-degrees, degrees). shear, in degrees
    below 90: the angle of a shear along x, alike. translate: shares of width and height, alike and independently, then
    rounded to whole pixels. scale, below 1: the factor is from U(1 - scale, 1 + scale). fill (C,): the colour of what
    comes from outside. The image is resampled once, by the nearest pixel. Strengths of 0 leave it as it is. generator:
    on the device of the images; None is torch's default. Ref: torchvision's RandomAffine; Delta-STN (Bae and Grosse
    2020).
    """
    height, width = images.shape[2:]
    # Maps are in float64, as PIL has them.
    degrees, shear, translate, scale = (one.detach().double() for one in (degrees, shear, translate, scale))
    angle = uniform(-degrees, degrees, generator)
    shear_angle = uniform(-shear, shear, generator)
    x = uniform(-translate * width, translate * width, generator).round()
    y = uniform(-translate * height, translate * height, generator).round()
    factor = uniform(1 - scale, 1 + scale, generator)
    maps = Maps.of(affine_coefficients(angle, shear_angle, x, y, factor, height, width))
    return warp(images, maps, fill, "nearest")


def affine_coefficients(
    angle: Tensor, shear: Tensor, x: Tensor, y: Tensor, factor: Tensor, height: int, width: int
) -> Mapping[str, Tensor]:
    """Coefficients (B,) of the map from the output to the input, as in `hba.operations.geometric`.

    The image is enlarged by `factor`, sheared along x by `shear` degrees and turned clockwise by `angle` degrees, about
    its centre, then moved by x and y pixels; all (B,) float64. Ref: torchvision.transforms.functional.affine.
    """
    cos, sin, tan = angle.deg2rad().cos(), angle.deg2rad().sin(), shear.deg2rad().tan()
    # The inverse of rotation * shear * scale.
    a, b = (cos - sin * tan) / factor, (sin + cos * tan) / factor
    d, e = -sin / factor, cos / factor
    centre_x, centre_y = width / 2, height / 2
    c = centre_x - a * (centre_x + x) - b * (centre_y + y)
    f = centre_y - d * (centre_x + x) - e * (centre_y + y)
    return {"a": a, "b": b, "c": c, "d": d, "e": e, "f": f}
