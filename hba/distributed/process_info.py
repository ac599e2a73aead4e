"""Rank of this process and number of processes. Nothing here imports PyTorch."""

import contextlib
import os
from collections.abc import Iterator
from typing import NamedTuple

from hba.errors import SettingsError


class ProcessInfo(NamedTuple):
    """The place of a process among those that compute together."""

    rank: int
    """Of this process, from 0."""
    size: int
    """How many processes there are."""


GONE = "another process of this computation has ended, or does not answer"
ONE = ProcessInfo(0, 1)
_world = ONE


def rank() -> int:
    return _world.rank


def size() -> int:
    return _world.size


def is_first() -> bool:
    """Whether this is rank 0, which writes files and prints."""
    return _world.rank == 0


@contextlib.contextmanager
def override_rank(world: ProcessInfo) -> Iterator[None]:
    """Within this context, this process has the rank and size of `world`."""
    global _world
    before = _world
    _world = world
    try:
        yield
    finally:
        _world = before


def single_process() -> contextlib.AbstractContextManager[None]:
    """Within this context, the process computes alone.

    The others do the same, or nothing.
    """
    return override_rank(ONE)


def check_single_process(task: str) -> None:
    """Check that only one process runs something that cannot be shared.

    Args:
        task: Its name in the message.

    Raises:
        SettingsError: If several processes run it.
    """
    if size() > 1:
        raise SettingsError(
            f"{task} is made by one process, got {size()}; start one, without torchrun"
        )


def launched() -> ProcessInfo:
    """The rank and size in torchrun's environment variables.

    ONE without torchrun, or with one process.
    """
    # All three, because schedulers set WORLD_SIZE for purposes of their own.
    if (
        not {"RANK", "WORLD_SIZE", "MASTER_ADDR"} <= os.environ.keys()
        or os.environ["WORLD_SIZE"] == "1"
    ):
        return ONE
    return ProcessInfo(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
