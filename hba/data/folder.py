"""Image folders: DIR/<class>/*, or DIR/train/<class>/* with optional DIR/val and DIR/test."""

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hba.data.labels import SPLITS, split_called, unknown_class
from hba.data.pool import NO_CLASS, NO_IMAGE, FileItems, Pool, Source
from hba.data.reading import SkippedFile, image_endings
from hba.errors import DataError, RunError
from hba.utils.files import LOCK_NAME, RUNS

CLUTTER = frozenset({"__macosx", "thumbs.db", "ehthumbs.db", "desktop.ini", "icon\r"})
"""What systems put into folders; lower case."""


def folder_source(folder: Path, skip_broken: bool = False) -> Source:
    """The folder as a source of images. Reads names only; DataError for a folder that cannot be used."""
    if not folder.is_dir():
        raise DataError(
            f"{folder} is no folder; give a folder with one sub-folder of images for each class (unpack an archive), a "
            "table of images and labels (.csv, .parquet), or arrays (.npz)"
        )
    layout = find_layout(folder)
    class_names = class_folders(layout.train)
    pool = partial(folder_pool, class_names=class_names, skip_broken=skip_broken)
    train = pool(layout.train)
    if layout.test is not None and not any(map(holds_images, subfolders(layout.test))):
        # A search, which opens no test image, would not find out. It raises.
        pool(layout.test, is_training=False)
    return Source(
        name=str(folder),
        class_names=class_names,
        train=train,
        val=None if layout.val is None else pool(layout.val, is_training=False),
        test=None if layout.test is None else partial(pool, layout.test, is_training=False),
        left_out=layout.left_out,
        facts=(layout.fact,) if layout.fact else (),
    )


def class_folders(folder: Path) -> tuple[str, ...]:
    names = tuple(path.name for path in subfolders(folder))
    if len(names) < 2:
        raise DataError(
            f"{folder} must hold one sub-folder of images for each of at least two classes, "
            f"got {', '.join(map(repr, names)) or 'none'}"
        )
    return names


def folder_pool(folder: Path, class_names: tuple[str, ...], skip_broken: bool, is_training: bool = True) -> Pool:
    """The images of one split. A class without images is noted, but not of training images, which splitting refuses."""
    unknown = [path.name for path in subfolders(folder) if path.name not in class_names]
    if unknown:
        raise unknown_class(str(folder), unknown[0])
    paths: list[Path] = []
    labels: list[int] = []
    loose = sorted(folder / entry.name for entry in _entries(folder) if not _why_no_image(entry))
    unused = [(NO_CLASS, SkippedFile(str(path), "not in the folder of a class")) for path in loose]
    for label, name in enumerate(class_names):
        files, others = files_in(folder / name)
        paths += files
        labels += [label] * len(files)
        unused += [(label, item) for item in others]
        if not is_training and not files:
            unused.append((label, SkippedFile(str(folder / name), NO_IMAGE)))
    if not paths:
        found = next((f", but {item.path}" for _, item in unused if item.reason != NO_IMAGE), "")
        raise DataError(
            f"{folder} holds no images in folders of classes{found}; it must hold one sub-folder for each class, with "
            "images in .png, .jpg, .tif or another format"
        )
    return Pool(FileItems.of(folder, paths), np.array(labels), skip_broken, tuple(unused))


def is_clutter(name: str) -> bool:
    """Whether a file or folder of that name is hidden, or was put there by a system."""
    return name.startswith(".") or name.lower() in CLUTTER


def subfolders(folder: Path) -> list[Path]:
    """Sorted by name, without clutter and without runs that were begun among the images."""
    found = [entry for entry in _entries(folder) if Path(entry.path).is_dir() and not _holds_runs(entry)]
    return sorted(folder / entry.name for entry in found)


def files_in(folder: Path) -> tuple[list[Path], list[SkippedFile]]:
    """The images in the folder and its sub-folders, sorted, and all other files but clutter; none without a folder."""
    found = sorted(_files(folder)) if folder.is_dir() else []
    images = [folder.joinpath(*parts) for parts, reason in found if not reason]
    return images, [SkippedFile(str(folder.joinpath(*parts)), reason) for parts, reason in found if reason]


def holds_images(folder: Path) -> bool:
    """Whether there is an image in the folder or its sub-folders; it looks for the first only."""
    return folder.is_dir() and any(not reason for _, reason in _files(folder))


