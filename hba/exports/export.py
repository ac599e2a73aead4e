"""A schedule written for another library."""

import keyword
from pathlib import Path

from hba.errors import SettingsError
from hba.exports.targets import find_target
from hba.operations import COMMON_CHANNELS
from hba.schedule.library import load_policy
from hba.schedule.schedule import Schedule
from hba.utils.files import write_text


def export(schedule: Schedule | str | Path, to: str, path: str | Path | None = None) -> str:
    """The text of a file with the schedule for another library; a key of TARGETS says which.

    schedule: a schedule, its file, or the name of a shipped one; Schedule.only and Schedule.averaged make fixed
    policies of one. path: where the text is written besides, whole or not at all. Regularizers are left out, but by
    `json`; the head of a Python file names them. Raises SettingsError for a target that is not known, for operations
    that it cannot express, for regularizers alone, and for a Python file that could not be imported by name.
    """
    target = find_target(to)
    if path is not None and target.ending.endswith(".py"):
        _check_name(Path(path))
    loaded = schedule if isinstance(schedule, Schedule) else load_policy(schedule)
    if not (loaded.space.operations or target.has_regularizers):
        raise SettingsError(
            f"{to} takes operations, and the schedule has regularizers alone: export it to json, or take their values "
            "from schedule.regularization(epoch)"
        )
    if len(loaded.fill) not in COMMON_CHANNELS:
        raise SettingsError(
            f"{to} takes images of 1 or 3 channels, but the schedule was searched on images of {len(loaded.fill)}; use "
            "hba's own transform"
        )
    text = target.write(loaded, "policy" if path is None else Path(path).stem)
    if path is not None:
        write_text(Path(path), text)
    return text


def _check_name(path: Path) -> None:
    if path.suffix != ".py" or not path.stem.isidentifier() or keyword.iskeyword(path.stem):
        raise SettingsError(
            f"the file must have a name that Python can import, letters, digits and _ before .py, got {path.name}"
        )
