"""The processes of one computation: how they find each other, agree, and end together."""

import contextlib
import os
import re
import signal
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from hba.errors import HbaError, RunError, SettingsError
from hba.parallel.world import GONE, World, being, is_first, launched, rank, size
from hba.runtime.devices import find_device
from hba.runtime.files import read_text, write_text

TIMEOUT = timedelta(minutes=10)
"""Longest wait for the others, such as for images that only one of them has to read."""
SECONDS_TO_LET_GO = 0.2
"""For Gloo's threads to let go of what they have sent. Before PyTorch 2.8 the end of a group waits for them without
letting them do so: both wait for ever (https://github.com/pytorch/pytorch/pull/154976)."""
SECONDS_TO_LEAVE = 10.0
"""Longest wait for a group to be left after an error, which is then told of."""
AGENT_STORE = "TORCHELASTIC_USE_AGENT_STORE"
RESTARTS = "TORCHELASTIC_RESTART_COUNT"
LOST = re.compile(r"connect|clos|time.?out|timed out|reset|peer|abort", re.IGNORECASE)
"""In what NCCL says of another process that has gone."""
LAUNCH, LAUNCH_NAME = "TORCHELASTIC_RUN_ID", ".launch"

T = TypeVar("T")


@contextlib.contextmanager
def joined() -> Iterator[None]:
    """Around hba.search, the processes that torchrun has started make one search together.

    Where it has started one, or none, this does nothing. A process group that is there already is used, and left.
    Raises RunError where the others are not reached.
    """
    if size() > 1:
        yield
        return
    if dist.is_available() and dist.is_initialized():
        _check_group()
        with being(World(dist.get_rank(), dist.get_world_size())):
            yield
        return
    if launched().size == 1:
        yield
        return
    _check_restart()
    if (local_rank := int(os.environ.get("LOCAL_RANK", "0"))) < torch.cuda.device_count():
        torch.cuda.set_device(local_rank)
    unfound = "the processes of this computation do not find each other; start all of them by torchrun"
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    with process_group(backend, unfound), being(World(dist.get_rank(), dist.get_world_size())):
        yield


@contextlib.contextmanager
def process_group(backend: str, unfound: str = GONE, **how: Any) -> Iterator[None]:
    """Here this process is in a group of torch.distributed, which it leaves in the end.

    how: as init_process_group has it. Raises RunError, with unfound as its message, where the others are not reached.
    """
    with explained(unfound):
        dist.init_process_group(backend, timeout=TIMEOUT, **how)
    try:
        yield
    except BaseException:
        # The others may be in a kernel of NCCL that waits for this process, and leaving the group waits for the kernel.
        leaving = threading.Thread(target=_leave_group, daemon=True)
        leaving.start()
        leaving.join(SECONDS_TO_LEAVE)
        raise
    _leave_group()


def _leave_group() -> None:
    time.sleep(SECONDS_TO_LET_GO)
    dist.destroy_process_group()


def n_restarts() -> int:
    """How often torchrun has started the processes of this launch again."""
    return int(os.environ.get(RESTARTS, "0"))


def note_launch(folder: Path) -> None:
    """Note in a folder by which launch of torchrun its run has begun."""
    if size() > 1:
        write_text(folder / LAUNCH_NAME, os.environ.get(LAUNCH, ""))


def is_restarted_in(folder: Path) -> bool:
    """Whether the run in the folder was begun by the same launch of torchrun, which has started the processes again."""
    path, launch = folder / LAUNCH_NAME, os.environ.get(LAUNCH, "")
    # Without a rendezvous of its own, all launches are called none.
    return size() > 1 and launch not in ("", "none") and path.exists() and read_text(path) == launch


def share_tensors(tensors: Iterable[Tensor]) -> None:
    """Let all processes have the values that they have in the first."""
    if size() == 1:
        return
    with explained(), torch.no_grad():
        for tensor in tensors:
            dist.broadcast(tensor, 0)


def from_first(make: Callable[[], T]) -> T:
    """What the first process makes, handed to all. An HbaError there is one of all."""
    if size() == 1:
        return make()
    found: list[tuple[T | None, HbaError | None]] = [(None, None)]
    if is_first():
        try:
            found = [(make(), None)]
        except HbaError as error:
            found = [(None, error)]
    with explained():
        dist.broadcast_object_list(found)
    made, refused = found[0]
    if refused is not None:
        raise refused
    return made  # type: ignore[return-value]


