"""Regularizers of images: affine maps, Cutout, colour jitter, dropout and noise of the input.

Each image of a batch has its own strengths (B,); strengths of 0 leave it as it is. Each function returns a new tensor.
The generator is on the device of the images; None is torch's default one.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from hba.distributed.collectives import draw_then_shard
from hba.operations.geometric import Maps, covered, warp
from hba.operations.photometric import shifted_hue
from hba.preprocessing import jittered, order_of_jitters, uniform_draws
from hba.utils.devices import whole_numbers


def uniform(low: Tensor, high: Tensor, generator: torch.Generator | None) -> Tensor:
    """Draws from U(low, high), (B, ...) and on the device as the bounds; the bound where both are equal."""
    drawn = draw_then_shard(
        len(low), lambda n: torch.rand(n, *low.shape[1:], generator=generator, dtype=low.dtype, device=low.device)
    )
    return drawn * (high - low) + low


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
    """Apply one random affine map to each image (B, C, H, W) in [0, 1].

    Strengths, at least 0, are largest changes. degrees: the angle is from U(-degrees, degrees). shear, in degrees below
    90: the angle of a shear along x, from U(-shear, shear). translate: shares of width and height, each from
    U(-translate, translate) and rounded to whole pixels. scale, below 1: the factor is from U(1 - scale, 1 + scale).
    fill (C,): colour of uncovered pixels. The image is resampled once, by the nearest pixel. Ref: torchvision's
    RandomAffine; Delta-STN (Bae and Grosse 2020).
    """
    height, width = images.shape[2:]
    # Maps are in float64, as PIL has them.
    degrees, shear, translate, scale = (one.detach().double() for one in (degrees, shear, translate, scale))
    angle, shear_angle = (uniform(-largest, largest, generator) for largest in (degrees, shear))
    x, y = (uniform(-translate * side, translate * side, generator).round() for side in (width, height))
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
    from_x, from_y = width / 2 + x, height / 2 + y
    c, f = width / 2 - a * from_x - b * from_y, height / 2 - d * from_x - e * from_y
    return {"a": a, "b": b, "c": c, "d": d, "e": e, "f": f}


def cutout(
    images: Tensor, generator: torch.Generator | None, *, length: Tensor, holes: Tensor, most_holes: int
) -> Tensor:
    """Set squares of standardized images (B, C, H, W) to 0, the mean colour.

    length: side of the squares in pixels, holes: their number, at most `most_holes`; both at least 0, and rounded to
    the nearest whole number, halves to the even one. Centres are uniform over the pixels, so squares may overlap and
    are cut off at the border. Ref: DeVries and Taylor 2017; STN (MacKay et al. 2019), Appendix E.
    """
    centres = uniform_draws(len(images), (most_holes, 2), generator, images.device)
    return with_holes(images, centres, length.detach().round(), holes.detach().round())


def with_holes(images: Tensor, centres: Tensor, length: Tensor, holes: Tensor) -> Tensor:
    """Set the first `holes` (B,) of the squares around `centres` (B, K, 2) to 0.

    length (B,): whole pixels. centres: in [0, 1), as fractions of width and height.
    """
    batch, most_holes, _ = centres.shape
    counted = whole_numbers(most_holes, holes.dtype, holes.device) < holes[:, None]
    # A hole that does not count has no side.
    side = (length[:, None] * counted).double()
    x, y = centres.double().unbind(dim=2)
    across, down = covered(images.shape[3], x, side), covered(images.shape[2], y, side)
    # How many squares lie over each pixel: a product of outer products, summed over the holes.
    times = (down.mT.float() @ across.float()).view(batch, 1, *images.shape[2:])
    return images.masked_fill(times > 0, 0)


def jitter(
    images: Tensor,
    generator: torch.Generator | None,
    *,
    brightness: Tensor,
    contrast: Tensor,
    saturation: Tensor,
    hue: Tensor,
) -> Tensor:
    """Change the colours of images (B, C, H, W) in [0, 1] at random.

    Brightness, contrast and saturation, at least 0, are largest changes: factors are from U(max(0, 1 - s), 1 + s). hue,
    in [0, 0.5], is the largest shift, in turns of the colour circle. The first three changes have a random order for
    each image, the hue comes last; torchvision shuffles all four. Saturation and hue act on images of 3 channels only.
    Ref: torchvision's ColorJitter; Delta-STN (Bae and Grosse 2020).
    """
    strengths = torch.stack([brightness, contrast, saturation], dim=1).detach()
    factors = uniform((1 - strengths).clamp(min=0), 1 + strengths, generator)
    shift = uniform(-hue.detach(), hue.detach(), generator)
    return colors_changed(images, factors, order_of_jitters(images, generator), shift)


def colors_changed(images: Tensor, factors: Tensor, order: Tensor, shift: Tensor) -> Tensor:
    """Change brightness, contrast and saturation by the factors (B, 3) in the order (B, 3), then the hue.

    shift (B,) in turns, as in `shifted_hue`.
    """
    if images.shape[1] == 3:
        return shifted_hue(jittered(images, factors, order), shift)
    without_saturation = torch.cat([factors[:, :2], torch.ones_like(factors[:, 2:])], dim=1)
    return jittered(images, without_saturation, order)


def input_dropout(images: Tensor, generator: torch.Generator | None, *, rate: Tensor) -> Tensor:
    """Set each number of standardized images (B, C, H, W) to 0 with probability `rate`, in [0, 1].

    The others are divided by 1 - rate, so the mean stays. Ref: Srivastava et al. 2014; STN (MacKay et al. 2019),
    section 4.3.
    """
    rate = rate.detach()[:, None, None, None]
    # float32 for all: draws in half precision would be too coarse for small rates.
    dropped = uniform_draws(len(images), images.shape[1:], generator, images.device) < rate
    kept_share = (1 - rate).clamp(min=torch.finfo(rate.dtype).eps)
    return images.masked_fill(dropped, 0) / kept_share.to(images.dtype)


def input_noise(images: Tensor, generator: torch.Generator | None, *, deviation: Tensor) -> Tensor:
    """Multiply each number of standardized images (B, C, H, W) by a draw of N(1, deviation^2); deviation at least 0.

    Ref: STN (MacKay et al. 2019), section 4.3, tunes "input scaling noise" and does not state its form; multiplying
    each number is this library's choice.
    """
    pixels, dtype, device = images.shape[1:], images.dtype, images.device
    noise = draw_then_shard(
        len(images), lambda n: torch.randn(n, *pixels, generator=generator, dtype=dtype, device=device)
    )
    return noise.mul_(deviation.detach().to(images.dtype)[:, None, None, None]).add_(1).mul_(images)
