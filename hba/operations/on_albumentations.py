"""Operations as transforms of albumentations, in the JSON that albumentations.load
reads.

Each function takes the ends between which the magnitude of an image is uniform, equal
ends for a fixed magnitude, and a Canvas. It returns transforms, of which one is to be
drawn, each as likely; a draw that albumentations lacks becomes one of several
transforms.

Convention:
    A transform is a JSON object as albumentations.to_dict writes it; arguments that it
    omits have their defaults.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from hba.errors import SettingsError
from hba.operations.erasing import ASPECTS, SMALLEST_SHARE
from hba.operations.geometric import CROP_RATIO

Transform = dict[str, Any]

N_AREAS = 5
"""Number of equally likely transforms for an area."""
N_RATIOS = 3
"""The same for the ratio of the sides of an area."""
N_GAMMAS = 4
"""The same for an exponent."""
SMOOTH_WEIGHTS = 13
"""Sum of the weights of PIL's SMOOTH, of which eight of nine are 1."""
RENAMED = {
    "brightness": "brightness_range",
    "contrast": "contrast_range",
    "saturation": "saturation_range",
    "hue": "hue_range",
    "alpha": "alpha_range",
    "lightness": "lightness_range",
    "blur_limit": "blur_range",
    "sigma_limit": "sigma_range",
    "gamma_limit": "gamma_range",
}
"""Arguments of albumentations, and their names in AlbumentationsX."""
EXPLICIT: Mapping[str, Transform] = {
    "Affine": {"keep_ratio": False},
    "GaussNoise": {"per_channel": True},
}
"""Arguments whose defaults differ between albumentations and AlbumentationsX."""


class Canvas(NamedTuple):
    """What a transform depends on besides the magnitude.

    Attributes:
        color: Of uncovered pixels: one grey level, or a list of three.
        interpolation: Nearest or bilinear, for an operation with an affine map.
        side: Of the images in pixels; None if unknown.
    """

    color: float | list[float]
    interpolation: str | None = None
    side: int | None = None


Ends = tuple[float, float]
OnAlbumentations = Callable[[Ends, Canvas], list[Transform]]


def transform(name: str, **arguments: Any) -> Transform:
    """A transform that means the same in albumentations and AlbumentationsX.

    A renamed argument has both names, and each library ignores the other one with a
    warning. Where no argument is renamed, loading is strict: an argument that another
    version does not know is an error.
    """
    renamed = {RENAMED[key]: arguments[key] for key in arguments if key in RENAMED}
    is_strict = bool(arguments) and not renamed and "transforms" not in arguments
    return {
        "__class_fullname__": name,
        **EXPLICIT.get(name, {}),
        **arguments,
        **renamed,
        **({"strict": True} if is_strict else {}),
    }


def jitter(**changed: list[float]) -> Transform:
    """A change of colours; properties that are not given stay unchanged."""
    factors = {
        "brightness": [1.0, 1.0],
        "contrast": [1.0, 1.0],
        "saturation": [1.0, 1.0],
        "hue": [0.0, 0.0],
    }
    return transform("ColorJitter", **{**factors, **changed})


def color_of(fill: Sequence[float]) -> float | list[float]:
    """Grey levels, one or three, as one if they are equal, because CoarseDropout
    refuses three for a grey image.
    """
    return fill[0] if len(set(fill)) == 1 else list(fill)


def _fixed(value: float) -> list[float]:
    return [value, value]


def _only(ends: Ends) -> float:
    """The magnitude of a transform that cannot draw it."""
    low, high = ends
    if low != high:
        raise SettingsError("it cannot draw the magnitude between two ends")
    return low


def _along(axis: str, ends: Sequence[float]) -> dict[str, list[float]]:
    """Between the ends along one axis, x or y, and 0 along the other."""
    return {"x": _fixed(0.0), "y": _fixed(0.0), axis: list(ends)}


def _affine(canvas: Canvas, **moves: Any) -> Transform:
    return transform(
        "Affine",
        interpolation=int(canvas.interpolation == "bilinear"),
        fill=canvas.color,
        **moves,
    )


