"""A folder that one process works on at a time."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from hba.errors import RunError
from hba.runtime.files import reason_of

LOCK_NAME = ".lock"


@contextlib.contextmanager
def claimed(folder: Path | None) -> Iterator[None]:
    """Around all that reads or writes a run in a folder, which is made, unless it stays empty. None claims nothing.

    Raises RunError where somebody else has claimed it, and where it cannot be written into. The operating system holds
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
