"""One policy of a schedule as a pipeline of albumentations, in the JSON that A.load
reads.

The number of operations of the walk that an image gets is drawn exactly, and so is the
slot that fires first, second, and so on. These draws are independent, so the same slot
can fire twice. Operations of other stages come before and after. A magnitude with a
spread is one of a few equally likely values. Rows of operations say how each becomes
transforms (hba/operations/on_albumentations.py).
"""

import itertools
import json
import warnings
from collections.abc import Iterator, Sequence

import numpy as np
from scipy.stats import norm

from hba.errors import HbaWarning, SettingsError
from hba.exports.python_file import check_has_image_operations, generated_note
from hba.operations import Operation
from hba.operations.drawing import SIGN
from hba.operations.on_albumentations import (
    Canvas,
    Ends,
    Transform,
    color_of,
    jitter,
    transform,
)
from hba.operations.operation import WALK
from hba.policy.draw import draw_steps
from hba.policy.player import PlainRow, PlainSlot, row_at
from hba.policy.tables import tables_of
from hba.schedule.schedule import Schedule

FORMAT = "2.0.8"
"""The version of albumentations that these transforms are written for."""
N_VALUES = 3
"""Number of values of a magnitude with a spread."""
DIGITS = 6
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


def transforms_of(
    operation: Operation, ends: Ends, fill: Sequence[float], side: object = None
) -> list[Transform]:
    """Equally likely transforms for an operation.

    Args:
        operation: Its row has the function that makes them.
        ends: Between which the magnitude of an image is uniform, in ascending order.
        fill: Grey levels, one or three.
        side: Of the images in pixels, if it is a number.

    Raises:
        SettingsError: If albumentations cannot express the operation.
    """
    if operation.on_albumentations is None:
        raise _refusal(operation, "it has no such transform")
    known_side = side if isinstance(side, int) else None
    canvas = Canvas(color_of(fill), operation.interpolation, known_side)
    try:
        transforms = operation.on_albumentations(ends, canvas)
    except SettingsError as error:
        raise _refusal(operation, str(error)) from None
    is_neutral = operation.magnitude_range is not None and all(
        end == operation.identity for end in ends
    )
    return [transform("NoOp")] if is_neutral else transforms


def _refusal(operation: Operation, reason: str) -> SettingsError:
    name = operation.name
    remedy = "export to kornia or torchvision"
    if operation.stage != WALK:
        remedy = (
            f'leave it out by --without {name} (in Python, schedule.without("{name}")),'
            f" or {remedy}"
        )
    return SettingsError(
        f"albumentations cannot express {name}, because {reason}; {remedy}"
    )


def albumentations_file(schedule: Schedule, mask_fill: float = 0) -> str:
    """The pipeline's JSON, of the last epoch.

    Args:
        schedule: With operations on single images.
        mask_fill: The value of pixels of masks that operations uncover.

    Raises:
        SettingsError: For operations that albumentations cannot express.
    """
    row = row_of(schedule)
    check_has_image_operations(schedule)
    fill = tuple(round(255 * channel) for channel in schedule.fill)
    side = schedule.provenance.get("image_size")
    leaves = [
        list(_leaves(slot.operation, plain, fill, side)) if probability > 0 else []
        for slot, plain, probability in zip(
            schedule.space.slots, row.slots, row.probabilities, strict=True
        )
    ]
    walk: list[Transform] = []
    steps = draw_steps(row.probabilities[row.walk], row.limits)
    for chance, shares in reversed(steps):
        choices = [
            (leaf, share * leaf_share)
            for of_slot, share in zip(leaves[row.walk], shares, strict=True)
            for leaf, leaf_share in of_slot
        ]
        walk = _one_of(choices, chance, walk)
    alone = [
        _one_of(of_slot, probability)
        for of_slot, probability in zip(leaves, row.probabilities, strict=True)
    ]
    before = alone[: row.walk.start]
    after = alone[row.walk.stop :]
    augment = list(itertools.chain(GUARDS, *before, walk, *after))
    pipeline = transform("Compose", transforms=augment, p=1.0)
    content = {
        "__generated__": generated_note(schedule),
        "__version__": FORMAT,
        "transform": _with_mask_fill(pipeline, mask_fill),
    }
    return json.dumps(content) + "\n"


def _with_mask_fill(tree: Transform, mask_fill: float) -> Transform:
    """The transform, or the transforms inside, with this value where they uncover a
    mask.
    """
    if tree["__class_fullname__"] == "Affine":
        return {**tree, "fill_mask": mask_fill}
    if "transforms" not in tree:
        return tree
    inner = [_with_mask_fill(child, mask_fill) for child in tree["transforms"]]
    return {**tree, "transforms": inner}


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
    choice = transform("OneOf", transforms=chosen, p=1.0)
    steps = [choice, *then]
    return [transform("Sequential", transforms=steps, p=round(chance, DIGITS))]


def row_of(schedule: Schedule) -> PlainRow:
    """The policy of the last epoch, for operations. An HbaWarning if the policies of
    epochs differ.
    """
    schedule = schedule.without_regularizers()
    changes = any(
        (rows != rows[0]).any() for rows in (schedule.values, schedule.spread)
    )
    if changes:
        warnings.warn(
            "a pipeline of albumentations does not change over epochs: this is the"
            f" last, {schedule.epochs}. --epoch N and --average choose another policy"
            " (in Python, schedule.only(n) and schedule.averaged())",
            HbaWarning,
            stacklevel=4,
        )
    space = schedule.space
    operations = {operation.name: operation for operation in space.on_images}
    tables = tables_of(space, schedule.values, schedule.spread)
    return row_at(operations, tables, schedule.epochs - 1)


def _leaves(
    operation: Operation, slot: PlainSlot, fill: tuple[int, ...], side: object
) -> Iterator[tuple[Transform, float]]:
    """Transforms of a slot that has fired, and the share of each."""
    magnitudes = [slot.magnitude]
    if slot.spread:
        quantiles = norm.ppf((np.arange(N_VALUES) + 0.5) / N_VALUES)
        shares = 0.5 + 0.5 * np.tanh((slot.logit + slot.spread * quantiles) / 2)
        magnitudes = (slot.low + (slot.high - slot.low) * shares).tolist()
    for magnitude in magnitudes:
        ends = [operation.draw_magnitude(magnitude, number) for number in (0.0, 1.0)]
        low, high = sorted(ends)
        is_sign = operation.drawing == SIGN
        draws = [(high, high), (low, low)] if is_sign else [(low, high)]
        transforms = [
            leaf
            for ends_of_draw in draws
            for leaf in transforms_of(operation, ends_of_draw, fill, side)
        ]
        for leaf in transforms:
            yield leaf, 1 / (len(magnitudes) * len(transforms))
