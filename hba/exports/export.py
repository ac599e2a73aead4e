"""Schedules as files for other libraries: `export`, and what it can write."""

import ast
import keyword
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from importlib.machinery import PathFinder
from pathlib import Path
from typing import NamedTuple

import numpy
import PIL
import torch
import torchvision

from hba.data.config import display_name
from hba.errors import SettingsError
from hba.exports.albumentations_file import albumentations_file
from hba.exports.python_file import python_file
from hba.schedule.library import load_policy
from hba.schedule.schedule import Schedule
from hba.utils.files import write_text
from hba.utils.settings import number
from hba.utils.text import unknown


class Target(NamedTuple):
    """A kind of file that a schedule can be exported to.

    Attributes:
        ending: Of the file's name.
        write: Makes its text from a schedule, its name as a module, and the value of
            pixels of masks that are uncovered.
        differs: What is not exact, if anything.
        has_regularizers: Whether it also holds the values of regularizers.
        has_masks: Whether it holds the value of masks.
        has_labels: Whether it can move images by class.
    """

    ending: str
    write: Callable[[Schedule, str, float], str]
    differs: str = ""
    has_regularizers: bool = False
    has_masks: bool = False
    has_labels: bool = False


TARGETS: Mapping[str, Target] = {
    "torchvision": Target(
        "_torchvision.py", python_file, has_masks=True, has_labels=True
    ),
    "kornia": Target(
        "_kornia.py",
        partial(python_file, on_batches=True),
        "enhancers and bilinear operations differ from PIL's by one grey level at most",
        has_masks=True,
    ),
    "albumentations": Target(
        "_albumentations.json",
        lambda schedule, _, mask_fill: albumentations_file(schedule, mask_fill),
        "only flips, turns, Invert, Solarize, Posterize and Brightness are exact, a"
        " slot can fire twice, and shears, turns and erasing are those of square"
        " images; DataLoader workers must seed it (docs/pipelines.md)",
        has_masks=True,
    ),
    "json": Target(
        ".json",
        lambda schedule, *_: _without_paths(schedule).text(),
        has_regularizers=True,
        has_labels=True,
    ),
}
"""By name; the command `hba export --help` describes them."""


def _without_paths(schedule: Schedule) -> Schedule:
    """With the last parts of paths in its provenance, which others have no use for."""

    def shortened(value: object) -> object:
        if isinstance(value, Mapping):
            return {name: shortened(entry) for name, entry in value.items()}
        if isinstance(value, list | tuple):
            return [shortened(entry) for entry in value]
        if isinstance(value, str) and Path(value).is_absolute():
            return display_name(value)
        return value

    # Other entries are no paths, though a hash may begin as one.
    named = {
        name: shortened(schedule.provenance[name])
        for name in ("dataset", "settings")
        if name in schedule.provenance
    }
    return replace(schedule, provenance={**schedule.provenance, **named})


def find_target(name: str) -> Target:
    """The target of that exact name; SettingsError with the known names otherwise."""
    if name not in TARGETS:
        raise SettingsError(unknown("target", name, TARGETS))
    return TARGETS[name]


def export(
    schedule: Schedule | str | Path,
    to: str,
    path: str | Path | None = None,
    *,
    mask_fill: float = 0,
) -> str:
    """Export a schedule for another library.

    Args:
        schedule: A schedule, its file, or the name of a recipe or of a shipped one;
            Schedule.only and Schedule.averaged make fixed policies of one.
        to: The library, a key of TARGETS.
        path: Where the text is also written, atomically.
        mask_fill: The value of pixels of masks that operations uncover.

    Returns:
        The text of the file. Regularizers are left out, except with `json`; the head of
        a Python file lists them.

    Raises:
        SettingsError: For an unknown target, for operations, images and symmetries of
            some classes that it cannot express, for masks that it does not take, and
            for a file that Python could not import.
        ScheduleError: For a schedule without operations.
    """
    target = find_target(to)
    mask_fill = number("mask_fill", mask_fill)
    if mask_fill != 0 and not target.has_masks:
        remedy = "export to torchvision, kornia or albumentations"
        raise SettingsError(
            f"mask_fill must be 0, because a file for {to} does not move masks, got"
            f" {mask_fill}; {remedy}"
        )
    file = Path("policy.py" if path is None else path)
    loaded = schedule if isinstance(schedule, Schedule) else load_policy(schedule)
    moves = loaded.space.class_moves
    if moves is not None and not target.has_labels:
        names = ",".join(moves.operations)
        raise SettingsError(
            f"a file for {to} does not know labels, but {names} moves only images of"
            f" some classes; leave it out by --without {names} (in Python,"
            " schedule.without(...)), or export to torchvision"
        )
    text = target.write(loaded, file.stem, mask_fill)
    if path is not None:
        if target.ending.endswith(".py"):
            _check_module_name(file, text)
        write_text(file, text)
    return text


def _check_module_name(file: Path, text: str) -> None:
    """SettingsError if Python could not import the file, or if it would be imported in
    the place of another module.
    """
    name = file.stem
    if file.suffix != ".py" or not name.isidentifier() or keyword.iskeyword(name):
        rule = (
            "a name that Python can import, letters, digits and _ before .py, and no"
            " keyword"
        )
        raise SettingsError(f"the file must have {rule}, got {file.name}")
    hidden = {"hba", "__main__", *sys.stdlib_module_names, *_imported(text)}
    if name in hidden or _is_installed(name):
        remedy = f"choose another name, such as {name}_policy.py"
        raise SettingsError(
            f"a file named {file.name} would hide the module {name} from Python;"
            f" {remedy}"
        )


def _imported(text: str) -> set[str]:
    """The names before the first dot of the modules that a Python file imports."""
    modules = set[str]()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            modules.add(str(node.module))
        elif isinstance(node, ast.Import):
            modules.update(alias.name for alias in node.names)
    return {module.partition(".")[0] for module in modules}


def _is_installed(name: str) -> bool:
    """Whether a module lies where PyTorch, torchvision or hba's other libraries are
    installed.
    """
    folders = {
        str(Path(str(library.__file__)).parents[1])
        for library in (torch, torchvision, numpy, PIL)
    }
    return PathFinder.find_spec(name, sorted(folders)) is not None
