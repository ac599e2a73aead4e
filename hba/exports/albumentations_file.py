"""One row of a schedule as a pipeline of albumentations, in the JSON that its A.load reads.

How many operations an image gets is drawn exactly, and so is which slot fires first, second, and so on, each by itself.
These draws are independent, so the same slot can fire twice. A magnitude that is spread takes one of a few values that
stand for equal shares of its distribution.

Convention:
    A transform is a JSON object as albumentations.to_dict writes it; arguments that it leaves out have their defaults.
    Every range has one value, so nothing but the place of a hole is drawn. Magnitudes are signed, in hba's units.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.stats import norm

from hba.errors import SettingsError
from hba.exports.torchvision_file import refuse_own
from hba.operations import OPERATIONS, Operation
from hba.policy.rates import draw_steps
from hba.policy.single_image import PlainRow, PlainSlot, plain_row
from hba.schedule.schedule import Schedule

FORMAT = "2.0.8"
"""The version of albumentations whose transforms these are."""
N_VALUES = 3
"""Of a magnitude that is spread."""
DIGITS = 6

Transform = dict[str, Any]
Color = tuple[float, ...]
"""Grey levels, one or three."""

NEAREST, LINEAR = 0, 1
"""Of OpenCV's interpolations."""
SMOOTH_WEIGHTS = 13
"""Sum of the weights of PIL's SMOOTH, of which eight of nine are 1."""


class Leaf(NamedTuple):
    """transform: from the operation, a magnitude and the fill colour. said: why it differs; nothing where it does not.

    is_compared: whether it can be done at the places where hba's operation is tried; elsewhere means of many draws are.
    """

    transform: Callable[[Operation, float, Color], Transform]
    said: str = ""
    is_compared: bool = True


def transform(name: str, **arguments: Any) -> Transform:
    return {"__class_fullname__": name, **arguments}


def _fixed(value: float) -> list[float]:
    return [value, value]


def _affine(operation: Operation, fill: Color, **arguments: Any) -> Transform:
    interpolation = LINEAR if operation.interpolation == "bilinear" else NEAREST
    return transform("Affine", interpolation=interpolation, fill=_color(fill), **arguments)


def is_grey(fill: Sequence[float]) -> bool:
    """Whether one number is the colour, whatever channels an image has."""
    return len(set(fill)) == 1


def _color(fill: Color) -> Any:
    """CoarseDropout refuses three numbers for a grey image."""
    return fill[0] if is_grey(fill) else list(fill)


def _shear(axis: str, operation: Operation, factor: float, fill: Color) -> Transform:
    """About the middle; moved back to where the first row or column stays, in an image as high as wide."""
    other = "y" if axis == "x" else "x"
    shear = {axis: _fixed(math.degrees(math.atan(factor))), other: _fixed(0.0)}
    return _affine(operation, fill, shear=shear, translate_percent={axis: _fixed(-factor / 2), other: _fixed(0.0)})


def _translate(axis: str, operation: Operation, fraction: float, fill: Color) -> Transform:
    other = "y" if axis == "x" else "x"
    return _affine(operation, fill, translate_percent={axis: _fixed(-fraction), other: _fixed(0.0)})


def _rotate(operation: Operation, degrees: float, fill: Color) -> Transform:
    return _affine(operation, fill, rotate=_fixed(degrees))


def _solarize(operation: Operation, threshold: float, fill: Color) -> Transform:
    first = math.ceil(threshold)
    return transform("Solarize", threshold_range=_fixed(first / 255)) if first <= 255 else transform("NoOp")


def _posterize(operation: Operation, bits: float, fill: Color) -> Transform:
    kept = min(8, max(1, round(bits)))
    return transform("Posterize", num_bits=_fixed(kept)) if kept < 8 else transform("NoOp")


def _jitter(which: str) -> Callable[[Operation, float, Color], Transform]:
    others = {"brightness": _fixed(1.0), "contrast": _fixed(1.0), "saturation": _fixed(1.0), "hue": _fixed(0.0)}
    return lambda operation, factor, fill: transform("ColorJitter", **{**others, which: _fixed(factor)})


def _sharpness(operation: Operation, factor: float, fill: Color) -> Transform:
    """Above 1 PIL's blend is a convolution that Sharpen can do. Below, a Gaussian has the same weight in the middle."""
    if factor >= 1:
        alpha = (factor - 1) / SMOOTH_WEIGHTS
        return transform("Sharpen", alpha=_fixed(alpha), lightness=_fixed(1.0), method="kernel")
    middle = 1 - 8 * (1 - factor) / SMOOTH_WEIGHTS
    beside = (1 / math.sqrt(middle) - 1) / 2
    sigma = math.sqrt(-1 / (2 * math.log(beside)))
    return transform("GaussianBlur", blur_limit=[3, 3], sigma_limit=_fixed(sigma))


