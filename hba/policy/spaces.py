"""Search spaces by name, what their magnitudes mean, and where a search in them starts.

A search starts at one fraction of all ranges, at RandAugment's policy, or at a row of a schedule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from hba.errors import SettingsError
from hba.operations import ALL, OPERATIONS, Operation, find_operation
from hba.policy.space import SearchSpace
from hba.regularization.regularizer import LARGEST_LOGIT as LARGEST_OF_REGULARIZER
from hba.regularization.regularizer import Hyperparameter
from hba.utils.text import unknown

if TYPE_CHECKING:
    from torch import Tensor

PBA_SIDE_PIXELS = 32
"""PBA states translations and Cutout in pixels of images of this side."""

PBA_RANGES: Mapping[str, tuple[float, float] | None] = MappingProxyType(
    {
        "Rotate": (0.0, 30.0),
        "TranslateX": (0.0, 10 / PBA_SIDE_PIXELS),
        "TranslateY": (0.0, 10 / PBA_SIDE_PIXELS),
        "Brightness": (0.1, 1.9),
        "Color": (0.1, 1.9),
        "Invert": None,
        "Sharpness": (0.1, 1.9),
        "Posterize": (4.0, 0.0),
        "ShearX": (0.0, 0.3),
        "Solarize": (256.0, 0.0),
        "ShearY": (0.0, 0.3),
        "Equalize": None,
        "AutoContrast": None,
        "Cutout": (0.0, 20 / PBA_SIDE_PIXELS),
        "Contrast": (0.1, 1.9),
    }
)
"""PBA's operations in its own order, with the magnitudes at its levels 0 and 10 (Ho et al. 2019, published code)."""

SPACES: Mapping[str, SearchSpace] = MappingProxyType(
    {
        "hba": SearchSpace(),
        "pba": SearchSpace(
            tuple(OPERATIONS[name].with_range(magnitude_range) for name, magnitude_range in PBA_RANGES.items())
        ),
    }
)
"""`hba`: Table 9 of the paper. `pba`: the ranges and directions of Population Based Augmentation."""


def find_space(name: str) -> SearchSpace:
    """The search space of that exact name; SettingsError with the known names otherwise."""
    if name not in SPACES:
        raise SettingsError(unknown("search space", name, SPACES))
    return SPACES[name]


SEARCHED_COUNT = (0.2, 0.3, 0.4, 0.1)
"""Of 0, 1, 2 and 3 operations, where a search for it begins, unless it begins at RandAugment's."""


def search_space(
    name: str = "hba",
    operations: Iterable[str] | None = None,
    interpolation: str = "nearest",
    searches_count: bool = False,
    regularizers: tuple[Hyperparameter, ...] = (),
) -> SearchSpace:
    """A named space, or one over some of its operations, and over registered ones, in the order given.

    operations: names; `all` stands for those of the named space; None is all of them. interpolation: nearest or
    bilinear, of the operations that move pixels. searches_count: how many operations an image gets is any distribution
    over 0 to 3, or to as many as there are slots. regularizers: what is tuned beside the operations.
    """
    space = find_space(name)
    chosen: list[Operation] = []
    own = {operation.name: operation for operation in space.operations}
    for wanted in [ALL] if operations is None else operations:
        chosen += own.values() if wanted == ALL else [own[wanted] if wanted in own else find_operation(wanted)]
    return SearchSpace(
        tuple(operation.with_interpolation(interpolation) for operation in chosen),
        space.copies,
        _searched_count(len(chosen) * space.copies) if searches_count else space.count_probabilities,
        searches_count,
        regularizers,
    )


def without_operations(regularizers: tuple[Hyperparameter, ...]) -> SearchSpace:
    """A space of regularizers alone."""
    return SearchSpace((), count_probabilities=(1.0,), regularizers=regularizers)


