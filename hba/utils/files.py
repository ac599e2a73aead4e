"""Atomic writing and safe reading of files, and the lock of a run folder."""

import contextlib
import errno
import io
import os
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from filelock import FileLock, Timeout

from hba.errors import HbaWarning, RunError

RUNS = Path("runs")
"""Where commands put runs if --out is not given."""
NO_FILE = "it is no regular file"
LOCK_NAME = ".lock"


def write_atomically(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Let `write` fill a temporary file, which replaces `path` in one step.

    Raises:
        RunError: If that fails; `path` is kept.
    """
    # One temporary name per file, so that the next writer overwrites what a killed one
    # left.
    temporary = path.with_name(f".{path.name}.part")
    try:
        if path.exists() and not path.is_file():
            # Root could replace a device such as /dev/null.
            raise OSError(errno.EINVAL, NO_FILE)
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except (OSError, RuntimeError) as error:
        # torch.save reports a full disk as RuntimeError.
        raise RunError(
            f"cannot write {path}: {reason_of(error)}; its old content is kept"
        ) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text, whole or not at all."""
    write_atomically(path, lambda file: file.write(text.encode()))


def copy_file(source: Path, target: Path) -> None:
    """Copy a file, whole or not at all."""
    with source.open("rb") as content:
        write_atomically(target, lambda file: shutil.copyfileobj(content, file))


def save_tensors(path: Path, content: Mapping[str, Any]) -> None:
    """Write tensors, numbers and texts as torch.save does, whole or not at all."""
    import torch

    write_atomically(path, lambda file: torch.save(content, file))


def load_tensors(path: Path) -> Any:
    """Read a file of save_tensors onto the CPU.

    Raises:
        RunError: For a broken file.
    """
    import torch

    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # A broken file can make the reader raise anything.
        raise RunError(
            f"{path} cannot be read ({reason_of(error)}); remove it to start again"
        ) from None


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading.

    Raises:
        OSError: For a pipe or a device, which may never end.
    """
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, NO_FILE, str(path))
    return path.open("rb")


def read_text(path: Path) -> str:
    """Read UTF-8 text, with line ends as \\n, without a byte order mark. Raises OSError
    or UnicodeDecodeError.
    """
    with open_regular(path) as file, io.TextIOWrapper(file, "utf-8-sig") as stream:
        return stream.read()


def reason_of(error: Exception) -> str:
    """Why something failed, in a few words.

    These are the system's reason, or the first line of the message.
    """
    return getattr(error, "strerror", None) or next(
        iter(str(error).splitlines()), type(error).__name__
    )


@contextlib.contextmanager
def run_lock(folder: Path | None) -> Iterator[None]:
    """Make a run folder and hold its lock.

    At the end, remove the folder if it is empty.

    Args:
        folder: None locks nothing.

    Raises:
        RunError: If another process, or a child of one that has ended, holds the lock,
            or if the folder is not writable.
    """
    if folder is None:
        yield
        return
    path = folder / LOCK_NAME
    lock = FileLock(path)
    try:
        is_new = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except Timeout:
        message = (
            f"another search or evaluation is at work in {folder}; wait for its end, or"
            " choose another --out"
        )
        raise RunError(message) from None
    except (OSError, ValueError, NotImplementedError) as error:
        # NotImplementedError: a file system without locks.
        raise RunError(
            f"cannot write into {folder}: {reason_of(error)}; choose another --out"
        ) from None
    try:
        yield
    finally:
        # The lock file of a run stays: another process may have opened it by now.
        with contextlib.suppress(OSError):
            if [entry.name for entry in folder.iterdir()] == [LOCK_NAME]:
                path.unlink()
                if is_new:
                    folder.rmdir()
        lock.release()


def run_of(path: str | Path) -> Path:
    """The folder of a run, which is named by itself or by one of its files."""
    return Path(path).parent if Path(path).is_file() else Path(path)


def resumes(resume: bool, first: Path) -> bool:
    """Whether to resume a run.

    HbaWarning if it stopped before its first file was written, and begins again.

    Args:
        resume: Whether the user wants to resume it.
        first: The file of the run that is written first.
    """
    if resume and not first.exists():
        warnings.warn(
            f"{first.parent} has no {first.name} to resume; the run begins again",
            HbaWarning,
            stacklevel=3,
        )
    return resume and first.exists()


def new_folder(place: Path, name: str) -> Path:
    """Make the folder <place>/<name>-<number> with the first free number.

    Raises:
        RunError: If that is not possible.
    """
    number = 1
    while True:
        path = place / f"{name}-{number}"
        try:
            path.mkdir(parents=True)
            return path
        except FileExistsError:
            number += 1
        except OSError as error:
            raise RunError(
                f"cannot make {path}: {error.strerror}; choose another folder with"
                " --out"
            ) from None
