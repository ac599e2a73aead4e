"""Image folders: DIR/<class>/*, or DIR/train/<class>/* with optional DIR/val and DIR/test."""

import math
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hba.data.labels import SPLITS, split_called, unknown_class, words_of
from hba.data.pool import NO_CLASS, NO_IMAGE, FileItems, Pool, Source
from hba.data.reading import SkippedFile, image_endings
from hba.errors import DataError, RunError
from hba.utils.files import LOCK_NAME, RUNS
from hba.utils.text import counted, first_of

CLUTTER = frozenset({"__macosx", "thumbs.db", "ehthumbs.db", "desktop.ini", "icon\r"})
"""What systems put into folders; lower case."""
_CLASSES_TOO = frozenset({"train", "valid"})
"""Names of splits that can be classes as well: a vehicle, or the opposite of invalid."""
NEARLY_ALL = 0.9


def folder_source(folder: Path, skip_broken: bool = False) -> Source:
    """The folder as a source of images. Reads names only; DataError for a folder that cannot be used."""
    if not folder.is_dir():
        raise DataError(
            f"{folder} is no folder; give a folder with one sub-folder of images for each class (unpack an archive), a "
            "table of images and labels (.csv, .parquet), or arrays (.npz)"
        )
    layout = find_layout(folder)
    class_names = class_folders(layout.train)
    if len(class_names) < 2:
        raise DataError(
            f"{folder} has one class only, {class_names[0]!r}: add a sub-folder of images for another, or where the "
            "classes are further down, give the folder that holds them"
        )
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
    if not names:
        raise DataError(f"{folder} has no classes: it must hold one sub-folder of images for each class")
    return names


def folder_pool(folder: Path, class_names: tuple[str, ...], skip_broken: bool, is_training: bool = True) -> Pool:
    """The images of one split. A class without images is noted, but not of training images, which splitting refuses."""
    unknown = [path.name for path in subfolders(folder) if path.name not in class_names]
    if unknown:
        raise unknown_class(str(folder), unknown[0], class_names)
    paths: list[Path] = []
    labels: list[int] = []
    loose = _images_directly_in(folder)
    unused = [(NO_CLASS, SkippedFile(str(path), "not in the folder of a class")) for path in loose]
    for label, name in enumerate(class_names):
        files, others = files_in(folder / name)
        paths += files
        labels += [label] * len(files)
        unused += [(label, item) for item in others]
        if not is_training and not files:
            unused.append((label, SkippedFile(str(folder / name), NO_IMAGE)))
    if not paths and loose:
        raise _without_class(folder, loose[0])
    if not paths:
        endings = Counter(Path(item.path).suffix for _, item in unused if item.reason != NO_IMAGE).most_common(1)
        found = f", but {counted(endings[0][1], 'file')} ending in {endings[0][0] or 'nothing'}" if endings else ""
        raise DataError(
            f"{folder} holds no images that can be read{found}; use .png, .jpg, .tif or another ending of an image, or "
            "move the folder away"
        )
    return Pool(FileItems.of(folder, paths), np.array(labels), skip_broken, tuple(unused))


def is_clutter(name: str) -> bool:
    """Whether a file or folder of that name is hidden, or was put there by a system."""
    return name.startswith(".") or name.lower() in CLUTTER


def subfolders(folder: Path) -> list[Path]:
    """Sorted by name, without clutter and without runs that were begun among the images."""
    return sorted(folder / entry.name for entry in _entries(folder) if _is_folder(entry) and not _holds_runs(entry))


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


def _images_directly_in(folder: Path) -> list[Path]:
    return sorted(folder / entry.name for entry in _entries(folder) if not _why_no_image(entry))


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
    """Whether it is where commands put their runs: it holds folders with a run's lock, or empty ones, and no images."""
    if entry.name != RUNS.name:
        return False
    held = _entries(entry.path)
    runs = [{path.name for path in Path(one).iterdir()} for one in held if _is_folder(one)]
    return bool(runs) and all(map(_why_no_image, held)) and all(not run or LOCK_NAME in run for run in runs)


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:
        # A link that leads to itself.
        return False


