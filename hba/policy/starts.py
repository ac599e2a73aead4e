"""Where a search can begin: one value for all, the policy that a user has for nothing, or a row of a schedule."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from hba.errors import SettingsError
from hba.operations import Operation
from hba.policy.space import SearchSpace
from hba.regularization.hyperparameter import LARGEST_LOGIT as LARGEST_OF_REGULARIZER

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
"""In natural units, of torchvision's RandAugment. What has a sign there is above 1 in the first copy, below in the
second, and so on. Translations reach 150/331 of the side there.
"""
RANDAUGMENT_COUNT = (1 - 1 / 14**2, (13 / 14) ** 2 / (1 - 1 / 14**2))
"""It draws 2 of 14 operations, one of which does nothing: how likely one is applied, and then another."""
LARGEST_LOGIT = 3.0
"""Of a start: what begins at an end of its range could not be told to move."""
LEAST_PROBABILITY = 0.2
"""Of what RandAugment never does, for the same reason: what hardly ever happens is hardly ever judged."""


def at_fraction(space: SearchSpace, fraction: float) -> Tensor:
    """Logits (n,) of every value at the same fraction of its range, and of K as SearchSpace.initial has it.

    A certain K begins where it can be moved.
    """
    logits = space.initial(fraction)
    if space.searches_count:
        of_count = logits[space.count_columns]
        of_count.nan_to_num_(neginf=-LARGEST_LOGIT, posinf=LARGEST_LOGIT)
    return logits


def randaugment(space: SearchSpace) -> Tensor:
    """Logits (n,), of operations within 3, of RandAugment (Cubuk et al. 2020) as a policy of the space.

    By torchvision's defaults, all its operations are equally likely. Those that it has not are less so, with a
    magnitude of 0.3 of the range from doing nothing. K, where it is searched, is 2 but for the share of its operation
    that does nothing; sometimes more. What the space has no room for begins at the nearest that it has.
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
    """Logits (n,), those of operations within 3, of a row of another space, by the names of its hyperparameters.

    row: natural units; what lies outside a range of this space begins at its end. Copies that the row has not take
    those that it has in turn. An operation that it has not begins as one that RandAugment has not, and so does a higher
    K; a regularizer where it says. Raises SettingsError for a row without any operation of the space, or of one without
    operations without any regularizer.
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
    """Logits (n,) of values (n,), not too near the ends of their ranges; of a regularizer as near as it begins by
    itself.
    """
    import torch

    most = torch.full_like(values, LARGEST_LOGIT)
    most[space.n_of_policy :] = LARGEST_OF_REGULARIZER
    return space.encode(values).clamp(-most, most).float()


def _of_regularizers(space: SearchSpace, row: Mapping[str, float]) -> Tensor:
    """Values in natural units: the row's, as far as it has some, else where they begin."""
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
    """The end of a magnitude's range that is away from doing nothing, for a copy counted from 0.

    Where doing nothing lies inside, first, third, ... copies have the upper end, the others the lower. None where
    nobody knows what does nothing.
    """
    assert operation.magnitude_range is not None
    low, high = sorted(operation.magnitude_range)
    nothing = operation.identity
    if nothing is None:
        return None
    if low < nothing < high:
        return low if copy % 2 else high
    return low if abs(low - nothing) > abs(high - nothing) else high
