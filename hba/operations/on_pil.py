"""Operations on one PIL image (mode L or RGB), by the PIL calls that define them.

The function of an operation takes the image, and then, if the operation uses them, the
magnitude, the fill colour as grey levels, random numbers in [0, 1), such as a place (x,
y), and PIL's resampling filter. It returns a new image.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from PIL import Image, ImageEnhance, ImageOps
from PIL.Image import Resampling, Transform, Transpose

# Exported files contain the rest of this module.

Color = tuple[int, ...]
"""Grey levels in [0, 255], one per channel."""
Uniforms = tuple[float, ...]

TURNS = (Transpose.ROTATE_90, Transpose.ROTATE_180, Transpose.ROTATE_270)
RESAMPLING = {"nearest": Resampling.NEAREST, "bilinear": Resampling.BILINEAR}


def shear_x_by_pil(
    image: Image.Image, factor: float, fill: Color, resampling: Resampling
) -> Image.Image:
    return _affine(image, (1, factor, 0, 0, 1, 0), fill, resampling)


def shear_y_by_pil(
    image: Image.Image, factor: float, fill: Color, resampling: Resampling
) -> Image.Image:
    return _affine(image, (1, 0, 0, factor, 1, 0), fill, resampling)


def translate_x_by_pil(
    image: Image.Image, fraction: float, fill: Color, resampling: Resampling
) -> Image.Image:
    return _affine(image, (1, 0, fraction * image.width, 0, 1, 0), fill, resampling)


def translate_y_by_pil(
    image: Image.Image, fraction: float, fill: Color, resampling: Resampling
) -> Image.Image:
    return _affine(image, (1, 0, 0, 0, 1, fraction * image.height), fill, resampling)


def rotate_by_pil(
    image: Image.Image, degrees: float, fill: Color, resampling: Resampling
) -> Image.Image:
    return image.rotate(degrees, resampling, fillcolor=_color(fill))


def mirror_by_pil(image: Image.Image, resampling: Resampling) -> Image.Image:
    return ImageOps.mirror(image)


def flip_by_pil(image: Image.Image, resampling: Resampling) -> Image.Image:
    return ImageOps.flip(image)


def quarter_turn_by_pil(
    image: Image.Image, uniforms: Uniforms, resampling: Resampling
) -> Image.Image:
    quarters, (width, height) = math.floor(3 * uniforms[0]), image.size
    if quarters == 1 or width == height:
        return image.transpose(TURNS[quarters])
    # An image that is not square keeps its size.
    sin = 1 - quarters
    map_ = (
        0,
        -sin * width / height,
        width / 2 * (1 + sin),
        sin * height / width,
        0,
        height / 2 * (1 - sin),
    )
    return _affine(image, map_, (0,) * len(image.getbands()), resampling)


def resized_crop_by_pil(
    image: Image.Image,
    area: float,
    fill: Color,
    uniforms: Uniforms,
    resampling: Resampling,
) -> Image.Image:
    ratio = min(1 / area, 4 / 3) ** (2 * uniforms[0] - 1)
    across = (area * ratio) ** 0.5
    down = (area / ratio) ** 0.5
    left = uniforms[1] * (1 - across) * image.width
    top = uniforms[2] * (1 - down) * image.height
    return _affine(image, (across, 0, left, 0, down, top), fill, resampling)


def padded_crop_by_pil(
    image: Image.Image,
    fraction: float,
    fill: Color,
    uniforms: Uniforms,
    resampling: Resampling,
) -> Image.Image:
    paddings = [round(fraction * side) for side in image.size]
    x, y = (
        math.floor(one * (2 * most + 1)) - most
        for one, most in zip(uniforms[:2], paddings, strict=True)
    )
    return _affine(image, (1, 0, x, 0, 1, y), fill, resampling)


def shear_by_pil(
    image: Image.Image, degrees: float, fill: Color, resampling: Resampling
) -> Image.Image:
    tan = math.tan(math.radians(degrees))
    return _affine(
        image, (1, tan, -tan * (image.height / 2), 0, 1, 0), fill, resampling
    )


def zoom_by_pil(
    image: Image.Image, factor: float, fill: Color, resampling: Resampling
) -> Image.Image:
    share = 1 / factor
    left, top = ((1 - share) * (side / 2) for side in image.size)
    return _affine(image, (share, 0, left, 0, share, top), fill, resampling)


def posterize_by_pil(image: Image.Image, bits: float) -> Image.Image:
    return ImageOps.posterize(image, min(8, max(1, round(bits))))


def solarize_by_pil(image: Image.Image, threshold: float) -> Image.Image:
    # PIL's type hints ask for whole thresholds, but it compares levels with any number.
    return ImageOps.solarize(image, threshold)  # type: ignore[arg-type]


class Enhancer(NamedTuple):
    """An operation by one of PIL's enhancers."""

    enhance: Callable[[Image.Image], ImageEnhance._Enhance]

    def __call__(self, image: Image.Image, factor: float) -> Image.Image:
        return self.enhance(image).enhance(factor)


