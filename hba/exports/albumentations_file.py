"""One row of a schedule as a pipeline of albumentations, in the JSON that its A.load reads.

How many operations an image gets is drawn exactly, and so is which slot fires first, second, and so on, each by itself.
The draws of one image do not know of each other, so the same slot can fire twice. A magnitude that is spread takes one
of a few values that stand for equal shares of its distribution.
"""

import json
from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import norm

from hba.errors import SettingsError
from hba.exports.albumentations_leaves import LEAVES, Transform, transform
from hba.exports.python_file import refuse_own
from hba.operations import OPERATIONS
from hba.policy.rates import draw_steps
from hba.policy.single_image import PlainRow, PlainSlot, plain_row
from hba.schedule.schedule import Schedule

FORMAT = "2.0.8"
"""The version of albumentations whose transforms these are."""
N_VALUES = 3
"""Of a magnitude that is spread."""
DIGITS = 6


def albumentations_file(schedule: Schedule) -> str:
    """The pipeline's JSON. Raises SettingsError for a schedule of more than one policy, and for operations of one's
    own.
    """
    refuse_own(schedule.space.operations, lambda operation: operation.name if operation.name in OPERATIONS else "")
    row = row_of(schedule)
    fill = tuple(round(255 * channel) for channel in schedule.fill)
    augment: list[Transform] = []
    for stage in reversed(draw_steps(row.probabilities, row.limits)):
        leaves = [
            {**leaf, "p": round(share * part, DIGITS)}
            for slot, share in zip(row.slots, stage.shares, strict=True)
            for leaf, part in _leaves(slot, fill)
            if round(share * part, DIGITS) > 0
        ]
        if leaves:
            one = transform("OneOf", transforms=leaves, p=1.0)
            augment = [transform("Sequential", transforms=[one, *augment], p=round(stage.chance, DIGITS))]
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


def twice(row: PlainRow) -> float:
    """The share of images that get a slot more than once by the pipeline, which hba never does."""
    stages = draw_steps(row.probabilities, row.limits)
    reached = [*np.cumprod([stage.chance for stage in stages]), 0.0]
    return sum(
        (reached[step] - reached[step + 1]) * (1 - _all_differ([stage.shares for stage in stages[: step + 1]]))
        for step in range(len(stages))
    )


def _all_differ(shares: list[NDArray[np.float64]]) -> float:
    """The chance that draws by these shares, each by itself, are all of different slots."""
    first, *others = shares
    if not others:
        return float(first.sum())
    chance = 0.0
    for slot, share in enumerate(first):
        left = [one.copy() for one in others]
        for one in left:
            one[slot] = 0.0
        chance += share * _all_differ(left)
    return float(chance)


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
