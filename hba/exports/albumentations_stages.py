"""The operations outside of the walk as transforms of albumentations, which draw the change that they make.

What depends on the size of the image, or is not uniform, is one of several transforms that are equally likely.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from hba.errors import SettingsError
from hba.operations import Operation
from hba.operations.distortion import CELLS
from hba.operations.erasing import ASPECTS, SMALLEST_SHARE
from hba.operations.geometric import CROP_RATIO

Transform = dict[str, Any]

N_AREAS, N_RATIOS, N_GAMMAS = 5, 3, 4
"""Numbers of equally likely transforms that stand for a crop's area and ratio, and for the exponent."""
FIELD_DEVIATION = 151 / 315 / math.sqrt(3)
"""Of an elastic displacement, for a largest one of 1: that of a uniform number, smoothed by cubic B-splines."""


def transform(name: str, **arguments: Any) -> Transform:
    return {"__class_fullname__": name, **arguments}


def jitter(**changed: list[float]) -> Transform:
    """Of colours; what is not changed stays."""
    factors = {"brightness": [1.0, 1.0], "contrast": [1.0, 1.0], "saturation": [1.0, 1.0], "hue": [0.0, 0.0]}
    return transform("ColorJitter", **{**factors, **changed})


def color_of(fill: Sequence[float]) -> Any:
    """Grey levels, one or three, as one if they are equal, because CoarseDropout refuses three for a grey image."""
    return fill[0] if len(set(fill)) == 1 else list(fill)


def transforms_up_to(operation: Operation, largest: float, fill: Sequence[float], side: Any) -> list[Transform]:
    """Transforms, one of which is to be drawn, for an operation that has a largest change.

    fill: grey levels, one or three. side: of the images in pixels, None if unknown. Raises SettingsError for what
    albumentations cannot express.
    """
    name, needs_side = operation.name, operation.name == "Blur" and not isinstance(side, int)
    if name not in _UP_TO or needs_side:
        why = "because it needs the size of the images in pixels" if needs_side else "because it has no such transform"
        raise SettingsError(
            f"albumentations cannot express {name}, {why}; leave it out by --without {name} (in Python, "
            f'schedule.without("{name}")), or export to torchvision or kornia'
        )
    if operation.magnitude_range is not None and largest == operation.identity:
        return [transform("NoOp")]
    return _UP_TO[name](largest, color_of(fill), side)


def _crops(least_area: float, color: Any, _: Any) -> list[Transform]:
    """Crops of fixed sizes at any place, enlarged about the middle and then moved."""
    found = []
    areas = 1 - (np.arange(N_AREAS) + 0.5) / N_AREAS * (1 - least_area)
    exponents = 2 * (np.arange(N_RATIOS) + 0.5) / N_RATIOS - 1
    for area, exponent in itertools.product(areas.tolist(), exponents.tolist()):
        ratio = min(1 / area, CROP_RATIO) ** exponent
        zoom = {"x": 1 / math.sqrt(area * ratio), "y": 1 / math.sqrt(area / ratio)}
        scale = {axis: [one, one] for axis, one in zoom.items()}
        places = {axis: [(1 - one) / 2, (one - 1) / 2] for axis, one in zoom.items()}
        found.append(transform("Affine", interpolation=1, fill=color, scale=scale, translate_percent=places))
    return found


def _gammas(largest: float, *_: Any) -> list[Transform]:
    ends = 100 * 2 ** np.linspace(-largest, largest, N_GAMMAS + 1)
    return [transform("RandomGamma", gamma_limit=[*pair]) for pair in itertools.pairwise(ends.tolist())]


def _elastic(largest: float, color: Any, _: Any) -> list[Transform]:
    # The scale is divided by 10 there.
    scale = [10 * FIELD_DEVIATION * largest] * 2
    return [transform("ThinPlateSpline", scale_range=scale, num_control_points=CELLS + 1, border_mode=0, fill=color)]


def _erase(largest: float, color: Any, _: Any) -> list[Transform]:
    return [transform("Erasing", scale=[SMALLEST_SHARE, max(SMALLEST_SHARE, largest)], ratio=[*ASPECTS], fill=color)]


_TURNS = ("Transpose", "VerticalFlip"), ("HorizontalFlip", "VerticalFlip"), ("Transpose", "HorizontalFlip")
_UP_TO: Mapping[str, Callable[[float, Any, Any], list[Transform]]] = {
    "HorizontalFlip": lambda *_: [transform("HorizontalFlip")],
    "VerticalFlip": lambda *_: [transform("VerticalFlip")],
    "QuarterTurn": lambda *_: [
        transform("Sequential", transforms=[transform(one, p=1.0) for one in pair]) for pair in _TURNS
    ],
    "ResizedCrop": _crops,
    "PaddedCrop": lambda most, color, _: [
        transform("Affine", interpolation=0, fill=color, translate_percent={"x": [-most, most], "y": [-most, most]})
    ],
    "Hue": lambda largest, *_: [jitter(hue=[-largest, largest])],
    "Saturation": lambda largest, *_: [jitter(saturation=[max(0.0, 1 - largest), 1 + largest])],
    "Gamma": _gammas,
    "Gray": lambda *_: [transform("ToGray", num_output_channels=3, method="weighted_average")],
    "Blur": lambda largest, _, side: [transform("GaussianBlur", blur_limit=0, sigma_limit=[0.0, largest * side])],
    "Noise": lambda largest, *_: [transform("GaussNoise", std_range=[0.0, largest], mean_range=[0.0, 0.0])],
    "Jpeg": lambda lowest, *_: [transform("ImageCompression", quality_range=[round(lowest), 100])],
    "Elastic": _elastic,
    "Erase": _erase,
}
"""From the largest change, the colour and the side to what stands for an operation, by name."""
