"""The rows of a contest: the policy of the search, recipes, recipes with the symmetries
that the search has found, and changes of any of these: applied half as often, or with
more groups of operations.

A new recipe is a name in WITH_SYMMETRIES if it has none of its own, otherwise in
PREFERRED. A row of another kind also has its policy and its source here.
"""

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path

from hba.algorithms.race_findings import RaceFindings
from hba.algorithms.race_policies import GROUPS
from hba.operations.operation import MIXING, SYMMETRY, WALK
from hba.policy_evaluation.baselines import NONE
from hba.results.answer import HALF, SYMMETRIES, WITH
from hba.results.run import ROWS_FOLDER, SEARCH_FOLDER
from hba.schedule.compose import halved, joined, symmetries_of, with_symmetries
from hba.schedule.library import POLICY_NAME
from hba.schedule.recipes import RECIPE, RECIPES, recipe_of
from hba.schedule.schedule import Schedule
from hba.schedule.summary import used_operations
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
CHANGES = (
    HALF,
    "color",
    "quality",
    "erasing",
    RANDAUGMENT,
    "shift",
    "zoom",
    "shape",
    "mixing",
)
"""Changes of the best row, in order of preference: all but its symmetries half as
often, or one more group of operations, RandAugment or those of a race. Of the groups,
only color has lowered the loss of the best recipe in the trainings of docs/domains.md.
"""


def rows_of_contest(
    found: Schedule | None, most: int, *, can_mix: bool = True
) -> tuple[str, ...]:
    """At most `most` names, with the search last, because the first of equal rows is
    chosen. A search that has only tested symmetries has no row.

    If a race has tested the symmetries, recipes without symmetries come first, with
    those that hold. Recipes with their own come next, if these are among those that
    hold or that are not decided. Of rows with the same policy there is one.

    Args:
        found: The policy of the search, if there is one.
        most: The largest number.
        can_mix: Whether rows may mix images.
    """
    race = None if found is None else RaceFindings.of(found.provenance)
    if race is None or not race.symmetries:
        others = [*PREFERRED[:2], *WITH_SYMMETRIES, *PREFERRED[2:]]
    else:
        undecided = [name for name in PREFERRED if is_undecided(name, race)]
        composed = [row_with_symmetries(name, found) for name in WITH_SYMMETRIES]
        holding = [name for name in PREFERRED if goes_with(name, race)]
        others = [*composed[:2], *undecided, *composed[2:], *holding]
    last = (FOUND,) if has_row(found) else ()
    n_others = max(0, most - 2 - len(last))
    rest = [
        name
        for name in dict.fromkeys(others)
        if name not in ALWAYS
        and (can_mix or not policy_of_row(name, found).space.mixing)
    ]
    return (NONE, RANDAUGMENT, *rest[:n_others], *last)


def has_row(found: Schedule | None) -> bool:
    """Whether the policy of a search applies more than symmetries."""
    if found is None:
        return False
    race = RaceFindings.of(found.provenance)
    return race is None or not {*race.taken} <= {*race.symmetries}


def is_searched(row: str) -> bool:
    """Whether a row is the search's policy, or has more groups of operations than the
    row that it changes.
    """
    _, *changes = row.split(WITH)
    return row == FOUND or any(change != HALF for change in changes)


def row_without_contest(found: Schedule | None) -> str:
    """The row to use if no contest has chosen one."""
    return FOUND if has_row(found) else row_with_symmetries(RANDAUGMENT, found)


def row_with_symmetries(recipe: str, found: Schedule | None) -> str:
    """The name of the row of a recipe with the symmetries of a search.

    It is that of a recipe if there is one with this policy.

    Args:
        recipe: Name of a recipe without symmetries.
        found: The policy of the search.
    """
    if found is None or not symmetries_of(found):
        return recipe
    row = SYMMETRIES if recipe == NONE else f"{SYMMETRIES}-{recipe}"
    definition = definition_of_row(row, found)
    same = (name for name in PREFERRED if definition_of_row(name, found) == definition)
    return next(same, row)


def policy_of_row(row: str, found: Schedule | None) -> Schedule:
    """The policy with which a row trains.

    Args:
        row: Name of the row.
        found: The policy of the search, if there is one.
    """
    base, *changes = row.split(WITH)
    if found is not None and base == FOUND:
        policy = found
    elif found is not None and base.startswith(SYMMETRIES):
        recipe = base.removeprefix(SYMMETRIES).removeprefix("-") or NONE
        policy = with_symmetries(RECIPES[recipe].make(), found)
    else:
        policy = RECIPES[base].make()
    for change in changes:
        if change == HALF:
            policy = halved(policy)
        elif change in RECIPES:
            policy = joined(policy, RECIPES[change].make())
        else:
            policy = joined(policy, recipe_of(change, GROUPS[change]))
    if changes:
        policy = dataclasses.replace(policy, provenance={RECIPE: row})
    return policy


def changes_of_row(
    row: str, found: Schedule | None, rows: Iterable[str], *, can_mix: bool = True
) -> dict[str, str]:
    """For each change that can be made to the policy of a row, in order of preference,
    the name of the row with it.

    It is that of an earlier row if there is one with this policy.

    Args:
        row: Name of the row.
        found: The policy of the search, if there is one.
        rows: Names of earlier rows.
        can_mix: Whether a row may mix images.
    """
    policy = policy_of_row(row, found)
    used = used_operations(policy)
    names = {operation.name for operation in used}
    idle = {group for group, typical in GROUPS.items() if names & {*typical}}
    stages = {operation.stage for operation in used}
    if not can_mix:
        idle.add("mixing")
    # With half of the probabilities, a batch that Mixup leaves may still get CutMix.
    if stages <= {SYMMETRY} or MIXING in stages:
        idle.add(HALF)
    if WALK in stages:
        idle.add(RANDAUGMENT)
    earlier = {definition_of_row(name, found): name for name in rows}
    changed = {name: f"{row}{WITH}{name}" for name in CHANGES if name not in idle}
    return {
        change: earlier.get(definition_of_row(name, found), name)
        for change, name in changed.items()
    }


def definition_of_row(row: str, found: Schedule | None) -> str:
    """Equal for rows with the same policy."""
    return ScheduleAugmentation(policy_of_row(row, found)).definition


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
    if row in RECIPES:
        return row
    path = folder / ROWS_FOLDER / f"{row}.json"
    path.parent.mkdir(exist_ok=True)
    policy_of_row(row, found).save(path)
    return path


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
