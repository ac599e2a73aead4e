"""A folder that one process works on at a time."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from hba.errors import RunError

LOCK_NAME = ".lock"


@contextlib.contextmanager
def claimed(folder: Path | None) -> Iterator[None]:
    """Around all that reads or writes a run in a folder, which is made, unless it stays empty. None claims nothing.

    Raises RunError where somebody else has claimed it, and where it cannot be written into. A process that is killed
    gives up its claim, because the operating system holds it.
    """
    if folder is None:
        yield
        return
    path = folder / LOCK_NAME
    lock, is_new = FileLock(path), not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except Timeout:
        raise RunError(
            f"another search or evaluation is at work in {folder}; wait until it has ended, or choose another --out"
        ) from None
    except OSError as error:
        raise RunError(f"cannot write into {folder}: {error.strerror or error}; choose another --out") from None
    try:
        yield
    finally:
        # Before the lock is given up: afterwards it may be somebody else's.
        with contextlib.suppress(OSError):
            path.unlink()
            if is_new:
                folder.rmdir()
        lock.release()
