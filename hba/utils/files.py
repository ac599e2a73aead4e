"""Writing files whole: a reader, or a later run, never finds one that is half written. Reading what may be anything."""

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from filelock import FileLock, Timeout

from hba.errors import RunError

RUNS = Path("runs")
"""Where the commands put runs that are given no folder."""

MOST_BYTES = 2**28
"""Of a text that is read: a schedule of 100,000 epochs has less."""

NO_FILE = "it is no regular file"


def write_atomically(path: Path, write: Callable[[BinaryIO], object], *, before: Path | None = None) -> None:
    """Let `write` fill a file beside `path`, then put it in its place in one step.

    If the writing stops for any reason, `path` keeps its old content. before: where the old content is put when the new
    one is whole; what stops in between leaves it there, and nothing at `path`. Raises RunError where the system
    refuses.
    """
    # One name per file: the next writer overwrites what a killed one left.
    temporary = path.with_name(f".{path.name}.part")
    try:
        if path.exists() and not path.is_file():
            # As root, a device such as /dev/null would be replaced.
            raise OSError(errno.EINVAL, NO_FILE)
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        if before is not None and path.exists():
            path.replace(before)
        temporary.replace(path)
    except (OSError, RuntimeError) as error:
        # torch.save reports a full disk as RuntimeError.
        raise RunError(f"cannot write {path}: {reason_of(error)}; what was there before is kept") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def write_text(path: Path, text: str) -> None:
    """UTF-8 text, whole or not at all."""
    write_atomically(path, lambda file: file.write(text.encode()))


def open_regular(path: Path) -> BinaryIO:
    """For reading. OSError for what is no file of a disk: a pipe or a device may never end, or never begin."""
    # Opening a pipe would wait for who writes into it.
    file = os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)), "rb")
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise OSError(errno.EINVAL, NO_FILE, str(path))


def read_text(path: Path) -> str:
    """UTF-8 text, with line ends as they are everywhere in Python.

    OSError where it cannot be read, is no regular file, or is larger than MOST_BYTES; UnicodeDecodeError for others.
    """
    with open_regular(path) as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise OSError(errno.EFBIG, f"it has more than {MOST_BYTES // 2**20} MiB", str(path))
    return content.decode().replace("\r\n", "\n").replace("\r", "\n")


def reason_of(error: Exception) -> str:
    """Why something failed, in a few words: the system's, or the first line of the message."""
    return getattr(error, "strerror", None) or next(iter(str(error).splitlines()), type(error).__name__)


LOCK_NAME = ".lock"


@contextlib.contextmanager
def run_lock(folder: Path | None) -> Iterator[None]:
    """Around all that reads or writes a run in a folder, which is made, unless it stays empty. None claims nothing.

    Raises RunError where somebody else has run_lock it, and where it cannot be written into. The operating system holds
    the claim: when a process is killed, it ends with the last of its child processes.
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
        raise RunError(
            f"another search or evaluation is at work in {folder}; wait until it has ended, or choose another --out"
        ) from None
    except NotImplementedError:
        raise RunError(
            f"{folder} is on a file system without locks, so two runs could write over each other; choose another --out"
        ) from None
    except (OSError, ValueError) as error:
        raise RunError(f"cannot write into {folder}: {reason_of(error)}; choose another --out") from None
    try:
        yield
    finally:
        # The lock's file stays beside a run: who has opened it by now would claim what is not there any more.
        with contextlib.suppress(OSError):
            if [entry.name for entry in folder.iterdir()] == [LOCK_NAME]:
                path.unlink()
                if is_new:
                    folder.rmdir()
        lock.release()