def check_beside(out: Path, data: str) -> None:
    """RunError for a run that would lie among the images of a folder, where its own pictures would count as images.

    data: of settings, where folders are absolute and all else is a name. The folder `runs` of the commands is not read.
    """
    folder, run = Path(data).resolve(), out.resolve()
    if not (Path(data).is_absolute() and folder.is_dir() and run.is_relative_to(folder)):
        return
    if run.relative_to(folder).parts[:1] != (RUNS.name,):
        raise RunError(f"out must not lie among the images in {data}, got {run}; choose another folder")


def _entries(folder: Path | str) -> "list[os.DirEntry[str]]":
    """What lies in the folder, but clutter. os.scandir tells files from folders without asking for each of them."""
    try:
        with os.scandir(folder) as entries:
            return [entry for entry in entries if not is_clutter(entry.name)]
    except OSError as error:
        raise DataError(f"cannot list the images in {error.filename} ({error.strerror}); make it readable") from None


def _files(folder: Path) -> Iterator[tuple[tuple[str, ...], str]]:
    """Of each file its path below the folder, in parts, and the reason why it is no image; empty for an image."""
    folders: list[tuple[Path | str, tuple[str, ...]]] = [(folder, ())]
    while folders:
        path, parts = folders.pop()
        for entry in _entries(path):
            if not entry.is_dir(follow_symlinks=False):
                yield (*parts, entry.name), _why_no_image(entry)
            elif not _holds_runs(entry):
                folders.append((entry.path, (*parts, entry.name)))


def _holds_runs(entry: "os.DirEntry[str]") -> bool:
    """Whether it is where commands put their runs: it holds folders with a run's lock."""
    return entry.name == RUNS.name and any(Path(entry.path).glob(f"*/{LOCK_NAME}"))


def _why_no_image(entry: "os.DirEntry[str]") -> str:
    """Empty for an image."""
    if Path(entry.name).suffix.lower() not in image_endings():
        return "its ending is not that of an image"
    is_file = entry.is_file(follow_symlinks=False) or Path(entry.path).is_file()
    return "" if is_file else "no file, or a link to a folder or to nothing"


class Layout(NamedTuple):
    """Where classes are. train: the folder of class folders; val and test: None where there is no such split.

    left_out: files beside the splits. fact: which folders are read as which splits, where their names do not say it.
    """

    train: Path
    val: Path | None = None
    test: Path | None = None
    left_out: tuple[SkippedFile, ...] = ()
    fact: str = ""


def find_layout(folder: Path) -> Layout:
    """Splits where the folder has them, else classes alone. DataError for folders that could be both."""
    children = subfolders(folder)
    splits: dict[str, Path] = {}
    for path in children:
        if role := split_called(path.name):
            if role in splits and any(map(subfolders, (path, splits[role]))):
                raise _unclear(folder, path)
            splits.setdefault(role, path)
    if "train" not in splits or not subfolders(splits["train"]):
        # A single class may be called train: a vehicle.
        is_class = set(splits) == {"train"} and len(children) > 1
        inner = [path for child in children for path in subfolders(child) if split_called(path.name)]
        if (splits and not is_class) or inner:
            raise _unclear(folder, inner[0] if inner else next(iter(splits.values())))
        return Layout(folder)
    train, val, test = (splits.get(role) for role in SPLITS)
    assert train is not None
    class_names = {path.name for path in subfolders(train)}
    others = [path for path in children if path not in (train, val, test)]
    for path in others:
        # A split whose name is not understood would be ignored silently.
        if split_called(path.name) or class_names & {child.name for child in subfolders(path)}:
            raise _unclear(folder, path)
    left_out = [SkippedFile(str(path), f"beside the split {train.name}") for one in others for path in files_in(one)[0]]
    found = {"training": train, "validation": val, "test": test}
    names = {part: path.name for part, path in found.items() if path is not None}
    fact = ", ".join(f"{part} images from {name}" for part, name in names.items())
    return Layout(train, val, test, tuple(left_out), "" if set(names.values()) <= set(SPLITS) else fact)


def _unclear(folder: Path, path: Path) -> DataError:
    return DataError(
        f"it is not clear whether {path} is a split or a class: {folder} must hold either <class>/*, or "
        "train/<class>/* and optionally val/<class>/*, which a search may see, and test/<class>/*, which it may not; "
        "rename or move it"
    )