def _searched_count(n_slots: int) -> tuple[float, ...]:
    """Of up to so many slots; what is wanted of more goes to the last."""
    most = min(n_slots, len(SEARCHED_COUNT) - 1)
    return (*SEARCHED_COUNT[:most], sum(SEARCHED_COUNT[most:]))


HEADINGS = ("operation", "magnitude", "unit", "no effect at", "also", "defined by")
LEGEND = (
    "sign: the magnitude is negated half of the time. nearest, bilinear: the interpolation between pixels. "
    "fill: uncovered pixels get one colour, in a search the mean colour of the training images."
)


def magnitude_table(space: SearchSpace) -> list[tuple[str, ...]]:
    """One row per operation in the space's order, with the columns of HEADINGS; LEGEND explains `also`."""
    return [_row(operation) for operation in space.operations]


def _row(operation: Operation) -> tuple[str, ...]:
    also = (
        "sign" if operation.signed else None,
        operation.interpolation,
        "fill" if operation.uses_fill else None,
    )
    return (
        operation.name,
        "-" if operation.magnitude_range is None else "{:g} to {:g}".format(*operation.magnitude_range),
        operation.unit or "-",
        "-" if operation.identity is None else f"{operation.identity:g}",
        ", ".join(word for word in also if word) or "-",
        f"PIL {operation.pil}" if operation.pil else "your function",
    )


def as_markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown, without the last line break."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


RANDAUGMENT_STRENGTH = 0.3
"""torchvision's RandAugment has magnitude 9 of 0 to 30 by default."""
RANDAUGMENT_MAGNITUDES: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        "ShearX": (0.09, 0.09),
        "ShearY": (0.09, 0.09),
        "TranslateX": (0.136, 0.136),
        "TranslateY": (0.136, 0.136),
        "Rotate": (9.0, 9.0),
        "Solarize": (178.5, 178.5),
        "Posterize": (7.0, 7.0),
        "Brightness": (1.27, 0.73),
        "Color": (1.27, 0.73),
        "Contrast": (1.27, 0.73),
        "Sharpness": (1.27, 0.73),
    }
)
"""Those of torchvision's RandAugment, in natural units, by copy. Enhancers, which have a sign there, are above 1 in the
first copy and below 1 in the second. Translations reach 150/331 of the side there.
"""
RANDAUGMENT_COUNT = (1 - 1 / 14**2, (13 / 14) ** 2 / (1 - 1 / 14**2))
"""Probabilities that one operation is applied, and then another: it draws 2 of 14, one of which does nothing."""
LARGEST_LOGIT = 3.0
"""Of a start: at the end of a range there is no gradient."""
LEAST_PROBABILITY = 0.2
"""Of operations that RandAugment lacks: what is hardly ever drawn is hardly ever judged."""


def at_fraction(space: SearchSpace, fraction: float) -> Tensor:
    """Logits (n,) of every value at the same fraction of its range, with K as in SearchSpace.initial.

    Infinite logits of K are clamped, so that they have a gradient.
    """
    logits = space.initial(fraction)
    if space.searches_count:
        of_count = logits[space.count_columns]
        of_count.nan_to_num_(neginf=-LARGEST_LOGIT, posinf=LARGEST_LOGIT)
    return logits


def randaugment(space: SearchSpace) -> Tensor:
    """Logits (n,) of RandAugment (Cubuk et al. 2020) as a policy of the space; those of operations lie within 3.

    With torchvision's defaults: all its operations are equally likely. Operations that it lacks are less likely, with a
    magnitude 0.3 of the range away from the identity. K, if it is searched, is 2 less the share of the operation that
    does nothing, and sometimes more. Magnitudes outside a range of the space start at its nearest end.
    """
    import torch

    values = torch.full((space.n,), 0.5, dtype=torch.float64)
    values[space.n_of_policy :] = _of_regularizers(space, {})
    for number, slot in enumerate(space.slots):
        operation = slot.operation
        is_its_own = operation.name in RANDAUGMENT_MAGNITUDES or operation.name in ("AutoContrast", "Equalize")
        values[slot.probability] = 0.5 if is_its_own else LEAST_PROBABILITY
        if slot.magnitude is not None:
            values[slot.magnitude] = _magnitude(operation, number % space.copies)
    if space.searches_count:
        of_count = [*RANDAUGMENT_COUNT, *[LEAST_PROBABILITY] * space.max_count][: space.max_count]
        values[space.count_columns] = torch.tensor(of_count, dtype=values.dtype)
    return _movable(space, values)