def cutout_by_pil(
    image: Image.Image, size: float, fill: Color, position: tuple[float, float]
) -> Image.Image:
    side = round(size * min(image.size))
    left = math.floor(position[0] * image.width) - side // 2
    top = math.floor(position[1] * image.height) - side // 2
    result = image.copy()
    result.paste(_color(fill), (left, top, left + side, top + side))
    return result


def _affine(
    image: Image.Image, map_: tuple[float, ...], fill: Color, resampling: Resampling
) -> Image.Image:
    return image.transform(
        image.size, Transform.AFFINE, map_, resampling, fillcolor=_color(fill)
    )


def _color(fill: Color) -> int | Color:
    """Mode L takes a number, RGB a tuple."""
    return fill[0] if len(fill) == 1 else fill


def apply_to_pil(
    drawn: Iterable[tuple[Any, float, Uniforms]],
    image: Image.Image,
    color: tuple[float, ...],
) -> Image.Image:
    """Apply drawn operations to a PIL image, one after the other.

    Args:
        drawn: An operation, the magnitude of the image, and at least n_uniforms random
            numbers in [0, 1). An operation without a function for PIL images gets a
            batch of one.
        image: Of mode L or RGB. One without pixels is copied.
        color: Of uncovered pixels, in [0, 1], one number per channel.

    Returns:
        A new image.
    """
    if 0 in image.size:
        return image.copy()
    levels = tuple(round(255 * channel) for channel in color)
    result = image
    for operation, magnitude, uniforms in drawn:
        if operation.on_pil is not None:
            result = apply_by_pil(operation, result, magnitude, levels, uniforms)
        else:
            result = _apply_as_batch(operation, result, magnitude, color, uniforms)
    return image.copy() if result is image else result


def apply_by_pil(
    operation: Any,
    image: Image.Image,
    magnitude: float,
    levels: Color,
    uniforms: Uniforms,
) -> Image.Image:
    """Call the function for PIL images of an operation that has one."""
    uniforms = uniforms[: operation.n_uniforms]
    arguments = operation.arguments(magnitude, levels, uniforms)
    if operation.interpolation is not None:
        arguments.append(RESAMPLING[operation.interpolation])
    result: Image.Image = operation.on_pil(image, *arguments)
    return result


def _apply_as_batch(
    operation: Any,
    image: Image.Image,
    magnitude: float,
    color: tuple[float, ...],
    uniforms: Uniforms,
) -> Image.Image:
    import torch
    from torchvision.transforms.v2 import functional as TF

    # Positions use double precision, like those of the image's annotations.
    precision = torch.float64 if operation.moves_pixels else torch.float32
    changed = operation.compute(
        TF.pil_to_tensor(image)[None].float() / 255,
        torch.tensor([magnitude], dtype=precision),
        torch.tensor(color, dtype=torch.float32),
        torch.tensor([uniforms], dtype=torch.float32),
    )[0]
    levels = changed.mul(255).round().clamp(0, 255).byte()
    result: Image.Image = TF.to_pil_image(levels, mode=image.mode)
    return result
