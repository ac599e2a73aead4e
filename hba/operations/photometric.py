"""Photometric operations that are not on the walk: hue, gamma, grey, blur, noise, JPEG.

Convention:
    images (B, C, H, W) float in [0, 1]; inputs are never changed; a magnitude (B,) for
        each image. C is 1 or 3 for hue, grey and JPEG; an image with one channel has no
        colour, so hue and grey do not change it. Images that do not change keep their
        exact values.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hba.operations.color import luma, to_levels
from hba.utils.tensors import device_constant, whole_numbers

if TYPE_CHECKING:
    import torch
    from torch import Tensor

# Exported files contain the rest of this module.

LARGEST_BLUR = 0.08
"""Standard deviation, as a fraction of the shorter side, for which the blur's kernel is
large enough.
"""
BLOCK = 8
"""Side of JPEG's blocks in pixels."""
# The tables of Annex K of the JPEG standard for luma and chroma. libjpeg and PIL scale
# them by the quality.
LUMA_STEPS = (
    (16, 11, 10, 16, 24, 40, 51, 61),
    (12, 12, 14, 19, 26, 58, 60, 55),
    (14, 13, 16, 24, 40, 57, 69, 56),
    (14, 17, 22, 29, 51, 87, 80, 62),
    (18, 22, 37, 56, 68, 109, 103, 77),
    (24, 35, 55, 64, 81, 104, 113, 92),
    (49, 64, 78, 87, 103, 121, 120, 101),
    (72, 92, 95, 98, 112, 100, 103, 99),
)
CHROMA_STEPS = (
    (17, 18, 24, 47, 99, 99, 99, 99),
    (18, 21, 26, 66, 99, 99, 99, 99),
    (24, 26, 56, 99, 99, 99, 99, 99),
    (47, 66, 99, 99, 99, 99, 99, 99),
    *[(99,) * BLOCK] * 4,
)


def hue(images: Tensor, shift: Tensor) -> Tensor:
    """Shift hues by turns, at most 0.5, from red over green to blue.

    Saturation and value of HSV do not change. Ref: torchvision's adjust_hue, Python's
    colorsys.
    """
    import torch

    if images.shape[1] == 1:
        return images.clone()
    red, green, blue = images.unbind(dim=1)
    value = images.amax(dim=1)
    chroma = value - images.amin(dim=1)
    # Greys have no hue. Any hue will do, because their chroma is 0.
    divisor = chroma.where(chroma > 0, 1)
    # In sixths of a turn: red is 0, green 2, blue 4.
    neither_red = torch.where(
        green == value, 2 + (blue - red) / divisor, 4 + (red - green) / divisor
    )
    place = torch.where(red == value, (green - blue) / divisor, neither_red)
    place = place + 6 * shift.to(images.dtype)[:, None, None]
    sixths = torch.stack([place + 5, place + 3, place + 1], dim=1).remainder(6)
    # How far R, G and B are below the value, as a share of the chroma.
    below = torch.minimum(sixths, 4 - sixths).clamp(0, 1)
    return torch.where(
        shift[:, None, None, None] == 0,
        images,
        value[:, None] - chroma[:, None] * below,
    )


def gamma(images: Tensor, log2: Tensor) -> Tensor:
    """Raise every number to the power 2^log2. Ref: torchvision's and kornia's
    adjust_gamma.
    """
    return images.pow(log2.exp2().to(images.dtype)[:, None, None, None])


def grayscale(images: Tensor) -> Tensor:
    """The luma in all channels. Ref: PIL's mode L, not rounded; torchvision's
    rgb_to_grayscale, with 0.2989 for red.
    """
    return (
        images.clone()
        if images.shape[1] == 1
        else luma(images).clamp_(0, 1).repeat(1, 3, 1, 1)
    )


def blur(images: Tensor, share: Tensor) -> Tensor:
    """Blur by a Gaussian with a deviation of this share of the shorter side.

    The kernel size depends only on the size of the image: it covers three deviations of
    LARGEST_BLUR, or reaches the opposite border if that is nearer. Ref: kornia's
    gaussian_blur2d; torchvision's gaussian_blur with this kernel size.
    """
    from kornia.filters import filter2d_separable, get_gaussian_kernel1d

    side = min(images.shape[2:])
    reach = min(math.ceil(3 * LARGEST_BLUR * side), side - 1)
    deviation = (share * side).float()
    # gaussian_blur2d would read the deviations on the host.
    kernel = get_gaussian_kernel1d(2 * reach + 1, deviation.clamp(min=1e-3)[:, None])
    blurred = filter2d_separable(images.float(), kernel, kernel)
    return (
        blurred.clamp_(0, 1)
        .to(images.dtype)
        .where(deviation[:, None, None, None] > 0, images)
    )


def noise(images: Tensor, deviation: Tensor, uniforms: Tensor) -> Tensor:
    """Add Gaussian noise with this deviation, and clamp to [0, 1]; uniforms (B, 1).

    Every value of an image gets its own noise, which depends on its place and on the
    uniform number.
    """
    numbers = hashed(uniforms[:, 0], math.prod(images.shape[1:])).view(images.shape)
    factor = math.sqrt(2) * deviation.float()[:, None, None, None]
    # The inverse of the cumulative distribution: 5.3 deviations at most.
    normal = numbers.erfinv_().mul_(factor).to(images.dtype)
    return normal.add_(images).clamp_(0, 1)


