"""The schedule at whose first row a search begins, as a setting: read once, then kept with the run."""

import dataclasses
import reprlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from hba.errors import SettingsError
from hba.schedule.library import load_policy
from hba.schedule.schedule import Schedule
from hba.utils.settings import Settings

IN_MEMORY = "a schedule in memory"
"""What is called so was in no file."""


class Start(Settings):
    """schedule: what it was called. values: its first row, by the names of hyperparameters, in natural units.

    The row is enough to begin anew and to resume; nothing reads the schedule again.
    """

    schedule: str
    values: Annotated[dict[str, Annotated[float, Field(allow_inf_nan=False)]], Field(min_length=1)]

    def __str__(self) -> str:
        return self.schedule


def read_start(given: Any) -> Any:
    """A Start of a schedule, of its file, of a run folder or of a shipped name; what a run has stored stays.

    Raises ScheduleError where there is no such schedule, and SettingsError for anything else.
    """
    if given is None or isinstance(given, Start | Mapping):
        return given
    if isinstance(given, Schedule):
        return Start(schedule=IN_MEMORY, values=first_row(given))
    if isinstance(given, str | Path):
        return Start(schedule=str(given), values=first_row(load_policy(given)))
    raise SettingsError(f"must be a schedule, its file, a run folder or a shipped name, got {reprlib.repr(given)}")


def first_row(schedule: Schedule) -> dict[str, float]:
    """By name, with probabilities of K also where they are not searched."""
    row = dict(zip(schedule.space.names, schedule.values[0].tolist(), strict=True))
    most = schedule.space.max_count
    if most and not schedule.space.searches_count:
        counted = dataclasses.replace(schedule.space, searches_count=True)
        columns = counted.count_columns
        row |= dict(zip(counted.names[columns], counted.initial()[columns].sigmoid().tolist(), strict=True))
    return row