def after_first(make: Callable[[], T]) -> T:
    """What each process makes, the others once the first one has. An HbaError of the first is one of all."""
    made: list[T] = []
    from_first(lambda: made.append(make()))
    return made[0] if made else make()


@contextlib.contextmanager
def in_first(context: AbstractContextManager[object]) -> Iterator[None]:
    """A context that the first process alone is in. An HbaError at its beginning is one of all."""
    with contextlib.ExitStack() as stack:
        from_first(lambda: stack.enter_context(context) and None)
        yield


@contextlib.contextmanager
def stopped_by_first() -> Iterator[None]:
    """Here the other processes leave Ctrl-C and SIGTERM to the first, which torchrun sends them to as well."""
    if is_first() or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def own_device(name: str) -> torch.device:
    """find_device for this process. SettingsError for one GPU that several processes would compute on.

    All processes call it.
    """
    if size() > 1 and name.startswith("cuda:"):
        raise SettingsError(
            f"device must be cuda or auto where {size()} processes compute together, each on a GPU of its own, got "
            f"{name!r}"
        )
    device = find_device(name)
    if size() > 1 and device.type == "cuda":
        _check_one_each()
    return device


def _check_one_each() -> None:
    """NCCL would say so only behind the reading of all images, and not in a word that explains it."""
    node = f"{os.environ.get('GROUP_RANK', '')} {socket.gethostname()} {uuid.getnode()}"
    own = f"{node} {os.environ.get('CUDA_VISIBLE_DEVICES', '')} {torch.cuda.current_device()}"
    if len(set(all_told(own))) < size():
        raise SettingsError(
            f"each of {size()} processes needs a GPU of its own, but two have the same; start as many on a machine as "
            "it has GPUs, by torchrun --nproc-per-node, or give device cpu"
        )


def check_alike(told: Mapping[str, str]) -> None:
    """SettingsError, in all processes, where one says something else of what it computes with than the first.

    told: by a name that a person understands; all have the same names.
    """
    if size() == 1:
        return
    first = from_first(lambda: dict(told))
    differing = [number for number, name in enumerate(first) if told[name] != first[name]]
    (found,) = largest(rank() * len(first) + differing[0] if differing else 0)
    if found:
        other, number = divmod(found, len(first))
        raise SettingsError(
            f"the {list(first)[number]} must be the same in all processes, but differs between process {other} and the "
            "first; give all the same files and the same version of hba"
        )


def all_told(own: T) -> list[T]:
    """What each process says, by rank. For little: it goes over the CPU."""
    found = [own] * size()
    if size() > 1:
        with explained():
            dist.all_gather_object(found, own)
    return found


def largest(*numbers: int) -> list[int]:
    """Of whole numbers, those that are largest in any process."""
    if size() == 1:
        return list(numbers)
    # On the CPU: a GPU would have to be waited for.
    found = torch.tensor(numbers)
    with explained():
        dist.all_reduce(found, dist.ReduceOp.MAX)
    return [int(one) for one in found.tolist()]


@contextlib.contextmanager
def explained(what: str = GONE) -> Iterator[None]:
    """Around what needs the others: RunError in one line where they are not there."""
    try:
        yield
    except RuntimeError as error:
        if isinstance(error, HbaError):
            raise
        if isinstance(error, dist.DistBackendError) and not LOST.search(str(error)):
            reason = str(error).strip().splitlines()[-1]
            raise RunError(f"the processes of this computation cannot compute together: {reason}") from error
        raise RunError(what) from error


def _check_group() -> None:
    """SettingsError for a process group that cannot send what is on the CPU: whether to stop, and messages."""
    backends = dist.get_backend_config()
    if "cpu" not in backends:
        raise SettingsError(
            f"the process group must be one of the CPU too, got {backends}; make it by "
            "torch.distributed.init_process_group('cpu:gloo,cuda:nccl')"
        )


def _check_restart() -> None:
    """SettingsError where processes that are started again would read the addresses of those that have ended."""
    if n_restarts() > 0 and os.environ.get(AGENT_STORE) == "True":
        raise SettingsError(
            "processes that torchrun starts again need TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 in its environment, else "
            "they wait for those that have ended; start again with it, and --resume"
        )
