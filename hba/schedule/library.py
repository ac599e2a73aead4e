"""Schedules by file or by the name under which one ships with the package."""

from collections.abc import Iterable, Mapping
from importlib.resources import as_file
from pathlib import Path

from hba.errors import ScheduleError
from hba.schedule.schedule import Schedule
from hba.schedule.shipped import files_of, policy_names
from hba.utils.text import did_you_mean, listed

PREFIX = "seed-"


def seed_folder(folder: Path, seed: int) -> Path:
    """Of one of the searches in a folder."""
    return folder / f"{PREFIX}{seed}"


def seed_folders(folder: Path) -> Mapping[int, Path]:
    """By seed, those that are there."""
    names = [path.name.removeprefix(PREFIX) for path in folder.glob(f"{PREFIX}*") if path.is_dir()]
    return {int(name): seed_folder(folder, int(name)) for name in names if name.isdecimal()}


def of_several_seeds(folder: Path) -> str | None:
    """What to do with a folder that holds no run itself but searches of several seeds; None for any other."""
    found = seed_folders(folder)
    if not found:
        return None
    return f"{folder} holds searches of several seeds; name one of them, such as {found[min(found)]}"


def policy_file(path_or_name: str | Path) -> Path | None:
    """What load_policy reads, there or not: a file, or that of a run folder; None for a schedule that ships."""
    path = Path(path_or_name)
    is_shipped = str(path_or_name) in policy_names()
    # A folder of images may be called as a shipped schedule is.
    if path.is_dir() and not (is_shipped and not (path / "policy.json").exists()):
        return path / "policy.json"
    return None if is_shipped and not path.is_file() else path


def load_policy(path_or_name: str | Path, *, other_names: Iterable[str] = ()) -> Schedule:
    """Read a schedule file, a run folder's policy.json, or a schedule that ships with the package.

    other_names: what may have been meant besides. Raises ScheduleError where there is none, or where it breaks the
    format.
    """
    path = policy_file(path_or_name)
    if path is None:
        with as_file(files_of(str(path_or_name))[0]) as shipped:
            return Schedule.load(shipped)
    if not (path.exists() or Path(path_or_name).is_dir()):
        meant = did_you_mean(str(path_or_name), (*policy_names(), *other_names))
        raise ScheduleError(f"no schedule file {path_or_name}{listed(meant, 'shipped ones', policy_names())}")
    if not path.exists() and (several := of_several_seeds(path.parent)):
        raise ScheduleError(several)
    return Schedule.load(path)
