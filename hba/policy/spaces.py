"""Search spaces by name, the ranges of their magnitudes, and where a search in them
starts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from hba.errors import SettingsError
from hba.operations import ALL, OPERATIONS, STAGED, Operation, find_operation
from hba.operations.operation import WALK
from hba.policy.space import LARGEST_LOGIT, SearchSpace
from hba.regularization.regularizer import (
    LARGEST_LOGIT as LARGEST_OF_REGULARIZER,
    Hyperparameter,
)
from hba.utils.text import unknown

if TYPE_CHECKING:
    from torch import Tensor

PBA = (
    "Rotate",
    "TranslateX",
    "TranslateY",
    "Brightness",
    "Color",
    "Invert",
    "Sharpness",
    "Posterize",
    "ShearX",
    "Solarize",
    "ShearY",
    "Equalize",
    "AutoContrast",
    "Cutout",
    "Contrast",
)
"""PBA's operations in PBA's order; their rows have their magnitudes."""

RECIPE = (
    "HorizontalFlip",
    "VerticalFlip",
    "QuarterTurn",
    "ResizedCrop",
    "PaddedCrop",
    "BrightnessJitter",
    "ContrastJitter",
    "Hue",
    "Saturation",
    "Blur",
    "Noise",
    "Erase",
    "Mixup",
    "CutMix",
)
"""Operations of the space `recipe` besides the walk: those that people choose by hand
for their images.
"""

STN = (
    "Zoom",
    "Shear",
    "Rotation",
    "PaddedCrop",
    "BrightnessJitter",
    "ContrastJitter",
    "Saturation",
    "Hue",
    "Erase",
)
"""Operations that Self-Tuning Networks tune: STN's (Appendix E, Erase for Cutout), and
Delta-STN's affine maps.
"""


def _with_pba_range(operation: Operation) -> Operation:
    magnitudes = operation.pba
    ends = None if magnitudes is None else (magnitudes.first, magnitudes.last)
    return operation.with_range(ends)


SPACES: Mapping[str, SearchSpace] = {
    "hba": SearchSpace(),
    "pba": SearchSpace(tuple(_with_pba_range(OPERATIONS[name]) for name in PBA)),
    "recipe": SearchSpace(
        (
            *(row for row in OPERATIONS.values() if row.name != "Cutout"),
            *(STAGED[name] for name in RECIPE),
        )
    ),
    "stn": SearchSpace(
        tuple(row for row in STAGED.values() if row.name in STN), 2, (1.0,), always=True
    ),
    "full": SearchSpace((*OPERATIONS.values(), *STAGED.values())),
}
"""`hba`: Table 9 of the paper. `pba`: the ranges and directions of Population Based
Augmentation. `recipe`: the walk of hba with Erase instead of Cutout, and RECIPE. `stn`:
STN, all on every image. `full`: all operations of hba.
"""


SEARCHED_COUNT = (0.2, 0.3, 0.4, 0.1)
"""Probabilities of 0, 1, 2 and 3 operations at which a search of K begins, unless it
begins at RandAugment.
"""


def search_space(
    name: str = "hba",
    operations: Iterable[str] | None = None,
    interpolation: str = "nearest",
    searches_count: bool = False,
    regularizers: tuple[Hyperparameter, ...] = (),
    ranges: Mapping[str, tuple[float, float]] | None = None,
) -> SearchSpace:
    """Return a named search space, or one with only some of its operations, or with
    registered ones.

    operations: names, in order; `all` stands for all of the named space, `-Name` leaves
    one out; None means all. interpolation: nearest or bilinear, for operations of the
    walk that move pixels. searches_count: whether to search the number of operations of
    the walk on an image, with any distribution over 0 to 3, or to the number of slots
    if smaller. regularizers: hyperparameters tuned besides the operations. ranges:
    (first, last) magnitude by operation.
    """
    if name not in SPACES:
        raise SettingsError(unknown("search space", name, SPACES))
    space = SPACES[name]
    chosen = _chosen(space, [ALL] if operations is None else list(operations))
    for operation_name, magnitudes in (ranges or {}).items():
        chosen[operation_name] = _ranged(
            _named(operation_name, chosen, "ranges"), magnitudes
        )
    n_slots = space.copies * sum(
        operation.stage == WALK for operation in chosen.values()
    )
    count = SearchSpace.count_probabilities if n_slots else (1.0,)
    if searches_count and n_slots:
        # The largest possible number gets the probability of all larger ones.
        most = min(n_slots, len(SEARCHED_COUNT) - 1)
        count = (*SEARCHED_COUNT[:most], sum(SEARCHED_COUNT[most:]))
    operations_of_space = tuple(
        operation.with_interpolation(interpolation) for operation in chosen.values()
    )
    return SearchSpace(
        operations_of_space,
        space.copies,
        count,
        searches_count and n_slots > 0,
        regularizers,
        space.always,
    )


def _chosen(space: SearchSpace, names: list[str]) -> dict[str, Operation]:
    """The operations of a list, by name. If the list begins with a name to leave out,
    it starts from all operations.
    """
    # A registered operation replaces an operation outside the walk that has its name.
    of_space = {
        operation.name: operation
        if operation.stage == WALK
        else find_operation(operation.name)
        for operation in space.operations
    }
    chosen: dict[str, Operation] = {}
    for name in [ALL, *names] if names and names[0].startswith("-") else names:
        # Look up names to leave out too, so that the error for an unknown name says so.
        named = (
            of_space.values()
            if name == ALL
            else [of_space.get(name) or find_operation(name.removeprefix("-"))]
        )
        for operation in () if name.startswith("-") else named:
            if operation.name in chosen:
                raise SettingsError(
                    f"operations must name each operation once, got {operation.name}"
                    " twice"
                )
            chosen[operation.name] = operation
    for name in (name.removeprefix("-") for name in names if name.startswith("-")):
        if chosen.pop(name, None) is None:
            raise SettingsError(
                f"operations must contain what they leave out, got -{name}; omit it"
            )
    if not chosen:
        raise SettingsError(
            "operations must be at least one, got none from"
            f" {','.join(names) or 'an empty list'}"
        )
    return chosen


def _named(name: str, operations: Mapping[str, Operation], setting: str) -> Operation:
    if name not in operations:
        raise SettingsError(
            f"{setting} must name operations of the search:"
            f" {unknown('operation', name, operations)}"
        )
    return operations[name]


def _ranged(operation: Operation, magnitudes: tuple[float, float]) -> Operation:
    """Return the operation with another range. Raises SettingsError for magnitudes
    without a meaning.

    On the walk, magnitudes may be larger than in hba's spaces. Others are largest
    changes, and shares.
    """
    usual_range = operation.magnitude_range
    if usual_range is None:
        raise SettingsError(
            f"ranges must name operations with a magnitude, but {operation.name} has"
            " none"
        )
    least = min(0.0, *usual_range) if operation.stage == WALK else min(usual_range)
    most = max(usual_range)
    if not all(
        least <= end <= (math.inf if operation.stage == WALK else most)
        for end in magnitudes
    ):
        limits = (
            f"be at least {least:g}"
            if operation.stage == WALK
            else f"lie in [{least:g}, {most:g}]"
        )
        raise SettingsError(
            f"ranges of {operation.name} must {limits}, got"
            f" {magnitudes[0]:g}:{magnitudes[1]:g}"
        )
    return operation.with_range(magnitudes)


def started(
    space: SearchSpace, logits: Tensor, start: Mapping[str, float] | None
) -> Tensor:
    """Replace the logits (n,) of some operations at the start; the new ones lie within
    3.

    start: the value of all copies in natural units, by `Name` or `Name.probability` and
    `Name.magnitude`. Raises SettingsError for a name that is not in the space, and for
    a value outside its range.
    """
    logits = logits.clone()
    names = space.names
    operations = {operation.name: operation for operation in space.operations}
    for key, value in (start or {}).items():
        name, _, quantity = key.partition(".")
        quantity = quantity or "probability"
        operation = _named(name, operations, "start")
        columns = [
            names.index(column)
            for prefix in space.prefixes(operation)
            if (column := f"{prefix}.{quantity}") in names
        ]
        if not columns:
            quantities = (
                "probability"
                if operation.magnitude_range is None
                else "probability and magnitude"
            )
            raise SettingsError(
                f"start must name values of an operation; {name} has {quantities},"
                f" got {key}"
            )
        first, last = space.ranges[columns[0]]
        low, high = sorted((first, last))
        if not low <= value <= high:
            raise SettingsError(
                f"start of {name}.{quantity} must lie in [{low:g}, {high:g}], got"
                f" {value:g}"
            )
        place = (value - first) / (last - first) if low < high else 0.5
        # Stay away from the ends, where the gradient vanishes.
        end = 1 / (1 + math.exp(LARGEST_LOGIT))
        place = min(max(place, end), 1 - end)
        logits[columns] = math.log(place / (1 - place))
    return logits


RANDAUGMENT_STRENGTH = 0.3
"""Share of a range: torchvision's RandAugment has magnitude 9 of 0 to 30 by default."""
RANDAUGMENT_COUNT = (1 - 1 / 14**2, (13 / 14) ** 2 / (1 - 1 / 14**2))
"""Probabilities of a first operation, and of a second: RandAugment draws 2 of 14, one
of which does nothing.
"""
LEAST_PROBABILITY = 0.2
"""Initial probability of operations that RandAugment lacks. A search learns little
about what it rarely draws.
"""


