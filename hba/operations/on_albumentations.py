"""The operations outside the walk as transforms of albumentations, which draw the
strength of their change.

A draw that albumentations lacks becomes one of several equally likely transforms. It
lacks Perspective and Elastic: A.Perspective enlarges what hba makes smaller,
A.ElasticTransform moves corners up to ten times as far as the middle.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from hba.errors import SettingsError
from hba.operations import Operation
from hba.operations.erasing import ASPECTS, SMALLEST_SHARE
from hba.operations.geometric import CROP_RATIO

Transform = dict[str, Any]

N_AREAS, N_RATIOS, N_GAMMAS = 5, 3, 4
"""Numbers of equally likely transforms for an area, the ratio of its sides, and an
exponent.
"""


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


def color_of(fill: Sequence[float]) -> Any:
    """Grey levels, one or three, as one if they are equal, because CoarseDropout
    refuses three for a grey image.
    """
    return fill[0] if len(set(fill)) == 1 else list(fill)


def transforms_up_to(
    operation: Operation, largest: float, fill: Sequence[float], side: Any
) -> list[Transform]:
    """Transforms, one of which is to be drawn, for an operation that has a largest
    change.

    fill: grey levels, one or three. side: of images in pixels, None if unknown.
    SettingsError if there is no transform.
    """
    name, needs_side = (
        operation.name,
        operation.name == "Blur" and not isinstance(side, int),
    )
    if name not in _UP_TO or needs_side:
        why = (
            "because it needs the size of the images in pixels"
            if needs_side
            else "because it has no such transform"
        )
        remedy = (
            f'leave it out by --without {name} (in Python, schedule.without("{name}")),'
            " or export to kornia"
        )
        raise SettingsError(
            f"albumentations cannot express {name}, {why}; {remedy} or torchvision"
        )
    if operation.magnitude_range is not None and largest == operation.identity:
        return [transform("NoOp")]
    return _UP_TO[name](largest, color_of(fill), side)


def _sizes(
    shares: tuple[float, float], ratio: Callable[[float], float]
) -> list[dict[str, float]]:
    """Equally likely widths x and heights y of parts of an image, as shares of its
    sides, at most 1.

    shares: range of the area, which is uniform. ratio: largest ratio of sides for an
    area; its logarithm is uniform.
    """
    areas = shares[0] + (np.arange(N_AREAS) + 0.5) / N_AREAS * (shares[1] - shares[0])
    places = 2 * (np.arange(N_RATIOS) + 0.5) / N_RATIOS - 1
    pairs = [
        (area, ratio(area) ** place)
        for area, place in itertools.product(areas.tolist(), places.tolist())
    ]
    return [
        {"x": min(1.0, math.sqrt(area * one)), "y": min(1.0, math.sqrt(area / one))}
        for area, one in pairs
    ]


def _affine(color: Any, **moves: Any) -> Transform:
    return transform("Affine", interpolation=0, fill=color, **moves)


def _crops(least_area: float, color: Any, _: Any) -> list[Transform]:
    """Crops of fixed sizes at any place, enlarged about the middle and then moved."""
    found = []
    for sides in _sizes((least_area, 1.0), lambda area: min(1 / area, CROP_RATIO)):
        scale = {axis: [1 / side, 1 / side] for axis, side in sides.items()}
        places = {
            axis: [(1 - 1 / side) / 2, (1 / side - 1) / 2]
            for axis, side in sides.items()
        }
        found.append(
            transform(
                "Affine",
                interpolation=1,
                fill=color,
                scale=scale,
                translate_percent=places,
            )
        )
    return found


def _erase(largest: float, color: Any, _: Any) -> list[Transform]:
    """Rectangles of fixed sizes at any place."""
    sizes = _sizes((SMALLEST_SHARE, max(SMALLEST_SHARE, largest)), lambda _: ASPECTS[1])
    ranges = [
        {"hole_width_range": [one["x"]] * 2, "hole_height_range": [one["y"]] * 2}
        for one in sizes
    ]
    return [
        transform("CoarseDropout", num_holes_range=[1, 1], fill=color, **one)
        for one in ranges
    ]


def _gammas(largest: float, *_: Any) -> list[Transform]:
    ends = 100 * 2 ** np.linspace(-largest, largest, N_GAMMAS + 1)
    return [
        transform("RandomGamma", gamma_limit=[*pair])
        for pair in itertools.pairwise(ends.tolist())
    ]


_TURNS = (
    ("Transpose", "VerticalFlip"),
    ("HorizontalFlip", "VerticalFlip"),
    ("Transpose", "HorizontalFlip"),
)
_UP_TO: Mapping[str, Callable[[float, Any, Any], list[Transform]]] = {
    "HorizontalFlip": lambda *_: [transform("HorizontalFlip")],
    "VerticalFlip": lambda *_: [transform("VerticalFlip")],
    "QuarterTurn": lambda *_: [
        transform("Sequential", transforms=[transform(one, p=1.0) for one in pair])
        for pair in _TURNS
    ],
    "ResizedCrop": _crops,
    "Zoom": lambda most, color, _: [
        _affine(color, scale=[1 - most, 1 + most], keep_ratio=True)
    ],
    "Shear": lambda most, color, _: [
        _affine(color, shear={"x": [-most, most], "y": [0.0, 0.0]})
    ],
    "Rotation": lambda most, color, _: [_affine(color, rotate=[-most, most])],
    "PaddedCrop": lambda most, color, _: [
        _affine(color, translate_percent={axis: [-most, most] for axis in "xy"})
    ],
    "BrightnessJitter": lambda largest, *_: [
        jitter(brightness=[max(0.0, 1 - largest), 1 + largest])
    ],
    "ContrastJitter": lambda largest, *_: [
        jitter(contrast=[max(0.0, 1 - largest), 1 + largest])
    ],
    "Hue": lambda largest, *_: [jitter(hue=[-largest, largest])],
    "Saturation": lambda largest, *_: [
        jitter(saturation=[max(0.0, 1 - largest), 1 + largest])
    ],
    "Gamma": _gammas,
    "Gray": lambda *_: [
        transform("ToGray", num_output_channels=3, method="weighted_average")
    ],
    "Blur": lambda largest, _, side: [
        transform("GaussianBlur", blur_limit=[0, 0], sigma_limit=[0.0, largest * side])
    ],
    "Noise": lambda largest, *_: [
        transform("GaussNoise", std_range=[0.0, largest], mean_range=[0.0, 0.0])
    ],
    "Jpeg": lambda lowest, *_: [
        transform("ImageCompression", quality_range=[round(lowest), 100])
    ],
    "Erase": _erase,
}
"""For each operation, a function from the largest change, the colour and the side to
its transforms.
"""
