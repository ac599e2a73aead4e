"""One policy of a schedule as a pipeline of albumentations, in the JSON that A.load
reads.

The number of operations of the walk that an image gets is drawn exactly, and so is the
slot that fires first, second, and so on. These draws are independent, so the same slot
can fire twice. Operations of other stages (hba/operations/on_albumentations.py) come before and
after. A magnitude with a spread is one of a few equally likely values.

Convention:
    A transform is a JSON object as albumentations.to_dict writes it; arguments that it
        omits have their defaults.
    In the walk, ranges have one value: only the place of a hole is drawn. Magnitudes
        are signed, in hba's units.
"""

import itertools
import json
import math
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from scipy.stats import norm

from hba.errors import HbaWarning
from hba.exports.python_file import builtin_operations, generated_note
from hba.operations import Operation
from hba.operations.on_albumentations import (
    Transform,
    color_of,
    jitter,
    transform,
    transforms_up_to,
)
from hba.operations.operation import WALK
from hba.policy.draw import draw_steps
from hba.policy.single_image import PlainRow, PlainSlot, plain_row
from hba.schedule.schedule import Schedule

FORMAT = "2.0.8"
"""The version of albumentations that these transforms are written for."""
N_VALUES = 3
"""Number of values of a magnitude with a spread."""
DIGITS = 6
SMOOTH_WEIGHTS = 13
"""Sum of the weights of PIL's SMOOTH, of which eight of nine are 1."""
_TO_BYTES = [transform("ToFloat", p=1.0), transform("FromFloat", dtype="uint8", p=1.0)]
_BATCHES = dict.fromkeys(("images", "volume", "volumes"), "image")
GUARDS = [
    transform("Compose", transforms=_TO_BYTES, additional_targets=_BATCHES, p=1.0),
    {**jitter(), "p": 1.0},
]
"""First, floats in [0, 1] and uint16 become uint8, because fill colours are grey
levels; FromFloat does so for a batch that it takes as one image. Then a jitter that
changes nothing refuses images that do not have 1 or 3 channels.
"""


def _fixed(value: float) -> list[float]:
    return [value, value]


def _affine(operation: Operation, magnitude: float, color: Any) -> Transform:
    def along(value: float) -> dict[str, list[float]]:
        return {
            "x": _fixed(0.0),
            "y": _fixed(0.0),
            operation.name[-1].lower(): _fixed(value),
        }

    if operation.name == "Rotate":
        moves: dict[str, Any] = {"rotate": _fixed(magnitude)}
    elif operation.name.startswith("Translate"):
        moves = {"translate_percent": along(-magnitude)}
    else:
        # Shear about the middle, then shift so that the first row or column of a square
        # image stays in place.
        moves = {
            "shear": along(math.degrees(math.atan(magnitude))),
            "translate_percent": along(-magnitude / 2),
        }
    return transform(
        "Affine",
        interpolation=int(operation.interpolation == "bilinear"),
        fill=color,
        **moves,
    )


def transform_of(
    operation: Operation, magnitude: float, fill: Sequence[float]
) -> Transform:
    """The transform of one of hba's operations. fill: grey levels, one or three."""
    color = color_of(fill)
    if operation.interpolation:
        return _affine(operation, magnitude, color)
    match operation.name:
        case "AutoContrast":
            return transform("AutoContrast", method="pil")
        case "Equalize":
            return transform("Equalize", mode="pil")
        case "Invert":
            return transform("InvertImg")
        case "Solarize":
            first = math.ceil(magnitude)
            return (
                transform("Solarize", threshold_range=_fixed(first / 255))
                if first <= 255
                else transform("NoOp")
            )
        case "Posterize":
            bits = min(8, max(1, round(magnitude)))
            return (
                transform("Posterize", num_bits=_fixed(bits))
                if bits < 8
                else transform("NoOp")
            )
        case "Brightness" | "Contrast" | "Color":
            changed = (
                "saturation" if operation.name == "Color" else operation.name.lower()
            )
            return jitter(**{changed: _fixed(magnitude)})
        case "Sharpness" if magnitude >= 1:
            # PIL's blend is a convolution that Sharpen can do.
            alpha = (magnitude - 1) / SMOOTH_WEIGHTS
            return transform(
                "Sharpen", alpha=_fixed(alpha), lightness=_fixed(1.0), method="kernel"
            )
        case "Sharpness":
            # A Gaussian with the same weight in the middle.
            middle = 1 - 8 * (1 - magnitude) / SMOOTH_WEIGHTS
            sigma = math.sqrt(-1 / (2 * math.log((1 / math.sqrt(middle) - 1) / 2)))
            return transform(
                "GaussianBlur", blur_limit=[3, 3], sigma_limit=_fixed(sigma)
            )
        case _:  # Cutout
            sides = {
                "hole_height_range": _fixed(magnitude),
                "hole_width_range": _fixed(magnitude),
            }
            return transform(
                "CoarseDropout", num_holes_range=[1, 1], fill=color, **sides
            )


