"""Which of the processes of one computation this is. Nothing here imports PyTorch."""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass

from hba.errors import SettingsError


@dataclass(frozen=True)
class ProcessInfo:
    """rank: of this process, from 0. size: how many there are."""

    rank: int
    size: int


GONE = "another process of this computation has ended, or does not answer; see what it says, and resume with --resume"
ONE = ProcessInfo(0, 1)
_world = ONE


def rank() -> int:
    return _world.rank


def size() -> int:
    return _world.size


def is_first() -> bool:
    """Whether this is the process that writes files and speaks."""
    return _world.rank == 0


@contextlib.contextmanager
def override_rank(world: ProcessInfo) -> Iterator[None]:
    """Here this process is that of the world."""
    global _world
    before, _world = _world, world
    try:
        yield
    finally:
        _world = before


@contextlib.contextmanager
def single_process() -> Iterator[None]:
    """What this process computes here is by itself: the others know nothing of it, or all do the same."""
    with override_rank(ONE):
        yield


def check_alone(what: str) -> None:
    """SettingsError where several processes would do what one has to do by itself."""
    if size() > 1:
        raise SettingsError(f"{what} is made by one process, got {size()}; start one, without torchrun")


def launched() -> ProcessInfo:
    """What torchrun says of this process in its environment; ONE where it has started one, or none."""
    # All three: schedulers set WORLD_SIZE for purposes of their own.
    if not {"RANK", "WORLD_SIZE", "MASTER_ADDR"} <= os.environ.keys() or os.environ["WORLD_SIZE"] == "1":
        return ONE
    return ProcessInfo(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