def randaugment(space: SearchSpace) -> Tensor:
    """Logits (n,) of RandAugment (Cubuk et al. 2020) as a policy of the space; those of
    operations lie within 3.

    It has torchvision's defaults: all its operations are equally likely. Operations
    that it lacks are less likely, and their magnitude is 0.3 of the range away from the
    identity. K, if it is searched, is 2, minus the share of the operation that does
    nothing, and sometimes more. Magnitudes outside a range start at the nearest end.
    """
    counts = {
        f"count.{k}.probability": probability
        for k, probability in enumerate(RANDAUGMENT_COUNT, 1)
    }
    probabilities = {
        f"{operation.name}.1.probability": 0.5
        for operation in space.operations
        if operation.randaugment is not None
    }
    return _start(space, probabilities | counts)


def of_row(space: SearchSpace, row: Mapping[str, float]) -> Tensor:
    """Logits (n,) of a policy of another space, matched by the names of
    hyperparameters; operations lie within 3.

    row: the values in natural units. A value outside a range of this space starts at
    the nearest end. If the policy has fewer copies of an operation, they are repeated.
    Operations that it lacks, and a higher K, start as in randaugment; regularizers
    start at their initial values. If all probabilities of the policy are 0, it augments
    nothing, and those of all operations start at 0. Raises SettingsError if any other
    policy shares no operation with the space, or no regularizer if the space has no
    operations.
    """
    probabilities = [
        value for name, value in row.items() if name.endswith(".probability")
    ]
    if space.operations and probabilities and not any(probabilities):
        return _start(space, row, least_probability=0.0)
    possible = {
        f"{space.prefixes(member)[0]}.probability": member.name
        for member in space.operations
    }
    possible = possible or {member.name: member.name for member in space.regularizers}
    if possible.keys().isdisjoint(row):
        raise SettingsError(
            "init_from must be a schedule with at least one of"
            f" {', '.join(possible.values())}"
        )
    return _start(space, row)


