"""Schedules as files for other libraries: `export`, and what it can write."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from hba.data.config import display_name
from hba.errors import SettingsError
from hba.exports.albumentations_file import albumentations_file
from hba.exports.python_file import python_file
from hba.schedule.library import load_policy
from hba.schedule.schedule import Schedule
from hba.utils.files import write_text
from hba.utils.text import unknown


class Target(NamedTuple):
    """A kind of file that a schedule can be exported to.

    ending: of the file's name. write: makes its text from a schedule and its name as a module. differs: what is not
    exact, if anything. has_regularizers: whether it also holds the values of regularizers.
    """

    ending: str
    write: Callable[[Schedule, str], str]
    differs: str = ""
    has_regularizers: bool = False


TARGETS: Mapping[str, Target] = {
    "torchvision": Target("_torchvision.py", python_file),
    "kornia": Target(
        "_kornia.py",
        partial(python_file, on_batches=True),
        "enhancers and bilinear operations differ from PIL's by one grey level at most",
    ),
    "albumentations": Target(
        "_albumentations.json",
        lambda schedule, _: albumentations_file(schedule),
        "only flips, turns, Invert, Solarize, Posterize and Brightness are exact, a slot can fire twice, and shears, "
        "turns and erasing are those of square images; DataLoader workers must seed it (docs/pipelines.md)",
    ),
    "json": Target(".json", lambda schedule, _: _without_paths(schedule).text(), has_regularizers=True),
}
"""By name; the command `hba export --help` describes them."""


def _without_paths(schedule: Schedule) -> Schedule:
    """With the last parts of paths in its provenance, which others have no use for."""

    def shortened(found: Any) -> Any:
        if isinstance(found, Mapping):
            return {name: shortened(one) for name, one in found.items()}
        if isinstance(found, list | tuple):
            return [*map(shortened, found)]
        return display_name(found) if isinstance(found, str) and Path(found).is_absolute() else found

    # Other entries are no paths, though a hash may begin as one.
    named = {name: schedule.provenance[name] for name in ("dataset", "settings") if name in schedule.provenance}
    return replace(schedule, provenance={**schedule.provenance, **shortened(named)})


def find_target(name: str) -> Target:
    """The target of that exact name; SettingsError with the known names otherwise."""
    if name not in TARGETS:
        raise SettingsError(unknown("target", name, TARGETS))
    return TARGETS[name]


def export(schedule: Schedule | str | Path, to: str, path: str | Path | None = None) -> str:
    """Export a schedule for another library, `to`, a key of TARGETS. Returns the text of the file.

    schedule: a schedule, its file, or the name of a recipe or of a shipped one; Schedule.only and Schedule.averaged
    make fixed policies of one. path: where the text is also written, atomically. Regularizers are left out, except with
    `json`; the head of a Python file lists them. SettingsError for an unknown target, for operations and images that it
    cannot express, and for a file that Python could not import; ScheduleError for a schedule without operations.
    """
    target = find_target(to)
    file = Path("policy.py" if path is None else path)
    if target.ending.endswith(".py") and not (file.suffix == ".py" and file.stem.isidentifier()):
        rule = "a name that Python can import, letters, digits and _ before .py"
        raise SettingsError(f"the file must have {rule}, got {file.name}")
    loaded = schedule if isinstance(schedule, Schedule) else load_policy(schedule)
    text = target.write(loaded, file.stem)
    if path is not None:
        write_text(file, text)
    return text
