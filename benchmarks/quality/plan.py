"""A verdict as it is stated and committed before it is run: its rows, seeds and epochs on each bed."""

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hba.data.config import Seed, Size
from hba.errors import SettingsError
from hba.utils.settings import Settings
from quality.candidates import CANDIDATES, DEFAULT

PLAN = Path(__file__).with_name("verdict.toml")
BLOCK = 1_000
"""Seeds below it are for choosing settings. Each verdict takes seeds of a block of its own, which no other run has."""


class Planned(Settings):
    """A verdict on one bed."""

    rows: tuple[str, ...]
    """What it trains with, by name."""
    first_seed: Seed
    """Of searches, and of the trainings with what they found."""
    seeds: Size
    """Number of seeds from the first one on."""
    epochs: Size
    """Of searches and of trainings."""

    @property
    def of(self) -> str:
        """What the verdict is on. The baselines are made of its searches."""
        return judged_by(self.rows)


def judged_by(rows: Sequence[str]) -> str:
    """What a verdict of these rows is on: the first that is a candidate."""
    return next((row for row in rows if row in CANDIDATES), DEFAULT)


def planned_for(bed: str, path: Path = PLAN, kind: type[Settings] = Planned) -> Any:
    """The plan for a bed, of that kind. Raises SettingsError for a file that is no plan or lacks the bed."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
        if bed not in tables:
            raise SettingsError(f"no verdict is planned on the bed {bed!r}, only on: {', '.join(tables)}")
        return kind.make(tables[bed])
    except (OSError, ValueError, TypeError, SettingsError) as error:
        raise SettingsError(f"{path}: {error}") from None
