"""The processes of one computation: how they find each other, agree, and end together."""

import contextlib
import os
import re
import signal
import socket
import threading
import time
import uuid
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
        with override_rank(ProcessInfo(dist.get_rank(), dist.get_world_size())):
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
    with process_group(backend, unfound), override_rank(ProcessInfo(dist.get_rank(), dist.get_world_size())):
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


def broadcast_from_rank0(make: Callable[[], T]) -> T:
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


def rank0_first(make: Callable[[], T]) -> T:
    """What each process makes, the others once the first one has. An HbaError of the first is one of all."""
    made: list[T] = []
    broadcast_from_rank0(lambda: made.append(make()))
    return made[0] if made else make()


@contextlib.contextmanager
def rank0_only(context: AbstractContextManager[object]) -> Iterator[None]:
    """A context that the first process alone is in. An HbaError at its beginning is one of all."""
    with contextlib.ExitStack() as stack:
        broadcast_from_rank0(lambda: stack.enter_context(context) and None)
        yield


@contextlib.contextmanager
def signals_to_rank0() -> Iterator[None]:
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
    if len(set(all_gather_object(own))) < size():
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
    first = broadcast_from_rank0(lambda: dict(told))
    differing = [number for number, name in enumerate(first) if told[name] != first[name]]
    (found,) = largest(rank() * len(first) + differing[0] if differing else 0)
    if found:
        other, number = divmod(found, len(first))
        raise SettingsError(
            f"the {list(first)[number]} must be the same in all processes, but differs between process {other} and the "
            "first; give all the same files and the same version of hba"
        )


def all_gather_object(own: T) -> list[T]:
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


_copies = 1


@contextlib.contextmanager
def copies(n: int) -> Iterator[None]:
    """Here every image of the batch stands n times in what is drawn for."""
    global _copies
    before, _copies = _copies, n
    try:
        yield
    finally:
        _copies = before


def draw_then_shard(n: int, draw: Callable[[int], Tensor], dim: int = 0) -> Tensor:
    """What `draw` draws for the n images of this process: it is given the number of images of the whole batch.

    dim: along which the images are. Every process draws for all images.
    """
    return draw(n) if size() == 1 else own(draw(n * size()), dim)


def own(rows: Tensor, dim: int = 0) -> Tensor:
    """Of rows of the whole batch along dim, those of the images of this process."""
    if size() == 1:
        return rows
    by_process = rows.unflatten(dim, (_copies, size(), -1))
    return by_process.select(dim + 1, rank()).flatten(dim, dim + 1)


def gathered(rows: Tensor) -> Tensor:
    """Rows (B / N, ...) of all processes as those of the whole batch (B, ...), without a graph."""
    if size() == 1:
        return rows
    rows = rows.detach().contiguous()
    parts = [torch.empty_like(rows) for _ in range(size())]
    with explained():
        dist.all_gather(parts, rows)
    return torch.stack([part.unflatten(0, (_copies, -1)) for part in parts], dim=1).flatten(0, 2)


def mean(tensor: Tensor) -> Tensor:
    """The mean over the processes, without a graph: of means over own rows, that over the batch."""
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
    """The mean over the processes of each, in one message."""
    if size() == 1:
        return list(tensors)
    flat = mean(torch.cat([tensor.detach().flatten() for tensor in tensors]))
    parts = flat.split([tensor.numel() for tensor in tensors])
    return [part.view_as(tensor) for part, tensor in zip(parts, tensors, strict=True)]


def average_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Let each process have the gradient of the whole batch, where it has that of its own images."""
    if size() == 1:
        return
    gradients = [one.grad for one in parameters if one.grad is not None]
    for gradient, found in zip(gradients, means(gradients), strict=True):
        gradient.copy_(found)


def check_divides(setting: str, batch_size: int) -> None:
    """SettingsError for a batch that the processes cannot share evenly. setting: what its size is called."""
    if batch_size % size():
        raise SettingsError(
            f"a batch must be a multiple of the {size()} processes, got {batch_size}; start another "
            f"number of processes, or in a new run set {setting} to such a number"
        )


EVERY_SECONDS = 1.0
"""How long a stop is waited for, about. To ask the others costs as much as a small step."""


class Agreement:
    """Asked before every step. wanted: whether this process wants to stop; one of them is enough."""

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
        self.steps_between = max(1, min(2 * self.steps_between, int(1e6 * EVERY_SECONDS / max(1, per_step))))
        self.steps_left, self.asked_at = self.steps_between - 1, now
        return bool(stop)
