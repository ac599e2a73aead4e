"""Starting points of a search: one fraction for all ranges, RandAugment's policy, or a row of a schedule."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from hba.errors import SettingsError
from hba.operations import Operation
from hba.policy.space import SearchSpace
from hba.regularization.regularizer import LARGEST_LOGIT as LARGEST_OF_REGULARIZER

if TYPE_CHECKING:
    from torch import Tensor

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