def of_row(space: SearchSpace, row: Mapping[str, float]) -> Tensor:
    """Logits (n,) of a row of another space, matched by the names of its hyperparameters; operations within 3.

    row: natural units; a value outside a range of this space starts at the range's end. If the row has fewer copies of
    an operation, they are repeated. Operations that the row lacks, and a higher K, start as in randaugment;
    regularizers at their initial values. Raises SettingsError for a row that shares no operation with the space, or no
    regularizer if the space has no operations.
    """
    import torch

    values = torch.full((space.n,), LEAST_PROBABILITY, dtype=torch.float64)
    values[space.n_of_policy :] = _of_regularizers(space, row)
    is_known = not space.operations and any(one.name in row for one in space.regularizers)
    for number, slot in enumerate(space.slots):
        name, copy = slot.operation.name, number % space.copies
        n_copies = sum(f"{name}.{one}.probability" in row for one in range(1, space.copies + 1))
        source = f"{name}.{copy % n_copies + 1 if n_copies else 0}"
        is_known |= n_copies > 0
        values[slot.probability] = row.get(f"{source}.probability", LEAST_PROBABILITY)
        if slot.magnitude is not None:
            values[slot.magnitude] = row.get(f"{source}.magnitude", _magnitude(slot.operation, copy))
    if not is_known:
        names = ", ".join(one.name for one in space.operations or space.regularizers)
        what = "operations" if space.operations else "regularizers"
        raise SettingsError(f"the schedule to begin at must have one of the {what} {names}, but has none of them")
    if space.searches_count:
        for column in range(space.n)[space.count_columns]:
            values[column] = row.get(space.names[column], LEAST_PROBABILITY)
    low, high = space.bounds(values)
    inside = values.clamp(low.minimum(high), low.maximum(high))
    return _movable(space, inside)


def _movable(space: SearchSpace, values: Tensor) -> Tensor:
    """Logits (n,) of values (n,), kept away from the ends of their ranges."""
    import torch

    most = torch.full_like(values, LARGEST_LOGIT)
    most[space.n_of_policy :] = LARGEST_OF_REGULARIZER
    return space.encode(values).clamp(-most, most).float()


def _of_regularizers(space: SearchSpace, row: Mapping[str, float]) -> Tensor:
    """Values in natural units: the row's, or else the initial ones."""
    import torch

    return torch.tensor([row.get(one.name, one.initial) for one in space.regularizers], dtype=torch.float64)


def _magnitude(operation: Operation, copy: int) -> float:
    assert operation.magnitude_range is not None
    low, high = sorted(operation.magnitude_range)
    end = strong_end(operation, copy)
    if operation.name in RANDAUGMENT_MAGNITUDES:
        wanted = RANDAUGMENT_MAGNITUDES[operation.name][copy % 2]
    elif operation.identity is None or end is None:
        wanted = (low + high) / 2
    else:
        wanted = operation.identity + RANDAUGMENT_STRENGTH * (end - operation.identity)
    return min(max(wanted, low), high)


def strong_end(operation: Operation, copy: int) -> float | None:
    """The end of a magnitude's range that is away from the identity, for a copy counted from 0.

    If the identity lies inside the range, even copies have the upper end, odd ones the lower. None without an identity.
    """
    assert operation.magnitude_range is not None
    low, high = sorted(operation.magnitude_range)
    nothing = operation.identity
    if nothing is None:
        return None
    if low < nothing < high:
        return low if copy % 2 else high
    return low if abs(low - nothing) > abs(high - nothing) else high
