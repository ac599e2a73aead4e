"""What lies in a folder: which files are images, and which are left out and why."""

import errno
import functools
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from PIL import Image

from hba.data.decoding import formats
from hba.data.skipped import SkippedFile
from hba.errors import DataError, RunError
from hba.utils.files import LOCK_NAME, RUNS
from hba.utils.text import counted

CLUTTER = frozenset({"__macosx", "thumbs.db", "ehthumbs.db", "desktop.ini", "icon\r"})
"""What systems put into folders; lower case."""

Parts = tuple[str, ...]
"""A path below a folder."""


@functools.cache
def image_endings() -> frozenset[str]:
    """File endings of every format that is read, such as .png; lower case."""
    return frozenset(ending for ending, kind in Image.registered_extensions().items() if kind in formats())


def is_clutter(name: str) -> bool:
    """Whether a file or folder of that name is nobody's data: hidden, or put there by a system."""
    return name.startswith(".") or name.lower() in CLUTTER


def subfolders(folder: Path) -> list[Path]:
    """Sorted by name, without clutter and without runs that were begun among the images."""
    try:
        with os.scandir(folder) as entries:
            found = [folder / entry.name for entry in entries if not is_clutter(entry.name) and _is_folder(entry)]
        return sorted(path for path in found if not _holds_runs(path))
    except OSError as error:
        raise cannot_list(error) from None


def check_beside(out: Path, data: str) -> None:
    """RunError for a run that would lie among the images of a folder, where its own pictures would count as images.

    data: of settings, where folders are absolute and all else is a name. The folder of runs that commands make is not
    read.
    """
    folder, run = Path(data), out.resolve()
    if not (folder.is_absolute() and folder.is_dir() and run.is_relative_to(folder.resolve())):
        return
    if run.relative_to(folder.resolve()).parts[:1] == (RUNS.name,):
        return
    raise RunError(f"out must not lie among the images in {folder}, got {run}; choose another folder")


def files_in(folder: Path) -> tuple[list[Path], list[SkippedFile]]:
    """The images in the folder and its sub-folders, sorted, and all other files; none where there is no folder.

    Clutter, and what lies in hidden folders such as a notebook's checkpoints, is neither.
    """
    if not folder.is_dir():
        return [], []
    try:
        found = sorted(_files(folder))
    except OSError as error:
        raise cannot_list(error) from None
    images = [folder.joinpath(*parts) for parts, reason in found if not reason]
    return images, [SkippedFile(str(folder.joinpath(*parts)), reason) for parts, reason in found if reason]


def images_directly_in(folder: Path) -> list[Path]:
    """Images that lie beside the folder's sub-folders."""
    try:
        with os.scandir(folder) as entries:
            return sorted(folder / entry.name for entry in entries if _is_image(entry))
    except OSError as error:
        raise cannot_list(error) from None


def holds_images(folder: Path) -> bool:
    """Whether there is an image in it or in one of its sub-folders; no more than the first is looked for."""
    try:
        return folder.is_dir() and any(not reason for _, reason in _files(folder))
    except OSError as error:
        raise cannot_list(error) from None


def endings_of(left_out: Iterable[SkippedFile]) -> str:
    """`12 files ending in .npy`, for the ending that occurs most; empty for no files."""
    counts = Counter(Path(item.path).suffix.lower() for item in left_out)
    if not counts:
        return ""
    ((ending, count),) = counts.most_common(1)
    return f"{counted(count, 'file')} " + (f"ending in {ending}" if ending else "without an ending")


def cannot_list(error: OSError) -> DataError:
    return DataError(f"cannot list the images in {error.filename} ({error.strerror}); make it readable")


def changing(error: OSError) -> DataError:
    """For a file that was there, and no longer is."""
    return DataError(f"the images change while they are used ({error}); start again when they no longer change")


def _files(folder: Path | str) -> Iterator[tuple[Parts, str]]:
    """Of each file its path below the folder, in parts, and the reason why it is no image; empty for an image."""
    # Unlike Path.rglob, it knows what is a file without asking for each; ImageNet has a million. Folders may lie deeper
    # than functions can call themselves.
    folders: list[tuple[Path | str, Parts]] = [(folder, ())]
    while folders:
        path, parts = folders.pop()
        with os.scandir(path) as entries:
            for entry in entries:
                if is_clutter(entry.name):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    folders += [] if _holds_runs(Path(entry)) else [(entry.path, (*parts, entry.name))]
                else:
                    yield (*parts, entry.name), "" if _is_image(entry) else _why_no_image(entry)


def _holds_runs(folder: Path) -> bool:
    """Whether it is where commands put their runs, and holds nothing but folders that one has run_lock, or is about to
    claim, and files that are no images.
    """
    if folder.name != RUNS.name:
        return False
    with os.scandir(folder) as entries:
        held = [entry for entry in entries if not is_clutter(entry.name)]
        runs = [Path(entry) for entry in held if _is_folder(entry)]
        return bool(runs) and not any(map(_is_image, held)) and all(map(_is_run, runs))


def _is_run(folder: Path) -> bool:
    names = {path.name for path in folder.iterdir()}
    return not names or LOCK_NAME in names


def _is_image(entry: "os.DirEntry[str]") -> bool:
    known = Path(entry.name).suffix.lower() in image_endings()
    if not known or is_clutter(entry.name):
        return False
    try:
        return entry.is_file()
    except OSError as error:
        return _unless_a_circle(error)


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError as error:
        return _unless_a_circle(error)


def _unless_a_circle(error: OSError) -> bool:
    """False for a link that leads to itself; raises any other error."""
    if error.errno != errno.ELOOP:
        raise error
    return False


def _why_no_image(entry: "os.DirEntry[str]") -> str:
    if _is_folder(entry):
        return "links to folders are not followed"
    path = Path(entry.path)
    if not path.exists():
        return "a link to a file that is not there"
    if not path.is_file():
        return "no file, but a pipe, a socket or a device"
    ending = Path(entry.name).suffix
    return f"{ending} is not the ending of an image" if ending else "no ending that tells an image"
