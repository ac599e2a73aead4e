"""The processes of one torchrun computation: how they find each other, exchange values, and end together."""

import contextlib
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from hba.distributed.process_info import GONE, ProcessInfo, is_first, launched, override_rank, rank, size
from hba.errors import HbaError, RunError, SettingsError
from hba.utils.devices import find_device
from hba.utils.files import read_text, write_text

TIMEOUT = timedelta(minutes=10)
"""Longest wait for the other processes, such as for images that only one of them has to read."""
SECONDS_TO_LET_GO = 0.2
"""For Gloo's threads to release what they have sent. Before PyTorch 2.8 the end of a group waits for them without
letting them do so: both wait for ever (https://github.com/pytorch/pytorch/pull/154976)."""
SECONDS_TO_LEAVE = 10.0
"""Longest wait for a group to be left after an error, which is then raised."""
SECONDS_BETWEEN_VOTES = 1.0
"""How long a stop takes to reach all processes, about. To ask them costs as much as a small step."""
LOST = re.compile(r"connect|clos|time.?out|timed out|reset|peer|abort", re.IGNORECASE)
"""In NCCL's messages on another process that has gone."""
LAUNCH, LAUNCH_NAME = "TORCHELASTIC_RUN_ID", ".launch"
CPU_AND_GPU = "cpu:gloo,cuda:nccl"

T = TypeVar("T")


@contextlib.contextmanager
def joined() -> Iterator[None]:
    """Around hba.search and hba.evaluate, lets the processes that torchrun has started compute together.

    Without torchrun, or with one process, it does nothing. A process group that exists already is used, and kept.
    Raises RunError where the other processes are not reached.
    """
    if size() > 1:
        yield
        return
    if dist.is_available() and dist.is_initialized():
        with override_rank(ProcessInfo(dist.get_rank(), dist.get_world_size())):
            yield
        return
    if launched().size == 1:
        yield
        return
    if (local_rank := int(os.environ.get("LOCAL_RANK", "0"))) < torch.cuda.device_count():
        torch.cuda.set_device(local_rank)
    unfound = "the processes of this computation do not find each other; start all of them by torchrun"
    backend = CPU_AND_GPU if torch.cuda.is_available() else "gloo"
    with process_group(backend, unfound), override_rank(ProcessInfo(dist.get_rank(), dist.get_world_size())):
        yield


@contextlib.contextmanager
def process_group(backend: str, unfound: str = GONE, **how: Any) -> Iterator[None]:
    """A context in which this process belongs to a group of torch.distributed.

    how: arguments of init_process_group. unfound: the message of the RunError where the others are not reached.
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


def note_launch(folder: Path) -> None:
    """Write into a run's folder which launch of torchrun has begun it."""
    if size() > 1:
        write_text(folder / LAUNCH_NAME, os.environ.get(LAUNCH, ""))


def is_restarted_in(folder: Path) -> bool:
    """Whether this launch of torchrun has begun the run in the folder, and has restarted its processes since."""
    path, launch = folder / LAUNCH_NAME, os.environ.get(LAUNCH, "")
    # Without a rendezvous of its own, every launch is called none.
    return size() > 1 and launch not in ("", "none") and path.exists() and read_text(path) == launch


@contextlib.contextmanager
def explained(what: str = GONE) -> Iterator[None]:
    """Around collective calls: a RunError of one line where the other processes are not there."""
    try:
        yield
    except RuntimeError as error:
        if isinstance(error, HbaError):
            raise
        if isinstance(error, dist.DistBackendError) and not LOST.search(str(error)):
            reason = str(error).strip().splitlines()[-1]
            raise RunError(f"the processes of this computation cannot compute together: {reason}") from error
        raise RunError(what) from error


def share_tensors(tensors: Iterable[Tensor]) -> None:
    """Overwrite the tensors of all processes with those of rank 0."""
    if size() == 1:
        return
    with explained(), torch.no_grad():
        for tensor in tensors:
            dist.broadcast(tensor, 0)


def broadcast_from_rank0(make: Callable[[], T]) -> T:
    """Call the function on rank 0 alone, and return its result everywhere. Its HbaError is raised everywhere."""
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


def rank0_first(make: Callable[[], T]) -> T:
    """Call the function everywhere, but first on rank 0, whose HbaError is raised everywhere."""
    made: list[T] = []
    broadcast_from_rank0(lambda: made.append(make()))
    return made[0] if made else make()


@contextlib.contextmanager
def rank0_only(context: AbstractContextManager[object]) -> Iterator[None]:
    """Enter the context on rank 0 alone. An HbaError there is raised everywhere."""
    with contextlib.ExitStack() as stack:
        broadcast_from_rank0(lambda: stack.enter_context(context) and None)
        yield


@contextlib.contextmanager
def signals_to_rank0() -> Iterator[None]:
    """Within this context, only rank 0 reacts to Ctrl-C and SIGTERM, which torchrun sends to all processes."""
    if is_first() or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def local_device(name: str) -> torch.device:
    """find_device for this process. SettingsError where two would compute on one GPU."""
    if size() > 1 and name.startswith("cuda:"):
        raise SettingsError(
            f"device must be cuda or auto where {size()} processes compute together, each on a GPU of its own, got "
            f"{name!r}"
        )
    return find_device(name)


