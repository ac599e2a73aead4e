"""The PIL call that defines each operation, as one mapping; 8-bit images of mode L or RGB in, the same out.

Nothing here comes from hba: these are the definitions that the tests, and benchmarks, hold it against.
"""

from collections.abc import Callable, Mapping

from PIL import Image, ImageDraw, ImageEnhance, ImageOps

Color = tuple[int, ...]
"""Grey levels, one per channel."""

Reference = Callable[[Image.Image, float, Color], Image.Image]
"""(image, magnitude, fill) to the result; operations without magnitude or fill ignore theirs."""

MIDDLE = (0.5, 0.5)


def geometric_reference(resample: Image.Resampling) -> Mapping[str, Reference]:
    """The five operations that move pixels, with one of PIL's ways to find pixels between pixels."""

    def affine(image: Image.Image, coefficients: tuple[float, ...], fill: Color) -> Image.Image:
        return image.transform(
            image.size, Image.Transform.AFFINE, coefficients, resample=resample, fillcolor=_pil_color(fill)
        )

    return {
        "ShearX": lambda image, m, fill: affine(image, (1, m, 0, 0, 1, 0), fill),
        "ShearY": lambda image, m, fill: affine(image, (1, 0, 0, m, 1, 0), fill),
        "TranslateX": lambda image, m, fill: affine(image, (1, 0, m * image.width, 0, 1, 0), fill),
        "TranslateY": lambda image, m, fill: affine(image, (1, 0, 0, 0, 1, m * image.height), fill),
        "Rotate": lambda image, m, fill: image.rotate(m, resample=resample, fillcolor=_pil_color(fill)),
    }


def cutout(image: Image.Image, size: float, fill: Color, position: tuple[float, float] = MIDDLE) -> Image.Image:
    """A filled square about the pixel at `position`, a fraction of width and height; size in shorter sides."""
    side = round(size * min(image.size))
    left = int(position[0] * image.width) - side // 2
    top = int(position[1] * image.height) - side // 2
    result = image.copy()
    if side > 0:
        # PIL's rectangles include their last row and column.
        box = (left, top, left + side - 1, top + side - 1)
        ImageDraw.Draw(result).rectangle(box, fill=_pil_color(fill))
    return result


def _pil_color(fill: Color) -> int | Color:
    """Mode L takes a number, RGB a tuple."""
    return fill[0] if len(fill) == 1 else fill


PIL_REFERENCE: Mapping[str, Reference] = {
    **geometric_reference(Image.Resampling.NEAREST),
    "AutoContrast": lambda image, m, fill: ImageOps.autocontrast(image),
    "Invert": lambda image, m, fill: ImageOps.invert(image),
    "Equalize": lambda image, m, fill: ImageOps.equalize(image),
    # PIL is typed for whole thresholds, but compares each level with whatever number it gets.
    "Solarize": lambda image, m, fill: ImageOps.solarize(image, m),  # type: ignore[arg-type]
    # The table's one exception: 0 bits would be a black image, so hba keeps at least 1.
    "Posterize": lambda image, m, fill: ImageOps.posterize(image, max(1, round(m))),
    "Contrast": lambda image, m, fill: ImageEnhance.Contrast(image).enhance(m),
    "Color": lambda image, m, fill: ImageEnhance.Color(image).enhance(m),
    "Brightness": lambda image, m, fill: ImageEnhance.Brightness(image).enhance(m),
    "Sharpness": lambda image, m, fill: ImageEnhance.Sharpness(image).enhance(m),
    "Cutout": cutout,
}