def _sheared(canvas: Canvas, axis: str, factor: float) -> list[Transform]:
    """Shear about the middle, then shift so that the first row or column of a square
    image stays in place.
    """
    degrees = _fixed(math.degrees(math.atan(factor)))
    shift = _along(axis, _fixed(-factor / 2))
    return [_affine(canvas, shear=_along(axis, degrees), translate_percent=shift)]


def shear_x(factor: Ends, canvas: Canvas) -> list[Transform]:
    return _sheared(canvas, "x", _only(factor))


def shear_y(factor: Ends, canvas: Canvas) -> list[Transform]:
    return _sheared(canvas, "y", _only(factor))


def _shifted(canvas: Canvas, axis: str, fraction: Ends) -> list[Transform]:
    """Places in the result move against those in the image before."""
    low, high = fraction
    return [_affine(canvas, translate_percent=_along(axis, (-high, -low)))]


def translate_x(fraction: Ends, canvas: Canvas) -> list[Transform]:
    return _shifted(canvas, "x", fraction)


def translate_y(fraction: Ends, canvas: Canvas) -> list[Transform]:
    return _shifted(canvas, "y", fraction)


def rotate(degrees: Ends, canvas: Canvas) -> list[Transform]:
    return [_affine(canvas, rotate=list(degrees))]


def auto_contrast(_: Ends, canvas: Canvas) -> list[Transform]:
    return [transform("AutoContrast", method="pil")]


def equalize(_: Ends, canvas: Canvas) -> list[Transform]:
    return [transform("Equalize", mode="pil")]


def invert(_: Ends, canvas: Canvas) -> list[Transform]:
    return [transform("InvertImg")]


def solarize(threshold: Ends, canvas: Canvas) -> list[Transform]:
    first = math.ceil(_only(threshold))
    if first > 255:
        return [transform("NoOp")]
    return [transform("Solarize", threshold_range=_fixed(first / 255))]


def posterize(bits_kept: Ends, canvas: Canvas) -> list[Transform]:
    bits = min(8, max(1, round(_only(bits_kept))))
    if bits == 8:
        return [transform("NoOp")]
    return [transform("Posterize", num_bits=_fixed(bits))]


def brightness(factor: Ends, canvas: Canvas) -> list[Transform]:
    return [jitter(brightness=list(factor))]


def contrast(factor: Ends, canvas: Canvas) -> list[Transform]:
    return [jitter(contrast=list(factor))]


def color(factor: Ends, canvas: Canvas) -> list[Transform]:
    return [jitter(saturation=list(factor))]


def sharpness(factors: Ends, canvas: Canvas) -> list[Transform]:
    factor = _only(factors)
    if factor >= 1:
        # PIL's blend is a convolution that Sharpen can do.
        alpha = (factor - 1) / SMOOTH_WEIGHTS
        return [
            transform(
                "Sharpen", alpha=_fixed(alpha), lightness=_fixed(1.0), method="kernel"
            )
        ]
    # A Gaussian with the same weight in the middle.
    middle = 1 - 8 * (1 - factor) / SMOOTH_WEIGHTS
    sigma = math.sqrt(-1 / (2 * math.log((1 / math.sqrt(middle) - 1) / 2)))
    return [transform("GaussianBlur", blur_limit=[3, 3], sigma_limit=_fixed(sigma))]


def _hole(canvas: Canvas, **sides: list[float]) -> Transform:
    return transform(
        "CoarseDropout", num_holes_range=[1, 1], fill=canvas.color, **sides
    )


def cutout(size: Ends, canvas: Canvas) -> list[Transform]:
    sides = _fixed(_only(size))
    return [_hole(canvas, hole_height_range=sides, hole_width_range=sides)]


def horizontal_flip(_: Ends, canvas: Canvas) -> list[Transform]:
    return [transform("HorizontalFlip")]


def vertical_flip(_: Ends, canvas: Canvas) -> list[Transform]:
    return [transform("VerticalFlip")]


