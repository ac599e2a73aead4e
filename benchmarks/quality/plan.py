"""Read the plan of a verdict, which is committed before the runs: its rows, seeds and
epochs on each bed.
"""

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
"""Seeds below it are for choosing settings. Each verdict uses its own block of seeds,
which no other run uses.
"""


class Planned(Settings):
    """The plan of a verdict on one bed."""

    rows: tuple[str, ...]
    """Names of the augmentations to train with."""
    first_seed: Seed
    """The first seed of searches, and of the trainings with their schedules."""
    seeds: Size
    """Number of seeds from the first one on."""
    epochs: Size
    """The epochs of searches and of trainings."""

    @property
    def of(self) -> str:
        """The candidate that is judged. The baselines are made from its searches."""
        return judged_by(self.rows)


def judged_by(rows: Sequence[str]) -> str:
    """The candidate that a verdict with these rows judges: the first row that is a
    candidate.
    """
    return next((row for row in rows if row in CANDIDATES), DEFAULT)


def planned_for(
    bed: str, path: Path = PLAN, settings_class: type[Settings] = Planned
) -> Any:
    """Return the plan for a bed.

    Args:
        bed: The name of the bed.
        path: The file with plans.
        settings_class: The class of the plan.

    Returns:
        The plan, as an object of `settings_class`.

    Raises:
        SettingsError: If the file is not a plan or lacks the bed.
    """
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
        if bed not in tables:
            raise SettingsError(
                f"no verdict is planned on the bed {bed!r}, only on:"
                f" {', '.join(tables)}"
            )
        return settings_class.make(tables[bed])
    except (OSError, ValueError, TypeError, SettingsError) as error:
        raise SettingsError(f"{path}: {error}") from None
