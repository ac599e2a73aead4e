"""The policies that a race tries: symmetries, groups of operations, their values."""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from hba.operations import OPERATIONS
from hba.operations.operation import SYMMETRY, WALK
from hba.policy.space import SearchSpace
from hba.policy.spaces import randaugment
from hba.schedule.recipes import RECIPES, TURNS

Typical = Mapping[str, tuple[float, float | None]]
"""The probability and the magnitude with which a race tries each operation."""
GROUPS: Mapping[str, Typical] = {
    "shift": {"PaddedCrop": (1.0, 0.125)},
    "zoom": {"ResizedCrop": (1.0, 0.5)},
    "color": {
        "BrightnessJitter": (0.8, 0.4),
        "ContrastJitter": (0.8, 0.4),
        "Gamma": (0.5, 0.5),
        "Saturation": (0.8, 0.6),
        "Hue": (0.8, 0.08),
        "Gray": (0.05, None),
    },
    "quality": {"Blur": (0.3, 0.04), "Noise": (0.3, 0.06), "Jpeg": (0.2, 40.0)},
    "shape": {"Perspective": (0.3, 0.3), "Elastic": (0.3, 0.1)},
    "erasing": {"Erase": (0.5, 0.25)},
    "mixing": {"Mixup": (0.5, 0.4), "CutMix": (0.5, 1.0)},
}
"""Operations that are tried together. The walk is another group, with RandAugment's
policy.
"""
WALK_GROUP = "RandAugment"
NO_GROUP = "no group"
"""The fork that the others are compared with."""
BEST = "best "
"""The beginning of the names of forks with the best groups together."""
TOGETHER = (2, 3)
"""How many of the best groups are tried together at the end."""


def names_of_forks(space: SearchSpace) -> tuple[str, ...]:
    """Names of all forks: with no group, each group, and the best ones together."""
    groups = groups_of(space)
    return (NO_GROUP, *groups, *(f"{BEST}{n}" for n in TOGETHER if n <= len(groups)))


def groups_of(space: SearchSpace) -> dict[str, Typical]:
    """The groups with operations in the space; each operation of your own is one."""
    names = [
        operation.name
        for operation in space.operations
        if operation.stage not in (SYMMETRY, WALK)
    ]
    in_space = {
        name: {
            operation: typical
            for operation, typical in group.items()
            if operation in names
        }
        for name, group in GROUPS.items()
    }
    grouped = {operation for group in GROUPS.values() for operation in group}
    alone: dict[str, Typical] = {
        operation: {operation: (0.5, None)}
        for operation in names
        if operation not in grouped
    }
    walk: dict[str, Typical] = {WALK_GROUP: {}} if space.walk else {}
    return walk | {name: group for name, group in in_space.items() if group} | alone


@cache
def _randaugment_values(dtype: torch.dtype) -> Mapping[str, float]:
    """The values of the recipe RandAugment by name, which take long to fit.

    Args:
        dtype: PyTorch's default type, in which torchvision computes its magnitudes.
    """
    recipe = RECIPES["randaugment"].make()
    values = recipe.values[0].tolist()
    return MappingProxyType(dict(zip(recipe.space.names, values, strict=True)))


def row_of(
    space: SearchSpace, selected: list[str], start: Mapping[str, float] | None = None
) -> Tensor:
    """Values (n,), float64, of the policy with some groups and symmetries.

    All other probabilities are 0. The walk is the recipe RandAugment. Magnitudes of
    other operations are where other searches begin.

    Args:
        space: The search space.
        selected: Names of the groups and symmetries.
        start: The setting `start`, which replaces probabilities and magnitudes of
            operations in the policy.
    """
    start_values = {
        name if "." in name else f"{name}.probability": value
        for name, value in (start or {}).items()
    }
    walk = _randaugment_values(torch.get_default_dtype())
    groups = groups_of(space)
    typical: dict[str, Any] = dict(TURNS)
    for group in groups.values():
        typical.update(group)
    tried = {
        operation for name in selected for operation in groups.get(name, {name: None})
    }
    initial = space.decode(randaugment(space).double()).tolist()
    values = dict(zip(space.names, initial, strict=True))
    values |= {
        f"count.{k}.probability": walk.get(f"count.{k}.probability", 0.0)
        for k in range(1, space.max_count + 1)
    }
    for operation in space.operations:
        on_walk = operation.stage == WALK
        is_tried = WALK_GROUP in selected if on_walk else operation.name in tried
        probability, magnitude = typical.get(operation.name, (0.5, None))
        for prefix in space.prefixes(operation):
            own_magnitude = walk.get(f"{prefix}.magnitude") if on_walk else magnitude
            if own_magnitude is not None:
                values[f"{prefix}.magnitude"] = own_magnitude
            if on_walk:
                # Your own operations, which RandAugment does not have, are as likely as
                # those it has.
                probability = walk.get(
                    f"{prefix}.probability",
                    0.0 if operation.name in OPERATIONS else 0.5,
                )
            values[f"{prefix}.probability"] = probability if is_tried else 0.0
            kinds = [
                quantity
                for quantity in ("probability", "magnitude")
                if is_tried and f"{operation.name}.{quantity}" in start_values
            ]
            values |= {
                f"{prefix}.{quantity}": start_values[f"{operation.name}.{quantity}"]
                for quantity in kinds
            }
    row = torch.tensor([values[name] for name in space.names], dtype=torch.float64)
    low, high = space.bounds(row.dtype, row.device)
    return row.clamp(low.minimum(high), low.maximum(high))
