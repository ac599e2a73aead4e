"""What a verdict is, stated and committed before it is run: its rows, seeds and epochs on each bed."""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from common.records import DIRTY, last_change

from hba.data.config import Seed, Size
from hba.errors import SettingsError
from hba.utils.settings import Settings
from quality.beds import BEDS
from quality.candidates import CANDIDATES, DEFAULT

PLAN, EARLIER = (Path(__file__).with_name(name) for name in ("verdict.toml", "earlier.toml"))
"""The verdict, and what was run with seeds for choosing, before there was a plan."""
BLOCK = 1_000
"""Seeds below it are for choosing. A verdict takes seeds of one block of so many, which no other run has: nothing is
known of them beforehand, and tables mix no two blocks.
"""


class Planned(Settings):
    """A verdict on one bed."""

    rows: tuple[str, ...]
    """What it trains with, by name."""
    first_seed: Seed
    """Of searches, and of the trainings with what they found."""
    seeds: Size
    """How many there are from the first one on."""
    epochs: Size
    """Of searches and of trainings."""

    @property
    def of(self) -> str:
        """What the verdict is on, and whose searches its rivals are made of: the first row that is a candidate."""
        return judged_by(self.rows)

    def noted(self, path: Path) -> Mapping[str, Any]:
        """What records keep of it, with the commit of its file's last change, None for a file that git does not know.

        Raises SettingsError for changes that are not committed.
        """
        commit = last_change(path)
        if commit is not None and commit.endswith(DIRTY):
            raise SettingsError(f"{path} has changes that are not committed; commit them before the verdict is run")
        return {"plan": {**self.model_dump(mode="json"), "commit": commit}}


def judged_by(rows: Sequence[str]) -> str:
    """What a verdict of these rows is on: the first that is a candidate."""
    return next((row for row in rows if row in CANDIDATES), DEFAULT)


def read_plan(path: Path) -> Mapping[str, Planned]:
    """By bed. Raises SettingsError for a file that is no plan."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
        return MappingProxyType({bed: Planned.make(table) for bed, table in tables.items()})
    except (OSError, ValueError, TypeError) as error:
        raise SettingsError(f"a plan must be a file of TOML with a table for each bed; {path}: {error}") from None
    except SettingsError as error:
        raise SettingsError(f"{path}: {error}") from None


def planned_for(bed: str, path: Path) -> Planned:
    """What a plan says of a bed; SettingsError where it says nothing."""
    plan = read_plan(path)
    if bed not in plan:
        known = ", ".join(name for name in BEDS if name in plan)
        raise SettingsError(f"{path} plans no verdict on the bed {bed!r}, only on: {known}; write it there and commit")
    return plan[bed]


def block_of(seed: int) -> int:
    """0 for seeds that things are chosen by."""
    return seed // BLOCK