def hashed(seeds: Tensor, count: int) -> Tensor:
    """Uniform numbers in (-1, 1), float32 (B, count): hashes of an image's seed (B,),
    in [0, 1), and of a place.

    They are the middles of 2^24 intervals, and the same on every device. There are 2^24
    different seeds.
    """
    import torch

    places = _scrambled(whole_numbers(count, torch.int32, seeds.device) + 1)
    numbers = _scrambled(places ^ _scrambled(seeds.mul(1 << 24).int())[:, None])
    return numbers.bitwise_right_shift_(8).float().add_(0.5).mul_(2.0**-23)


def _scrambled(numbers: Tensor) -> Tensor:
    """A bijection of int32 in which each bit of the result depends on all bits:
    xorshifts and wrapping products.
    """
    for factor in (0x45D9F3B, 0x45D9F3B, 1):
        numbers = (numbers ^ numbers.bitwise_right_shift(16).bitwise_and_(0xFFFF)).mul_(
            factor
        )
    return numbers


def jpeg(images: Tensor, quality: Tensor) -> Tensor:
    """Encode and decode as JPEG with this quality, rounded; 100 changes nothing.

    Chroma has half the resolution; blocks at the border repeat the last pixel. Ref:
    PIL.Image.save(quality=...), from which most pixels differ by at most one grey
    level. kornia's codec does not round, and reads qualities on the host.
    """
    import torch

    quality = quality.float().round()
    height, width = images.shape[2:]
    padding = (0, -width % (2 * BLOCK), 0, -height % (2 * BLOCK))
    padded = torch.nn.functional.pad(
        to_levels(images.float()), padding, mode="replicate"
    )
    steps = _quantization_steps(quality)
    if images.shape[1] == 1:
        coded = _through_blocks(padded, steps[:, :1])[:, :, :height, :width]
    else:
        y = luma(padded)
        # Differences to blue and red, scaled to [0, 255] with 128 as their middle.
        differences = torch.cat(
            [(padded[:, 2:] - y) / 1.772, (padded[:, :1] - y) / 1.402], dim=1
        ).add_(128)
        halved = torch.nn.functional.avg_pool2d(differences.round_().clamp_(0, 255), 2)
        # libjpeg rounds halves down in even columns, up in odd ones.
        halved.add_(
            whole_numbers(halved.shape[3], halved.dtype, halved.device).remainder(2) / 4
            + 0.25
        ).floor_()
        halved = _through_blocks(halved, steps[:, 1:])[
            :, :, : -(-height // 2), : -(-width // 2)
        ]
        doubled = torch.nn.functional.interpolate(
            halved, scale_factor=2, mode="bilinear", align_corners=False
        )
        y = _through_blocks(y.round_(), steps[:, :1])[:, :, :height, :width]
        blue, red = doubled[:, :, :height, :width].round_().sub_(128).split(1, dim=1)
        coded = torch.cat(
            [y + 1.402 * red, y - 0.344136 * blue - 0.714136 * red, y + 1.772 * blue],
            dim=1,
        )
    coded = coded.round_().clamp_(0, 255).div_(255).to(images.dtype)
    return coded.where(quality[:, None, None, None] < 100, images)


def _quantization_steps(quality: Tensor) -> Tensor:
    """Tables (B, 2, 8, 8) of luma and chroma at whole qualities (B,). Ref:
    jpeg_quality_scaling of libjpeg.
    """
    import torch

    quality = quality.clamp(min=1)[:, None, None, None]
    percent = torch.where(quality < 50, (5000 / quality).floor(), 200 - 2 * quality)
    return ((_tables(quality.device) * percent + 50) / 100).floor().clamp(1, 255)


@device_constant
def _tables(device: torch.device) -> Tensor:
    import torch

    return torch.tensor((LUMA_STEPS, CHROMA_STEPS), dtype=torch.float32, device=device)


@device_constant
def _cosines(device: torch.device) -> Tensor:
    """The orthonormal discrete cosine transform of 8 numbers, (8, 8), with frequencies
    in rows.
    """
    import torch

    place = torch.arange(BLOCK) + 0.5
    frequency = torch.arange(BLOCK)[:, None]
    scale = torch.where(frequency == 0, math.sqrt(1 / BLOCK), math.sqrt(2 / BLOCK))
    return ((place * frequency * math.pi / BLOCK).cos() * scale).to(device)


def _through_blocks(levels: Tensor, steps: Tensor) -> Tensor:
    """Round the frequencies of grey levels (B, C, H, W), in blocks of 8 x 8 pixels, to
    steps (B, C, 8, 8).
    """
    cosines = _cosines(levels.device)
    blocks = (
        levels.sub(128)
        .unflatten(3, (-1, BLOCK))
        .unflatten(2, (-1, BLOCK))
        .transpose(3, 4)
    )
    steps = steps[:, :, None, None]
    frequencies = (cosines @ blocks @ cosines.T).div_(steps).round_().mul_(steps)
    decoded = (cosines.T @ frequencies @ cosines).add_(128).round_().clamp_(0, 255)
    return decoded.transpose(3, 4).reshape(levels.shape)
