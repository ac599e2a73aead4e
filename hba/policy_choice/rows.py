"""The rows of a contest: the policy of the search, recipes, and recipes with the
symmetries that the search has found.

A new recipe is a name in WITH_SYMMETRIES if it has none of its own, otherwise in
PREFERRED. A row of another kind also has its policy and its source here.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hba.algorithms.race_findings import RaceFindings
from hba.operations.operation import SYMMETRY
from hba.policy_evaluation.baselines import NONE
from hba.results.answer import SYMMETRIES
from hba.results.run import ROWS_FOLDER, SEARCH_FOLDER
from hba.schedule.library import POLICY_NAME
from hba.schedule.recipes import RECIPES
from hba.schedule.schedule import Schedule
from hba.training.augmentation import ScheduleAugmentation

FOUND = "search"
"""The row of the search's policy."""
RANDAUGMENT = "randaugment"
ALWAYS = (NONE, RANDAUGMENT, FOUND)
"""Rows of every contest."""
WITH_SYMMETRIES = (
    "crop",
    "oriented",
    "randaugment-light",
    NONE,
    "trivialaugment",
    "resized-crop",
    RANDAUGMENT,
    "autoaugment",
)
"""Recipes without symmetries, in order of preference, for when there is no time for
all. They are compared with the symmetries that the search has found.
"""
PREFERRED = (
    "overhead",
    "photo",
    "crop-flip",
    "flip",
    "three-augment",
    "overhead-randaugment",
    "timm",
)
"""Recipes with symmetries of their own, in order of preference."""


def rows_of_contest(found: Schedule | None, most: int) -> tuple[str, ...]:
    """At most `most` names, with the search last, because the first of equal rows is
    chosen.

    If a race has tested the symmetries, recipes without symmetries come first, with
    those that hold. Recipes with their own come next, if these are among those that
    hold or that are not decided. Of rows with the same policy there is one.

    Args:
        found: The policy of the search, if there is one.
        most: The largest number.
    """
    race = None if found is None else RaceFindings.of(found.provenance)
    if race is None:
        others = [*PREFERRED[:2], *WITH_SYMMETRIES, *PREFERRED[2:]]
    else:
        undecided = [name for name in PREFERRED if is_undecided(name, race)]
        composed = [row_with_symmetries(name, found) for name in WITH_SYMMETRIES]
        holding = [name for name in PREFERRED if goes_with(name, race)]
        others = [*composed[:2], *undecided, *composed[2:], *holding]
    n_others = max(0, most - (3 if found is not None else 2))
    rest = [name for name in dict.fromkeys(others) if name not in ALWAYS]
    last = () if found is None else (FOUND,)
    return (NONE, RANDAUGMENT, *rest[:n_others], *last)


def row_without_contest(found: Schedule | None) -> str:
    """The row to use if no contest has chosen one."""
    return RANDAUGMENT if found is None else FOUND


def row_with_symmetries(recipe: str, found: Schedule | None) -> str:
    """The name of the row of a recipe with the symmetries of a search.

    It is that of a recipe if there is one with this policy.

    Args:
        recipe: Name of a recipe without symmetries.
        found: The policy of the search.
    """
    if found is None or not symmetries_of(found):
        return recipe
    policy = with_symmetries(RECIPES[recipe].make(), found)
    definition = ScheduleAugmentation(policy).definition
    for name in PREFERRED:
        if ScheduleAugmentation(RECIPES[name].make()).definition == definition:
            return name
    return SYMMETRIES if recipe == NONE else f"{SYMMETRIES}-{recipe}"


def policy_of_row(row: str, found: Schedule | None) -> Schedule:
    """The policy with which a row trains.

    Args:
        row: Name of the row.
        found: The policy of the search, if there is one.
    """
    if found is not None and row == FOUND:
        return found
    if found is not None and row.startswith(SYMMETRIES):
        recipe = row.removeprefix(SYMMETRIES).removeprefix("-") or NONE
        return with_symmetries(RECIPES[recipe].make(), found)
    return RECIPES[row].make()


def source_of_row(row: str, found: Schedule | None, folder: Path) -> str | Path:
    """The policy of a row as hba.evaluate takes it: the name of a recipe, or a file,
    which is written.

    Args:
        row: Name of the row.
        found: The policy of the search, if there is one.
        folder: Folder of the run.
    """
    if row == FOUND:
        return folder / SEARCH_FOLDER / POLICY_NAME
    if not row.startswith(SYMMETRIES):
        return row
    path = folder / ROWS_FOLDER / f"{row}.json"
    path.parent.mkdir(exist_ok=True)
    policy_of_row(row, found).save(path)
    return path


def symmetries_of(found: Schedule) -> dict[str, float]:
    """The probabilities of the symmetries that a policy applies, by name."""
    last = dict(zip(found.space.names, found.values[-1].tolist(), strict=True))
    probabilities = {
        operation.name: last[f"{operation.name}.probability"]
        for operation in found.space.symmetries
    }
    return {name: chance for name, chance in probabilities.items() if chance > 0}


def with_symmetries(recipe: Schedule, found: Schedule) -> Schedule:
    """A recipe with the symmetries of a search in the place of its own.

    Args:
        recipe: A schedule of one epoch.
        found: The policy of the search.
    """
    chances = symmetries_of(found)
    symmetries = [
        operation for operation in found.space.symmetries if operation.name in chances
    ]
    others = [
        operation
        for operation in recipe.space.operations
        if operation.stage != SYMMETRY
    ]
    space = dataclasses.replace(
        recipe.space,
        operations=(*symmetries, *others),
        class_moves=found.space.class_moves,
    )
    values, spread = (
        dict(zip(recipe.space.names, rows[0].tolist(), strict=True))
        for rows in (recipe.values, recipe.spread)
    )
    values |= {f"{name}.probability": chance for name, chance in chances.items()}
    return Schedule(
        space,
        np.array([[values[name] for name in space.names]]),
        recipe.fill,
        recipe.provenance,
        spread=np.array([[spread.get(name, 0.0) for name in space.names]]),
    )


def goes_with(recipe: str, race: RaceFindings) -> bool:
    """Whether the symmetries of a recipe agree with the findings of a race: all hold or
    are not decided, and none that holds is missing.
    """
    applied = symmetries_in(recipe, [*race.symmetries])
    if not applied:
        return True
    return applied.issuperset(race.holding) and not applied & {
        *race.broken,
        *race.by_class,
    }


def is_undecided(recipe: str, race: RaceFindings) -> bool:
    """Whether a recipe agrees with the findings of a race, and applies a symmetry that
    is not decided.
    """
    applied = symmetries_in(recipe, [*race.symmetries])
    return goes_with(recipe, race) and not applied.isdisjoint(race.undecided)


def symmetries_in(recipe: str, names: Sequence[str]) -> set[str]:
    """The names, among these, of operations that the recipe applies."""
    schedule = RECIPES[recipe].make()
    values = dict(zip(schedule.space.names, schedule.values[0].tolist(), strict=True))
    return {name for name in names if values.get(f"{name}.probability", 0) > 0}