def _cutout(operation: Operation, size: float, fill: Color) -> Transform:
    sides = {"hole_height_range": _fixed(size), "hole_width_range": _fixed(size)}
    return transform("CoarseDropout", num_holes_range=[1, 1], fill=_color(fill), **sides)


_SHEARED = "moved by whole pixels, and exact for square images only"
_SHIFTED = "shifts are cut to whole pixels, hba rounds them"
_ROUNDED = "other rounding"
LEAVES: Mapping[str, Leaf] = MappingProxyType(
    {
        "ShearX": Leaf(partial(_shear, "x"), _SHEARED),
        "ShearY": Leaf(partial(_shear, "y"), _SHEARED),
        "TranslateX": Leaf(partial(_translate, "x"), _SHIFTED),
        "TranslateY": Leaf(partial(_translate, "y"), _SHIFTED),
        "Rotate": Leaf(_rotate, "OpenCV rounds places otherwise"),
        "AutoContrast": Leaf(lambda *_: transform("AutoContrast", method="pil"), _ROUNDED),
        "Invert": Leaf(lambda *_: transform("InvertImg")),
        "Equalize": Leaf(lambda *_: transform("Equalize", mode="pil"), "counts a level among those darker than it"),
        "Solarize": Leaf(_solarize),
        "Posterize": Leaf(_posterize),
        "Contrast": Leaf(_jitter("contrast"), _ROUNDED),
        "Color": Leaf(_jitter("saturation"), _ROUNDED),
        "Brightness": Leaf(_jitter("brightness")),
        "Sharpness": Leaf(_sharpness, "filters the border too; below 1, by a Gaussian"),
        "Cutout": Leaf(_cutout, "a rectangle of the image's shape, wholly inside the image", is_compared=False),
    }
)
"""By name of the operation."""


def albumentations_file(schedule: Schedule) -> str:
    """The pipeline's JSON. Raises SettingsError for a schedule of more than one policy, and for operations of one's
    own.
    """
    refuse_own(schedule.space.operations, lambda operation: operation.name if operation.name in OPERATIONS else "")
    row = row_of(schedule)
    fill = tuple(round(255 * channel) for channel in schedule.fill)
    augment: list[Transform] = []
    for step in reversed(draw_steps(row.probabilities, row.limits)):
        leaves = [
            {**leaf, "p": round(share * part, DIGITS)}
            for slot, share in zip(row.slots, step.shares, strict=True)
            for leaf, part in _leaves(slot, fill)
            if round(share * part, DIGITS) > 0
        ]
        if leaves:
            one = transform("OneOf", transforms=leaves, p=1.0)
            augment = [transform("Sequential", transforms=[one, *augment], p=round(step.chance, DIGITS))]
    return json.dumps({"__version__": FORMAT, "transform": transform("Compose", transforms=augment, p=1.0)}) + "\n"


def row_of(schedule: Schedule) -> PlainRow:
    """The only one, of the operations; SettingsError where rows differ."""
    schedule = schedule.without_regularizers()
    if (schedule.values != schedule.values[0]).any() or (schedule.spread != schedule.spread[0]).any():
        raise SettingsError(
            f"a pipeline of albumentations does not change over epochs, and the schedule has {schedule.epochs}: choose "
            "one policy, --epoch N or --average (in Python, schedule.only(n) or schedule.averaged())"
        )
    values, spread = (torch.tensor(rows[0], dtype=torch.float32) for rows in (schedule.values, schedule.spread))
    return plain_row(schedule.space, values, spread if spread.any() else None)


def _leaves(slot: PlainSlot, fill: tuple[int, ...]) -> Iterator[tuple[Transform, float]]:
    """Transforms of a slot that has fired, and the share of each."""
    signs = (1, -1) if slot.operation.signed else (1,)
    magnitudes = _magnitudes(slot)
    for magnitude in magnitudes:
        for sign in signs:
            found = LEAVES[slot.operation.name].transform(slot.operation, sign * magnitude, fill)
            yield found, 1 / (len(magnitudes) * len(signs))


def _magnitudes(slot: PlainSlot) -> list[float]:
    if not slot.spread:
        return [slot.magnitude]
    at = norm.ppf((np.arange(N_VALUES) + 0.5) / N_VALUES)
    shares = 0.5 + 0.5 * np.tanh((slot.logit + slot.spread * at) / 2)
    return [float(slot.low + (slot.high - slot.low) * share) for share in shares]
