"""Operations on one PIL image (mode L or RGB), by the PIL calls that define them.

Each function takes the image, and then, if its operation uses them, the magnitude, the
fill colour as grey levels, random numbers in [0, 1), such as a place (x, y), and PIL's
resampling filter. It returns a new image.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

from PIL import Image, ImageEnhance, ImageOps
from PIL.Image import Resampling, Transform, Transpose

# Exported files contain the rest of this module.

Color = tuple[int, ...]
"""Grey levels in [0, 255], one per channel."""
Uniforms = tuple[float, ...]

OnPil = Callable[..., Image.Image]

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
    least_area: float,
    fill: Color,
    uniforms: Uniforms,
    resampling: Resampling,
) -> Image.Image:
    area = 1 - uniforms[0] * (1 - least_area)
    ratio = min(1 / area, 4 / 3) ** (2 * uniforms[1] - 1)
    across = (area * ratio) ** 0.5
    down = (area / ratio) ** 0.5
    left = uniforms[2] * (1 - across) * image.width
    top = uniforms[3] * (1 - down) * image.height
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


def rotation_by_pil(
    image: Image.Image,
    most: float,
    fill: Color,
    uniforms: Uniforms,
    resampling: Resampling,
) -> Image.Image:
    return rotate_by_pil(image, most * (2 * uniforms[0] - 1), fill, resampling)


def shear_by_pil(
    image: Image.Image,
    most: float,
    fill: Color,
    uniforms: Uniforms,
    resampling: Resampling,
) -> Image.Image:
    tan = math.tan(math.radians(most * (2 * uniforms[0] - 1)))
    return _affine(
        image, (1, tan, -tan * (image.height / 2), 0, 1, 0), fill, resampling
    )


def zoom_by_pil(
    image: Image.Image,
    most: float,
    fill: Color,
    uniforms: Uniforms,
    resampling: Resampling,
) -> Image.Image:
    share = 1 / (1 + most * (2 * uniforms[0] - 1))
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
