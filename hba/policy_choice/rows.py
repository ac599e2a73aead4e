"""The rows of a contest: the policy of the search, and the recipes that agree with the
search's findings.
"""

from collections.abc import Sequence

from hba.algorithms.race_findings import RaceFindings
from hba.policy_evaluation.baselines import NONE
from hba.schedule.recipes import RECIPES
from hba.schedule.schedule import Schedule

FOUND, RANDAUGMENT = "search", "randaugment"
"""The row of the search's policy, and one that it is always compared with, in addition
to `none`.
"""
ALWAYS = (NONE, RANDAUGMENT, FOUND)
PREFERRED = (
    "overhead",
    "photo",
    "trivialaugment",
    "autoaugment",
    "overhead-randaugment",
    "oriented",
    "timm",
)
"""Other recipes, in order of preference, for when there is no time for all."""


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
