"""Print the oldest version of each dependency that pyproject.toml allows, as
requirements for pip.

python .ci/lower_bounds.py            # what hba needs to run
python .ci/lower_bounds.py test       # and what an optional group adds
"""

import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"
NOT_IMPORTED = ("ruff", "mypy")
"""Programs that look at the code; their version says nothing about it."""
LOWER_BOUND = re.compile(r"(?P<name>[\w.-]+(\[[\w,-]+\])?)>=(?P<version>[\w.]+)")


def lower_bounds(project: Mapping[str, Any], groups: Sequence[str] = ()) -> list[str]:
    """`name==version` for each `name>=version` of [project], sorted. Raises ValueError
    where one has none.
    """
    pinned = set()
    for requirement in (*project["dependencies"], *in_groups(project, groups)):
        found = LOWER_BOUND.match(requirement)
        if found is None:
            raise ValueError(
                "a dependency must have a lower bound, name>=version, got"
                f" {requirement!r}"
            )
        if found["name"] not in NOT_IMPORTED:
            pinned.add(f"{found['name']}=={found['version']}")
    return sorted(pinned)


def in_groups(project: Mapping[str, Any], groups: Sequence[str]) -> Iterator[str]:
    """What the optional groups need; a group may name others, as in
    `project-name[group]`.
    """
    for group in groups:
        for requirement in project["optional-dependencies"][group]:
            named = re.fullmatch(
                rf"{re.escape(project['name'])}\[([\w,-]+)\]", requirement
            )
            yield from (
                [requirement]
                if named is None
                else in_groups(project, named[1].split(","))
            )


if __name__ == "__main__":
    print(
        "\n".join(
            lower_bounds(
                tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"],
                sys.argv[1:],
            )
        )
    )