def albumentations_file(schedule: Schedule, mask_fill: float = 0) -> str:
    """The pipeline's JSON, of the last epoch. SettingsError for your own operations,
    and those it cannot express.

    mask_fill: the value of pixels of masks that operations uncover.
    """
    row = row_of(schedule)
    builtin_operations(schedule)
    fill = tuple(round(255 * channel) for channel in schedule.fill)
    side = schedule.provenance.get("image_size")
    slots = zip(row.slots, row.probabilities, strict=True)
    leaves = [
        list(_leaves(slot, fill, side)) if chance > 0 else [] for slot, chance in slots
    ]
    augment: list[Transform] = []
    for chance, shares in reversed(draw_steps(row.probabilities[row.walk], row.limits)):
        of_slots = zip(leaves[row.walk], shares, strict=True)
        augment = _one_of(
            [(leaf, share * part) for own, share in of_slots for leaf, part in own],
            chance,
            augment,
        )
    alone = [
        _one_of(one, chance)
        for one, chance in zip(leaves, row.probabilities, strict=True)
    ]
    before, after = alone[: row.walk.start], alone[row.walk.stop :]
    augment = list(itertools.chain(GUARDS, *before, augment, *after))
    pipeline = transform("Compose", transforms=augment, p=1.0)
    content = {
        "__generated__": generated_note(schedule),
        "__version__": FORMAT,
        "transform": _with_mask_fill(pipeline, mask_fill),
    }
    return json.dumps(content) + "\n"


def _with_mask_fill(one: Transform, mask_fill: float) -> Transform:
    """The transform, or the transforms inside, with this value where they uncover a
    mask.
    """
    if one["__class_fullname__"] == "Affine":
        return {**one, "fill_mask": mask_fill}
    if "transforms" not in one:
        return one
    return {
        **one,
        "transforms": [
            _with_mask_fill(inner, mask_fill) for inner in one["transforms"]
        ],
    }


def _one_of(
    leaves: list[tuple[Transform, float]], chance: float, then: Sequence[Transform] = ()
) -> list[Transform]:
    """With probability `chance`, one of the leaves by their shares, then `then`; empty
    if nothing can happen.
    """
    chosen = [
        {**leaf, "p": round(share, DIGITS)}
        for leaf, share in leaves
        if round(share, DIGITS) > 0
    ]
    if not chosen or round(chance, DIGITS) == 0:
        return []
    if len(chosen) == 1 and not then:
        return [{**chosen[0], "p": round(chance, DIGITS)}]
    one = transform("OneOf", transforms=chosen, p=1.0)
    return [transform("Sequential", transforms=[one, *then], p=round(chance, DIGITS))]


def row_of(schedule: Schedule) -> PlainRow:
    """The policy of the last epoch, for operations. An HbaWarning if the policies of
    epochs differ.
    """
    schedule = schedule.without_regularizers()
    if (schedule.values != schedule.values[0]).any() or (
        schedule.spread != schedule.spread[0]
    ).any():
        text = (
            "a pipeline of albumentations does not change over epochs: this is the"
            f" last, {schedule.epochs}"
        )
        remedy = (
            "--epoch N and --average choose another policy (in Python, schedule.only(n)"
            " and schedule.averaged())"
        )
        warnings.warn(f"{text}. {remedy}", HbaWarning, stacklevel=4)
    values, spread = (
        torch.tensor(rows[-1], dtype=torch.float32)
        for rows in (schedule.values, schedule.spread)
    )
    return plain_row(schedule.space, values, spread if spread.any() else None)


def _leaves(
    slot: PlainSlot, fill: tuple[int, ...], side: Any
) -> Iterator[tuple[Transform, float]]:
    """Transforms of a slot that has fired, and the share of each."""
    magnitudes = [slot.magnitude]
    if slot.spread:
        at = norm.ppf((np.arange(N_VALUES) + 0.5) / N_VALUES)
        shares = 0.5 + 0.5 * np.tanh((slot.logit + slot.spread * at) / 2)
        magnitudes = (slot.low + (slot.high - slot.low) * shares).tolist()
    for magnitude in magnitudes:
        if slot.operation.stage == WALK:
            signed = (magnitude, -magnitude) if slot.operation.signed else (magnitude,)
            found = [transform_of(slot.operation, one, fill) for one in signed]
        else:
            found = transforms_up_to(slot.operation, magnitude, fill, side)
        for one in found:
            yield one, 1 / (len(magnitudes) * len(found))
