"""Ctrl-C reaches every process of a terminal's group; the one that the user started decides what it means."""

import contextlib
import signal
from collections.abc import Iterator


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