def _start(
    space: SearchSpace,
    row: Mapping[str, float],
    least_probability: float = LEAST_PROBABILITY,
) -> Tensor:
    """Logits (n,) of values that may be incomplete, kept away from the ends of ranges,
    where the gradient vanishes.

    least_probability: of operations that are not in the row, and of a higher K.
    """
    import torch

    values = torch.tensor(
        [row.get(name, least_probability) for name in space.names], dtype=torch.float64
    )
    for slot in space.slots:
        name = slot.operation.name
        source = slot.prefix
        if slot.operation.stage == WALK:
            n_copies = sum(
                f"{name}.{number}.probability" in row
                for number in range(1, space.copies + 1)
            )
            source = f"{name}.{slot.copy % n_copies + 1 if n_copies else 0}"
        values[slot.probability] = row.get(f"{source}.probability", least_probability)
        if slot.magnitude is not None:
            values[slot.magnitude] = row.get(
                f"{source}.magnitude", _magnitude(slot.operation, slot.copy)
            )
    for column, regularizer in enumerate(space.regularizers, space.n_of_policy):
        values[column] = row.get(regularizer.name, regularizer.initial)
    low, high = space.bounds(values.dtype, values.device)
    most = torch.full_like(values, LARGEST_LOGIT)
    most[space.n_of_policy :] = LARGEST_OF_REGULARIZER
    return (
        space.encode(values.clamp(low.minimum(high), low.maximum(high)))
        .clamp(-most, most)
        .float()
    )


def _magnitude(operation: Operation, copy: int) -> float:
    """RandAugment's magnitude, or else RANDAUGMENT_STRENGTH of the range; the caller
    clamps it into the range.
    """
    assert operation.magnitude_range is not None
    if operation.randaugment:
        return operation.randaugment[copy % len(operation.randaugment)]
    end = strong_end(operation, copy)
    if operation.neutral is None or end is None:
        return sum(operation.magnitude_range) / 2
    return operation.neutral + RANDAUGMENT_STRENGTH * (end - operation.neutral)


def strong_end(operation: Operation, copy: int) -> float | None:
    """The end of a magnitude's range that is farther from the neutral one, for a copy
    counted from 0.

    If that lies inside the range, even copies get the upper end, odd ones the lower.
    None without an identity.
    """
    assert operation.magnitude_range is not None
    low, high = sorted(operation.magnitude_range)
    nothing = operation.neutral
    if nothing is None:
        return None
    is_low = (
        copy % 2 == 1
        if low < nothing < high
        else abs(low - nothing) > abs(high - nothing)
    )
    return low if is_low else high
