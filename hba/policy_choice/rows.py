"""The rows of a contest: the policy of the search, and the recipes that agree with the
search's findings. A new recipe is a name in PREFERRED; a row of another kind also has
its policy and its source here.
"""

from collections.abc import Sequence
from pathlib import Path

from hba.algorithms.race_findings import RaceFindings
from hba.policy_evaluation.baselines import NONE
from hba.results.run import SEARCH_FOLDER
from hba.schedule.library import POLICY_NAME
from hba.schedule.recipes import RECIPES
from hba.schedule.schedule import Schedule

FOUND = "search"
"""The row of the search's policy."""
RANDAUGMENT = "randaugment"
ALWAYS = (NONE, RANDAUGMENT, FOUND)
"""Rows of every contest."""
PREFERRED = (
    "overhead",
    "crop-flip",
    "photo",
    "trivialaugment",
    "flip",
    "randaugment-light",
    "three-augment",
    "autoaugment",
    "overhead-randaugment",
    "oriented",
    "timm",
)
"""Other recipes, in order of preference, for when there is no time for all: `overhead`,
which competes only where all flips and turns hold or are unknown, then the others, by
how common they are where people fine-tune.
"""


def rows_of_contest(found: Schedule | None, most: int) -> tuple[str, ...]:
    """At most `most` names, with the search last, because the first of equal rows is
    chosen.

    A recipe is left out if it applies a symmetry that does not hold, or if it applies
    only some of those that hold.
    """
    race = None if found is None else RaceFindings.of(found.provenance)
    always = ALWAYS if found is not None else ALWAYS[:2]
    others = [name for name in PREFERRED if race is None or goes_with(name, race)]
    return (*always[:2], *others[: max(0, most - len(always))], *always[2:])


def row_without_contest(found: Schedule | None) -> str:
    """The row to use if no contest has chosen one."""
    return RANDAUGMENT if found is None else FOUND


def policy_of_row(row: str, found: Schedule | None) -> Schedule:
    """The policy with which a row trains.

    Args:
        row: Name of the row.
        found: The policy of the search, if there is one.
    """
    if row == FOUND and found is not None:
        return found
    return RECIPES[row].make()


def source_of_row(row: str, folder: Path) -> str | Path:
    """The policy of a row as hba.evaluate takes it: the name of a recipe, or a file.

    Args:
        row: Name of the row.
        folder: Folder of the run.
    """
    return folder / SEARCH_FOLDER / POLICY_NAME if row == FOUND else row


def goes_with(recipe: str, race: RaceFindings) -> bool:
    """Whether the symmetries of a recipe agree with the findings of a race."""
    applied = symmetries_in(recipe, [*race.symmetries])
    if not applied:
        return True
    return applied.isdisjoint(race.broken) and applied.issuperset(race.holding)


def symmetries_in(recipe: str, names: Sequence[str]) -> set[str]:
    """The names, among these, of operations that the recipe applies."""
    schedule = RECIPES[recipe].make()
    values = dict(zip(schedule.space.names, schedule.values[0].tolist(), strict=True))
    return {name for name in names if values.get(f"{name}.probability", 0) > 0}
