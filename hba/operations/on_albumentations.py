"""Operations as transforms of albumentations, in the JSON that albumentations.load
reads.

Each function takes the magnitude, with its sign, and a Canvas. It returns transforms,
of which one is to be drawn, each as likely. Those of the walk are one transform; its
ranges have one value, so that only the place of a hole is drawn. Those of other stages
draw their change up to the magnitude; a draw that albumentations lacks becomes one of
several transforms.

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


OnAlbumentations = Callable[[float, Canvas], list[Transform]]


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


def _along(axis: str, value: float) -> dict[str, list[float]]:
    """The value along one axis, x or y, and 0 along the other."""
    return {"x": _fixed(0.0), "y": _fixed(0.0), axis: _fixed(value)}


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
    degrees = math.degrees(math.atan(factor))
    shift = _along(axis, -factor / 2)
    return [_affine(canvas, shear=_along(axis, degrees), translate_percent=shift)]


def shear_x(factor: float, canvas: Canvas) -> list[Transform]:
    return _sheared(canvas, "x", factor)


def shear_y(factor: float, canvas: Canvas) -> list[Transform]:
    return _sheared(canvas, "y", factor)


def translate_x(fraction: float, canvas: Canvas) -> list[Transform]:
    return [_affine(canvas, translate_percent=_along("x", -fraction))]


def translate_y(fraction: float, canvas: Canvas) -> list[Transform]:
    return [_affine(canvas, translate_percent=_along("y", -fraction))]


def rotate(degrees: float, canvas: Canvas) -> list[Transform]:
    return [_affine(canvas, rotate=_fixed(degrees))]


def auto_contrast(magnitude: float, canvas: Canvas) -> list[Transform]:
    return [transform("AutoContrast", method="pil")]


def equalize(magnitude: float, canvas: Canvas) -> list[Transform]:
    return [transform("Equalize", mode="pil")]


def invert(magnitude: float, canvas: Canvas) -> list[Transform]:
    return [transform("InvertImg")]


def solarize(threshold: float, canvas: Canvas) -> list[Transform]:
    first = math.ceil(threshold)
    if first > 255:
        return [transform("NoOp")]
    return [transform("Solarize", threshold_range=_fixed(first / 255))]


def posterize(magnitude: float, canvas: Canvas) -> list[Transform]:
    bits = min(8, max(1, round(magnitude)))
    if bits == 8:
        return [transform("NoOp")]
    return [transform("Posterize", num_bits=_fixed(bits))]


def brightness(factor: float, canvas: Canvas) -> list[Transform]:
    return [jitter(brightness=_fixed(factor))]


def contrast(factor: float, canvas: Canvas) -> list[Transform]:
    return [jitter(contrast=_fixed(factor))]


def color(factor: float, canvas: Canvas) -> list[Transform]:
    return [jitter(saturation=_fixed(factor))]


def sharpness(factor: float, canvas: Canvas) -> list[Transform]:
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


def cutout(size: float, canvas: Canvas) -> list[Transform]:
    sides = _fixed(size)
    return [_hole(canvas, hole_height_range=sides, hole_width_range=sides)]


def horizontal_flip(magnitude: float, canvas: Canvas) -> list[Transform]:
    return [transform("HorizontalFlip")]


def vertical_flip(magnitude: float, canvas: Canvas) -> list[Transform]:
    return [transform("VerticalFlip")]


def quarter_turn(magnitude: float, canvas: Canvas) -> list[Transform]:
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


def resized_crop(least_area: float, canvas: Canvas) -> list[Transform]:
    """Crops of fixed sizes at any place, enlarged about the middle and then moved."""
    crops = []
    for width, height in _sizes(
        (least_area, 1.0), lambda area: min(1 / area, CROP_RATIO)
    ):
        sides = {"x": width, "y": height}
        scale = {axis: [1 / side, 1 / side] for axis, side in sides.items()}
        places = {
            axis: [(1 - 1 / side) / 2, (1 / side - 1) / 2]
            for axis, side in sides.items()
        }
        crops.append(_affine(canvas, scale=scale, translate_percent=places))
    return crops


def zoom(largest: float, canvas: Canvas) -> list[Transform]:
    return [_affine(canvas, scale=[1 - largest, 1 + largest], keep_ratio=True)]


def shear(largest: float, canvas: Canvas) -> list[Transform]:
    return [_affine(canvas, shear={"x": [-largest, largest], "y": [0.0, 0.0]})]


def rotation(largest: float, canvas: Canvas) -> list[Transform]:
    return [_affine(canvas, rotate=[-largest, largest])]


def padded_crop(largest: float, canvas: Canvas) -> list[Transform]:
    shifts = {axis: [-largest, largest] for axis in "xy"}
    return [_affine(canvas, translate_percent=shifts)]


def _factors(largest: float) -> list[float]:
    return [max(0.0, 1 - largest), 1 + largest]


def brightness_jitter(largest: float, canvas: Canvas) -> list[Transform]:
    return [jitter(brightness=_factors(largest))]


def contrast_jitter(largest: float, canvas: Canvas) -> list[Transform]:
    return [jitter(contrast=_factors(largest))]


def saturation(largest: float, canvas: Canvas) -> list[Transform]:
    return [jitter(saturation=_factors(largest))]


def hue(largest: float, canvas: Canvas) -> list[Transform]:
    return [jitter(hue=[-largest, largest])]


def gamma(largest: float, canvas: Canvas) -> list[Transform]:
    step = 2 * largest / N_GAMMAS
    exponents = [n * step - largest for n in range(N_GAMMAS)]
    ends = [100 * 2**exponent for exponent in [*exponents, largest]]
    return [
        transform("RandomGamma", gamma_limit=list(pair))
        for pair in itertools.pairwise(ends)
    ]


def gray(magnitude: float, canvas: Canvas) -> list[Transform]:
    return [transform("ToGray", num_output_channels=3, method="weighted_average")]


def blur(largest: float, canvas: Canvas) -> list[Transform]:
    if canvas.side is None:
        raise SettingsError("it needs the size of the images in pixels")
    deviations = [0.0, largest * canvas.side]
    return [transform("GaussianBlur", blur_limit=[0, 0], sigma_limit=deviations)]


def noise(largest: float, canvas: Canvas) -> list[Transform]:
    return [transform("GaussNoise", std_range=[0.0, largest], mean_range=[0.0, 0.0])]


def jpeg(lowest: float, canvas: Canvas) -> list[Transform]:
    return [transform("ImageCompression", quality_range=[round(lowest), 100])]


def erase(largest: float, canvas: Canvas) -> list[Transform]:
    """Rectangles of fixed sizes at any place."""
    shares = (SMALLEST_SHARE, max(SMALLEST_SHARE, largest))
    return [
        _hole(canvas, hole_width_range=[width] * 2, hole_height_range=[height] * 2)
        for width, height in _sizes(shares, lambda _: ASPECTS[1])
    ]