def quarter_turn(_: Ends, canvas: Canvas) -> list[Transform]:
    turns = (
        ("Transpose", "VerticalFlip"),
        ("HorizontalFlip", "VerticalFlip"),
        ("Transpose", "HorizontalFlip"),
    )
    return [
        transform("Sequential", transforms=[transform(name, p=1.0) for name in names])
        for names in turns
    ]


def _sizes(
    shares: tuple[float, float], ratio: Callable[[float], float]
) -> list[tuple[float, float]]:
    """Equally likely widths and heights of parts of an image, as shares of its sides,
    at most 1.

    Args:
        shares: Range of the area, which is uniform.
        ratio: Largest ratio of sides for an area; its logarithm is uniform.
    """
    low, high = shares
    areas = [low + (n + 0.5) / N_AREAS * (high - low) for n in range(N_AREAS)]
    places = [2 * (n + 0.5) / N_RATIOS - 1 for n in range(N_RATIOS)]
    sizes = []
    for area, place in itertools.product(areas, places):
        aspect = ratio(area) ** place
        width = min(1.0, math.sqrt(area * aspect))
        height = min(1.0, math.sqrt(area / aspect))
        sizes.append((width, height))
    return sizes


def resized_crop(area: Ends, canvas: Canvas) -> list[Transform]:
    """Crops of fixed sizes at any place, enlarged about the middle and then moved."""
    crops = []
    for width, height in _sizes(area, lambda share: min(1 / share, CROP_RATIO)):
        sides = {"x": width, "y": height}
        scale = {axis: [1 / side, 1 / side] for axis, side in sides.items()}
        places = {
            axis: [(1 - 1 / side) / 2, (1 / side - 1) / 2]
            for axis, side in sides.items()
        }
        crops.append(_affine(canvas, scale=scale, translate_percent=places))
    return crops


def zoom(factor: Ends, canvas: Canvas) -> list[Transform]:
    return [_affine(canvas, scale=list(factor), keep_ratio=True)]


def shear(degrees: Ends, canvas: Canvas) -> list[Transform]:
    return [_affine(canvas, shear=_along("x", degrees))]


def padded_crop(fraction: Ends, canvas: Canvas) -> list[Transform]:
    largest = _only(fraction)
    shifts = {axis: [-largest, largest] for axis in "xy"}
    return [_affine(canvas, translate_percent=shifts)]


def hue(turns: Ends, canvas: Canvas) -> list[Transform]:
    return [jitter(hue=list(turns))]


def gamma(log2: Ends, canvas: Canvas) -> list[Transform]:
    low, high = log2
    step = (high - low) / N_GAMMAS
    exponents = [low + n * step for n in range(N_GAMMAS)]
    limits = [100 * 2**exponent for exponent in [*exponents, high]]
    return [
        transform("RandomGamma", gamma_limit=list(pair))
        for pair in itertools.pairwise(limits)
    ]


def gray(_: Ends, canvas: Canvas) -> list[Transform]:
    return [transform("ToGray", num_output_channels=3, method="weighted_average")]


def blur(share: Ends, canvas: Canvas) -> list[Transform]:
    if canvas.side is None:
        raise SettingsError("it needs the size of the images in pixels")
    deviations = [end * canvas.side for end in share]
    return [transform("GaussianBlur", blur_limit=[0, 0], sigma_limit=deviations)]


def noise(deviation: Ends, canvas: Canvas) -> list[Transform]:
    deviations = list(deviation)
    return [transform("GaussNoise", std_range=deviations, mean_range=[0.0, 0.0])]


def jpeg(quality: Ends, canvas: Canvas) -> list[Transform]:
    qualities = [round(end) for end in quality]
    return [transform("ImageCompression", quality_range=qualities)]


def erase(share: Ends, canvas: Canvas) -> list[Transform]:
    """Rectangles of fixed sizes at any place."""
    shares = (SMALLEST_SHARE, max(SMALLEST_SHARE, _only(share)))
    return [
        _hole(canvas, hole_width_range=[width] * 2, hole_height_range=[height] * 2)
        for width, height in _sizes(shares, lambda _: ASPECTS[1])
    ]
