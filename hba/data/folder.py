"""Image folders: DIR/<class>/*, or DIR/train/<class>/* with optional DIR/val and
DIR/test.
"""

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NoReturn

from hba.data.labels import SPLITS, composed, split_called
from hba.data.pool import FileItems, Part, Source, source_of
from hba.data.reading import SkippedFile, why_unread
from hba.errors import DataError
from hba.utils.files import LOCK_NAME, RUNS
from hba.utils.text import counted

CLUTTER = frozenset({"__macosx", "thumbs.db", "ehthumbs.db", "desktop.ini", "icon\r"})
"""Files that operating systems put into folders, besides hidden files; in lower case.
"""


def folder_source(folder: Path, splits: Mapping[str, Path] | None = None) -> Source:
    """An image folder as a source; only names are read.

    Args:
        folder: As the module describes it.
        splits: The folder of each split, by default those of find_splits.

    Raises:
        DataError: For an unusable folder.
    """
    if not folder.is_dir():
        kinds = (
            "a folder with one sub-folder of images for each class, a table (.csv,"
            " .parquet), or arrays (.npz)"
        )
        raise DataError(f"{folder} is not a folder; give {kinds}")
    try:
        return _source(folder, splits or find_splits(folder))
    except DataError as error:
        if tables := sorted(path for path in folder.glob("*.csv") if path.is_file()):
            raise DataError(f"{error}; or give the table {tables[0]}") from None
        raise


def _source(folder: Path, split_folders: Mapping[str, Path]) -> Source:
    around = [] if split_folders["train"] == folder else [folder]
    beside = [
        path
        for place in around
        for path in subfolders(place)
        if path not in split_folders.values()
    ]
    parts = {role: partial(_part, path) for role, path in split_folders.items()}
    parts["train"] = partial(_part, split_folders["train"], around, beside)
    class_names = {composed(path.name) for path in subfolders(split_folders["train"])}
    for path in subfolders(split_folders["test"]) if "test" in split_folders else ():
        # Before a search, which does not look at test images.
        if composed(path.name) not in class_names and files_in(path)[0]:
            raise DataError(
                f"{path} holds images of a class that the training images do not have;"
                " rename or remove it"
            )
    return source_of(folder, parts)


def _part(
    folder: Path, around: Sequence[Path] = (), beside: Sequence[Path] = ()
) -> Part:
    """The images of one split.

    Args:
        folder: Has a sub-folder for each class.
        around: Folders of which the files are reported as unused.
        beside: Folders of which all files, at any depth, are reported as unused.
    """
    paths: list[Path] = []
    names: list[tuple[str, ...]] = []
    unused: list[SkippedFile] = []
    for images, skipped in map(files_in, beside):
        unused += [
            *(SkippedFile(str(path), "beside the splits") for path in images),
            *skipped,
        ]
    loose = sorted(
        place / name for place in (folder, *around) for name in next(_walk(place))[2]
    )
    unused += [
        SkippedFile(str(path), why_unread(path) or "not in the folder of a class")
        for path in loose
    ]
    class_names: list[str] = []
    for class_folder in subfolders(folder):
        files, skipped = files_in(class_folder)
        name = composed(class_folder.name)
        class_names += [name] if files or skipped else []
        paths += files
        names += [(name,)] * len(files)
        unused += (
            skipped
            if files or skipped
            else [SkippedFile(str(class_folder), "an empty folder")]
        )
    if not paths:
        example = (
            f"; of {counted(len(unused), 'other file')}, {unused[0].path}:"
            f" {unused[0].reason}"
            if unused
            else ""
        )
        remedy = "" if class_names else "; make a sub-folder for each class"
        raise DataError(
            f"{folder} holds no images in folders of classes{example}{remedy}"
        )
    return Part(
        FileItems.of(folder, paths),
        names,
        tuple(unused),
        tuple(dict.fromkeys(class_names)),
    )


def subfolders(folder: Path) -> list[Path]:
    """The sub-folders, sorted by name.

    Clutter, and runs that were started among the images, are left out.
    """
    return sorted(folder / name for name in next(_walk(folder))[1])


def files_in(folder: Path) -> tuple[list[Path], list[SkippedFile]]:
    """The images in the folder and its sub-folders, and all other files.

    Returns:
        The images, sorted, and the other files except clutter.
    """
    paths = sorted(place / name for place, _, names in _walk(folder) for name in names)
    skipped = [
        SkippedFile(str(path), why) for path in paths if (why := why_unread(path))
    ]
    return [path for path in paths if not why_unread(path)], skipped


def _walk(folder: Path) -> Iterator[tuple[Path, list[str], list[str]]]:
    """Walk through folders like os.walk, also through linked ones, without clutter and
    runs.

    A folder is skipped as a run if it holds a run's lock, or if it is called `runs` and
    holds folders with one. A link to a folder that it is in would have no end, so it is
    skipped too.
    """

    def refuse(error: OSError) -> NoReturn:
        raise DataError(
            f"cannot list the images in {error.filename} ({error.strerror}); make it"
            " readable"
        ) from None

    def holds_runs(path: Path) -> bool:
        # What cannot be listed is refused when the walk gets there.
        with contextlib.suppress(PermissionError):
            return (path / LOCK_NAME).exists() or (
                path.name == RUNS.name and any(path.glob(f"*/{LOCK_NAME}"))
            )
        return False

    around = {
        folder: {ancestor.resolve() for ancestor in (folder, *folder.resolve().parents)}
    }
    for path, folder_names, file_names in os.walk(
        folder, onerror=refuse, followlinks=True
    ):
        place = Path(path)
        for names in (folder_names, file_names):
            names[:] = [
                name
                for name in names
                if not (name.startswith(".") or name.lower() in CLUTTER)
            ]
        inner = {name: (place / name).resolve() for name in folder_names}
        folder_names[:] = [
            name
            for name in inner
            if not (inner[name] in around[place] or holds_runs(place / name))
        ]
        around |= {place / name: {*around[place], inner[name]} for name in folder_names}
        yield place, folder_names, file_names


def find_splits(folder: Path) -> dict[str, Path]:
    """The folders of class folders, by split.

    Without splits, this is the folder itself as train.

    Raises:
        DataError: If it is not clear whether a folder is a split or a class.
    """
    children = subfolders(folder)
    named = {path: role for path in children if (role := split_called(path.name))}
    splits = {role: path for path, role in reversed(named.items()) if role in SPLITS}
    class_names = (
        {composed(path.name) for path in subfolders(splits["train"])}
        if "train" in splits
        else set()
    )
    if class_names:
        other_folders = [path for path in children if path not in splits.values()]
        below = {
            path: {composed(child.name) for child in subfolders(path)}
            for path in other_folders
        }
        # A split whose name is not understood would be ignored silently.
        unclear = [
            path for path in other_folders if path in named or class_names & below[path]
        ]
    else:
        splits = {"train": folder}
        # A single class may be called train: a vehicle.
        unclear = (
            []
            if list(named.values()) == ["train"] and len(children) > 1
            else list(named)
        )
        unclear += [
            path
            for child in children
            for path in subfolders(child)
            if split_called(path.name)
        ]
    if unclear:
        layouts = (
            "either <class>/*, or train/<class>/* and optionally val/<class>/* and"
            " test/<class>/*"
        )
        problem = f"it is not clear whether {unclear[0]} is a split or a class"
        raise DataError(f"{problem}: {folder} must hold {layouts}; rename or move it")
    return splits
