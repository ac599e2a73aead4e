"""A schedule written for another library."""

from pathlib import Path

from hba.exports.targets import find_target
from hba.runtime.files import write_text
from hba.schedule.library import load_policy
from hba.schedule.schedule import Schedule


def export(schedule: Schedule | str | Path, to: str, path: str | Path | None = None) -> str:
    """The text of a file with the schedule for another library; a key of TARGETS says which.

    schedule: a schedule, its file, or the name of a shipped one; Schedule.only and Schedule.averaged make fixed
    policies of one. path: where the text is written besides, whole or not at all. Raises SettingsError for a target
    that is not known, and for operations that it cannot express.
    """
    target = find_target(to)
    loaded = schedule if isinstance(schedule, Schedule) else load_policy(schedule)
    text = target.write(loaded, "policy" if path is None else Path(path).stem)
    if path is not None:
        write_text(Path(path), text)
    return text
