"""Ctrl-C reaches every process of a terminal's group; the one that the user started decides what it means."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


@contextlib.contextmanager
def without_interrupts() -> Iterator[None]:
    """Processes that start here never get a Ctrl-C; this one gets it at the end, and has to end the others."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """Here SIGTERM, by which schedulers end a job, is a Ctrl-C. Signals are for a process's first thread alone."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