def _why_no_image(entry: "os.DirEntry[str]") -> str:
    """Empty for an image."""
    if Path(entry.name).suffix.lower() not in image_endings():
        return "its ending is not that of an image"
    try:
        return "" if entry.is_file() else "no file, or a link to a folder or to nothing"
    except OSError:
        return "a link that leads to itself"


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
    """Splits where the folder has them, else classes alone. DataError, with what to rename, for what could be both."""
    children = subfolders(folder)
    splits: dict[str, Path] = {}
    for path in children:
        role = split_called(path.name)
        other = path if role is None else splits.setdefault(role, path)
        if other != path and any(map(subfolders, (other, path))):
            raise DataError(f"{other} and {path.name} both mean {role}: rename or move one of them")
    if "train" not in splits or not subfolders(splits["train"]):
        _refuse_splits_as_classes(folder, children)
        _refuse_equal_subfolders(folder, children)
        return Layout(folder)
    train, val, test = (splits.get(role) for role in SPLITS)
    assert train is not None
    left_out = _beside(folder, children, [path for path in (train, val, test) if path is not None])
    _refuse_splits_as_classes(train, subfolders(train))
    found = {"training": train, "validation": val, "test": test}
    names = {part: path.name for part, path in found.items() if path is not None}
    fact = ", ".join(f"{part} images from {name}" for part, name in names.items())
    return Layout(train, val, test, left_out, "" if set(names.values()) <= set(SPLITS) else fact)


def _beside(folder: Path, children: Sequence[Path], splits: Sequence[Path]) -> tuple[SkippedFile, ...]:
    """The images beside the splits, of which the first is that for training; DataError where they could be a split."""
    train, *others = splits
    class_names = {path.name for path in subfolders(train)}
    for path in splits:
        if (loose := _images_directly_in(path)) and not subfolders(path):
            raise _without_class(path, loose[0])
    with_images = [path for path in children if path not in splits and holds_images(path)]
    roles = {words_of(path.name)[0] for path in splits}
    for path in with_images:
        # A split whose name is not understood would be ignored silently.
        role, _ = words_of(path.name)
        if (role and role not in roles) or class_names & {child.name for child in subfolders(path)}:
            raise DataError(
                f"{path} could be a split: call it train, val, which a search may see, or test, which it may not, or "
                "move it away"
            )
    if with_images and not any(class_names & {child.name for child in subfolders(path)} for path in others):
        raise DataError(
            f"{train} is read as the training split, but {_quoted(with_images)} beside it would then not be read: "
            f"where {train.name} is a class, rename it; where it is not, move the others out of {folder}"
        )
    files = [path for other in with_images for path in files_in(other)[0]]
    return tuple(SkippedFile(str(path), f"beside the split {train.name}") for path in files)


def _refuse_splits_as_classes(folder: Path, children: Sequence[Path]) -> None:
    """What is named like a split and was not read as one would be learned as a class."""
    named = [(path, *words_of(path.name)) for path in children]
    found = [path for path, role, rest in named if role and not rest]
    if len(found) == 1 < len(children) and found[0].name.casefold() in _CLASSES_TOO and not subfolders(found[0]):
        found = []
    roles = {rest: {role for _, role, other in named if role and other == rest} for _, _, rest in named}
    found = found or [path for path, role, rest in named if role and len(roles[rest]) > 1]
    if found:
        raise DataError(
            f"{folder} would be read with {_quoted(found)} as classes, but splits are named so: splits must be in the "
            "folder that is given, as train/<class>, val/<class>, test/<class>"
        )


def _without_class(folder: Path, first: Path) -> DataError:
    return DataError(
        f"{folder} holds images without a class, {first.name} first: sort them into one sub-folder for each class, or "
        "move the folder away"
    )


def _refuse_equal_subfolders(folder: Path, children: Sequence[Path]) -> None:
    """Where all classes have the same sub-folders, those are the classes, or splits of each class."""
    counts = Counter(child.name for path in children for child in subfolders(path))
    common = [name for name, count in counts.items() if count >= max(2, math.ceil(NEARLY_ALL * len(children)))]
    if len(common) >= 2:
        raise DataError(
            f"(nearly) all folders in {folder} have the same sub-folders, {common[0]!r} and {common[1]!r}: where those "
            f"are the classes or splits, put the images of {folder / children[0].name / common[0]} into "
            f"{folder / common[0] / children[0].name}, and so on; where {children[0].name} is a class, move its images "
            "out of their sub-folders"
        )


def _quoted(paths: Sequence[Path]) -> str:
    """`'a', 'b', 'c', 'd' and 3 more`."""
    return first_of([repr(path.name) for path in paths], 4)
