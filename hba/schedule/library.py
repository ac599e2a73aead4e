"""Finds schedules: files, run folders, folders of several seeds, and, by name, recipes
and shipped schedules.

Importing it does not import PyTorch, because listing the shipped schedules does not
need it.
"""

import json
from collections.abc import Iterable, Mapping
from importlib.resources import as_file, files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hba.errors import ScheduleError
from hba.schedule.recipes import RECIPES
from hba.utils.text import did_you_mean, listed

if TYPE_CHECKING:
    from hba.schedule.schedule import Schedule

PACKAGE = "hba.policies"
CARDS = "cards"
PREFIX = "seed-"
POLICY_NAME = "policy.json"
"""The schedule in the folder of a search."""
RUN_FILES = (
    "auto.json",
    "config.json",
    "network.json",
    "network.pt",
    "report.html",
    "results.json",
)  # that are none


def policy_names() -> list[str]:
    """Names of the schedules that ship with the package."""
    return sorted(
        Path(file.name).stem
        for file in files(PACKAGE).iterdir()
        if file.name.endswith(".json")
    )


def shipped_schedules() -> list[dict[str, Any]]:
    """Name, epochs, provenance and card of each shipped schedule from its files,
    without checks or PyTorch.
    """
    entries = []
    for name in policy_names():
        schedule, card = (
            json.loads(file.read_text("utf-8")) for file in files_of(name)
        )
        entries.append(
            {
                "name": name,
                "epochs": schedule["epochs"],
                "provenance": schedule["provenance"],
                "card": card,
            }
        )
    return entries


def files_of(name: str) -> tuple[Traversable, Traversable]:
    """The files of a shipped schedule and of its card."""
    folder = files(PACKAGE)
    return folder.joinpath(f"{name}.json"), folder.joinpath(CARDS, f"{name}.json")


def seed_folder(folder: Path, seed: int) -> Path:
    """The folder of one of several searches that differ in their seed."""
    return folder / f"{PREFIX}{seed}"


def seed_folders(folder: Path) -> Mapping[int, Path]:
    """The folders of such searches that exist, by seed."""
    names = [
        path.name.removeprefix(PREFIX)
        for path in folder.glob(f"{PREFIX}*")
        if path.is_dir()
    ]
    return {
        int(name): seed_folder(folder, int(name)) for name in names if name.isdecimal()
    }


def of_several_seeds(folder: Path) -> str | None:
    """Advice for a folder that is no run but contains searches of several seeds; None
    for any other folder.
    """
    runs = seed_folders(folder)
    if not runs:
        return None
    return (
        f"{folder} holds searches of several seeds; name one of them, such as"
        f" {runs[min(runs)]}"
    )


def policy_file(path_or_name: str | Path) -> Path | None:
    """The path that load_policy reads, which may not exist; None for a recipe or a
    shipped schedule.
    """
    path = Path(path_or_name)
    if (
        path.is_file()
        and path.name in RUN_FILES
        and (path.parent / POLICY_NAME).exists()
    ):
        return path.parent / POLICY_NAME
    is_named = str(path_or_name) in (*RECIPES, *policy_names())
    # A folder of images may have such a name.
    if path.is_dir() and not (is_named and not (path / POLICY_NAME).exists()):
        return path / POLICY_NAME
    return None if is_named and not path.is_file() else path


def load_policy(
    path_or_name: str | Path, *, other_names: Iterable[str] = ()
) -> "Schedule":
    """Load a schedule: a file, the policy.json of a run folder, a schedule that ships
    with the package, or a recipe.

    Recipes are in hba/schedule/recipes.py. other_names: more names to suggest for a
    misspelt one. Raises ScheduleError if there is no such schedule, or if it breaks the
    format.
    """
    from hba.schedule.schedule import Schedule

    path = policy_file(path_or_name)
    if path is None and str(path_or_name) in RECIPES:
        return RECIPES[str(path_or_name)].make()
    if path is None:
        with as_file(files_of(str(path_or_name))[0]) as shipped:
            return Schedule.load(shipped)
    if not (path.exists() or Path(path_or_name).is_dir()):
        names = (*policy_names(), *RECIPES)
        meant = did_you_mean(str(path_or_name), (*names, *other_names))
        raise ScheduleError(
            "no schedule file"
            f" {path_or_name}{listed(meant, 'schedules by name', names)}"
        )
    if not path.exists() and (several := of_several_seeds(path.parent)):
        raise ScheduleError(several)
    return Schedule.load(path)
