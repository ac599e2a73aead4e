"""The policies that a race tries: symmetries, groups of operations, and their values."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from hba.operations import OPERATIONS
from hba.operations.operation import WALK
from hba.policy.space import SearchSpace
from hba.policy.spaces import randaugment
from hba.schedule.recipes import RECIPES, TURNS

Typical = Mapping[str, tuple[float, float | None]]
"""The probability and the magnitude with which a race tries each operation."""
GROUPS: Mapping[str, Typical] = {
    "shift": {"PaddedCrop": (1.0, 0.125)},
    "zoom": {"ResizedCrop": (1.0, 0.5)},
    "color": {
        **{
            "BrightnessJitter": (0.8, 0.4),
            "ContrastJitter": (0.8, 0.4),
            "Gamma": (0.5, 0.5),
        },
        **{"Saturation": (0.8, 0.6), "Hue": (0.8, 0.08), "Gray": (0.05, None)},
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
    """Names of all forks: without a group, with each group, and with the best groups
    together.
    """
    groups = groups_of(space)
    return (NO_GROUP, *groups, *(f"{BEST}{n}" for n in TOGETHER if n <= len(groups)))


def symmetries_of(space: SearchSpace) -> tuple[str, ...]:
    return tuple(one.name for one in space.operations if one.stage == "symmetry")


def groups_of(space: SearchSpace) -> dict[str, Typical]:
    """The groups that have operations in the space. Each of your own operations is a
    group.
    """
    names = [
        one.name for one in space.operations if one.stage not in ("symmetry", "walk")
    ]
    found = {
        name: {one: how for one, how in group.items() if one in names}
        for name, group in GROUPS.items()
    }
    known = {one for group in GROUPS.values() for one in group}
    own: dict[str, Typical] = {
        one: {one: (0.5, None)} for one in names if one not in known
    }
    walk: dict[str, Typical] = {WALK_GROUP: {}} if space.walk else {}
    return walk | {name: group for name, group in found.items() if group} | own


def row_of(
    space: SearchSpace, taken: list[str], start: Mapping[str, float] | None = None
) -> Tensor:
    """Values (n,), float64, of the policy with the groups and symmetries in `taken`;
    all other probabilities are 0.

    The walk is the recipe RandAugment. Magnitudes of other operations are where other
    searches begin. start: the setting, which replaces probabilities and magnitudes of
    operations in the policy.
    """
    given = {
        name if "." in name else f"{name}.probability": value
        for name, value in (start or {}).items()
    }
    recipe = RECIPES["randaugment"].make()
    walk = dict(zip(recipe.space.names, recipe.values[0].tolist(), strict=True))
    groups = groups_of(space)
    typical: dict[str, Any] = {
        **TURNS,
        **{one: how for group in groups.values() for one, how in group.items()},
    }
    tried = {one for name in taken for one in groups.get(name, {name: None})}
    values = dict(
        zip(
            space.names, space.decode(randaugment(space).double()).tolist(), strict=True
        )
    )
    values |= {
        f"count.{k}.probability": walk.get(f"count.{k}.probability", 0.0)
        for k in range(1, space.max_count + 1)
    }
    for operation in space.operations:
        on_walk = operation.stage == WALK
        is_tried = WALK_GROUP in taken if on_walk else operation.name in tried
        probability, magnitude = typical.get(operation.name, (0.5, None))
        for prefix in space.prefixes(operation):
            own = walk.get(f"{prefix}.magnitude") if on_walk else magnitude
            if own is not None:
                values[f"{prefix}.magnitude"] = own
            if on_walk:
                # Your own operations, which RandAugment does not have, are as likely as
                # those it has.
                probability = walk.get(
                    f"{prefix}.probability",
                    0.0 if operation.name in OPERATIONS else 0.5,
                )
            values[f"{prefix}.probability"] = probability if is_tried else 0.0
            kinds = [
                kind
                for kind in ("probability", "magnitude")
                if is_tried and f"{operation.name}.{kind}" in given
            ]
            values |= {
                f"{prefix}.{kind}": given[f"{operation.name}.{kind}"] for kind in kinds
            }
    row = torch.tensor([values[name] for name in space.names], dtype=torch.float64)
    low, high = space.bounds(row.dtype, row.device)
    return row.clamp(low.minimum(high), low.maximum(high))
