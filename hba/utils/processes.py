"""What other processes of this machine need: locks, sockets, and Ctrl-C kept away from
them.
"""

import contextlib
import multiprocessing
import os
import signal
import tempfile
from collections.abc import Iterator
from multiprocessing.util import get_temp_dir

from hba.errors import SettingsError
from hba.utils.files import reason_of

LONGEST_PATH = 70
"""Bytes in the path of a temporary folder. Those of sockets in it have 32 more, of at
most 103 on all systems.
"""
SHORT_FOLDER = "/tmp"


def obstacle() -> str | None:
    """Why this process cannot start others, and what to do; None if it can."""
    if multiprocessing.current_process().daemon:
        return (
            "a daemonic process, such as a worker of multiprocessing.Pool, cannot start"
            " other processes"
        )
    try:
        multiprocessing.Lock()
    except (OSError, ImportError) as error:
        reason = f"processes need locks, which cannot be made ({reason_of(error)})"
        return (
            f"{reason}: make /dev/shm writable, in Docker with --ipc=host or --shm-size"
        )
    try:
        _make_socket_folder()
    except OSError as error:
        reason = (
            "processes need a folder for sockets, which cannot be made"
            f" ({reason_of(error)})"
        )
        return (
            f"{reason}: set TMPDIR to a writable folder with a path of at most"
            f" {LONGEST_PATH} bytes"
        )
    return None


def end_if_importing_main() -> None:
    """End this process if it is a worker that is only importing the user's script.

    A script that calls hba without `if __name__ == "__main__":` would begin its run
    again in every worker. The error of the process that started them names the remedy.
    """
    # multiprocessing refuses new processes by the same attribute.
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise SystemExit(1)


def check_can_start(remedy: str) -> None:
    """SettingsError, ending with the remedy, if this process cannot start others."""
    if (reason := obstacle()) is not None:
        raise SettingsError(f"{reason}; or {remedy}")


def _make_socket_folder() -> None:
    """Make the folder of multiprocessing, which this process and its children use until
    they end.

    Where the temporary folder's path is too long for those of sockets, it is in
    SHORT_FOLDER.
    """
    before = tempfile.tempdir
    is_long = (
        os.name == "posix" and len(os.fsencode(tempfile.gettempdir())) > LONGEST_PATH
    )
    try:
        if is_long:
            tempfile.tempdir = SHORT_FOLDER
        get_temp_dir()
    finally:
        tempfile.tempdir = before


@contextlib.contextmanager
def without_interrupts() -> Iterator[None]:
    """Processes that start in this context never get Ctrl-C.

    This one gets it at the end, and must end the others.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