def check_alike(inputs: Mapping[str, str]) -> None:
    """SettingsError everywhere where a process has other inputs than rank 0. inputs: by a name for people."""
    if size() == 1:
        return
    first = broadcast_from_rank0(lambda: dict(inputs))
    differing = [number for number, name in enumerate(first) if inputs[name] != first[name]]
    (found,) = largest(rank() * len(first) + differing[0] if differing else 0)
    if found:
        other, number = divmod(found, len(first))
        raise SettingsError(
            f"the {list(first)[number]} must be the same in all processes, but differs between process {other} and the "
            "first; give all the same files and the same version of hba"
        )


def all_gather_object(value: T) -> list[T]:
    """The small values of all processes, by rank; they go over the CPU."""
    found = [value] * size()
    if size() > 1:
        with explained():
            dist.all_gather_object(found, value)
    return found


def largest(*numbers: int) -> list[int]:
    """The maximum over the processes of each number."""
    if size() == 1:
        return list(numbers)
    # On the CPU: a GPU would have to be waited for.
    found = torch.tensor(numbers)
    with explained():
        dist.all_reduce(found, dist.ReduceOp.MAX)
    return [int(one) for one in found.tolist()]


_n_repeats = 1


@contextlib.contextmanager
def n_repeats(n: int) -> Iterator[None]:
    """Within this context, every image stands n times in a batch: the whole batch, then the whole batch again, ..."""
    global _n_repeats
    before, _n_repeats = _n_repeats, n
    try:
        yield
    finally:
        _n_repeats = before


def draw_then_shard(n: int, draw: Callable[[int], Tensor], dim: int = 0) -> Tensor:
    """Draw for the whole batch, whose size `draw` is called with, and keep the rows of this process's n images.

    dim: the dimension of the images.
    """
    return draw(n) if size() == 1 else local_shard(draw(n * size()), dim)


def local_shard(rows: Tensor, dim: int = 0) -> Tensor:
    """Of rows of the whole batch along dim, those of this process's images."""
    if size() == 1:
        return rows
    by_process = rows.unflatten(dim, (_n_repeats, size(), -1))
    return by_process.select(dim + 1, rank()).flatten(dim, dim + 1)


def all_gather(rows: Tensor) -> Tensor:
    """Rows (B / N, ...) of all N processes in the order of the whole batch (B, ...), without a graph."""
    if size() == 1:
        return rows
    rows = rows.detach().contiguous()
    parts = [torch.empty_like(rows) for _ in range(size())]
    with explained():
        dist.all_gather(parts, rows)
    return torch.stack([part.unflatten(0, (_n_repeats, -1)) for part in parts], dim=1).flatten(0, 2)


def mean(tensor: Tensor) -> Tensor:
    """The mean over the processes, without a graph."""
    return tensor if size() == 1 else total(tensor) / size()


def total(tensor: Tensor) -> Tensor:
    """The sum over the processes, without a graph."""
    if size() == 1:
        return tensor
    summed = tensor.detach().clone()
    with explained():
        dist.all_reduce(summed)
    return summed


def means(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The mean over the processes of each tensor, in one message, without a graph."""
    if size() == 1:
        return list(tensors)
    flat = mean(torch.cat([tensor.detach().flatten() for tensor in tensors]))
    parts = flat.split([tensor.numel() for tensor in tensors])
    return [part.view_as(tensor) for part, tensor in zip(parts, tensors, strict=True)]


def average_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Replace the gradients of this process's images by those of the whole batch."""
    if size() == 1:
        return
    gradients = [one.grad for one in parameters if one.grad is not None]
    for gradient, found in zip(gradients, means(gradients), strict=True):
        gradient.copy_(found)


def check_divides(setting: str, batch_size: int) -> None:
    """SettingsError for a batch that the processes cannot share evenly. setting: the name of its size."""
    if batch_size % size():
        raise SettingsError(
            f"a batch must be a multiple of the {size()} processes, got {batch_size}; start another "
            f"number of processes, or in a new run set {setting} to such a number"
        )


class Agreement:
    """Decides before every step whether all processes stop. wanted: whether this one wants to; one is enough."""

    def __init__(self, wanted: Callable[[], bool]) -> None:
        self.wanted = wanted
        self.steps_left = 0
        self.steps_between = 0
        self.asked_at = time.monotonic()

    def reached(self) -> bool:
        if size() == 1:
            return self.wanted()
        if self.steps_left:
            self.steps_left -= 1
            return False
        now = time.monotonic()
        microseconds = round(1e6 * (now - self.asked_at) / max(1, self.steps_between))
        # The slowest process decides for all, so that they ask again before the same step.
        stop, per_step = largest(self.wanted(), microseconds)
        # A step may take longer than those before, and before the first nothing is known.
        self.steps_between = max(1, min(2 * self.steps_between, int(1e6 * SECONDS_BETWEEN_VOTES / max(1, per_step))))
        self.steps_left, self.asked_at = self.steps_between - 1, now
        return bool(stop)
