"""The processes of one torchrun computation: how they find each other, exchange values,
and end together.
"""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from hba.distributed.process_info import (
    GONE,
    ProcessInfo,
    is_first,
    launched,
    override_rank,
    rank,
    size,
)
from hba.errors import HbaError, RunError, SettingsError
from hba.utils.devices import find_device

TIMEOUT = timedelta(minutes=10)
"""Longest wait for the other processes, such as for images that only one of them has to
read.
"""
SECONDS_TO_LET_GO = 0.2
"""Time for Gloo's threads to release what they have sent. Before PyTorch 2.8, the end
of a group waits for them and blocks them: both wait forever
(https://github.com/pytorch/pytorch/pull/154976).
"""
STEPS_BETWEEN_QUESTIONS = 8
"""Steps between two questions to rank 0 whether to stop, each of which costs as much as
a small step.
"""

T = TypeVar("T")


@contextlib.contextmanager
def joined() -> Iterator[None]:
    """The processes that torchrun has started compute together in this context.

    Use it around hba.search and hba.evaluate. Does nothing without torchrun or for one
    process. An existing process group is kept.

    Raises:
        RunError: For lost processes.
    """
    is_new = not (dist.is_available() and dist.is_initialized())
    if is_new and launched().size == 1:
        yield
        return
    if is_new:
        if (
            local_rank := int(os.environ.get("LOCAL_RANK", "0"))
        ) < torch.cuda.device_count():
            torch.cuda.set_device(local_rank)
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        collective(partial(dist.init_process_group, backend, timeout=TIMEOUT))
    with override_rank(ProcessInfo(dist.get_rank(), dist.get_world_size())):
        yield
    # Not after an error: the others may be in a kernel of NCCL that waits for this
    # process, and leaving waits for it.
    if is_new:
        time.sleep(SECONDS_TO_LET_GO)
        dist.destroy_process_group()


def collective(function: Callable[..., object], *arguments: Any) -> None:
    """Call a function of torch.distributed.

    Raises:
        RunError: Of one line, if the other processes do not answer.
    """
    try:
        function(*arguments)
    except RuntimeError as error:
        reason = str(error).strip().rpartition("\n")[2]
        message = (
            f"{GONE}; see the messages of all processes, and resume with --resume"
            f" ({reason})"
        )
        raise RunError(message) from error


def share_tensors(tensors: Iterable[Tensor]) -> None:
    """Overwrite the tensors of all processes with those of rank 0."""
    for tensor in tensors if size() > 1 else ():
        collective(dist.broadcast, tensor.detach(), 0)


def broadcast_from_rank0(make: Callable[[], T]) -> T:
    """Call the function on rank 0 alone, and return its result everywhere.

    Its HbaError is raised everywhere.
    """
    if size() == 1:
        return make()
    outcome: list[tuple[T | None, HbaError | None]] = [(None, None)]
    if is_first():
        try:
            outcome = [(make(), None)]
        except HbaError as error:
            outcome = [(None, error)]
    collective(dist.broadcast_object_list, outcome)
    result, refused = outcome[0]
    if refused is not None:
        raise refused
    return result  # type: ignore[return-value]


def rank0_first(make: Callable[[], T]) -> T:
    """Call the function everywhere, but first on rank 0.

    An HbaError of rank 0 is raised everywhere.
    """
    results: list[T] = []
    broadcast_from_rank0(lambda: results.append(make()))
    return results[0] if results else make()


@contextlib.contextmanager
def rank0_only(context: AbstractContextManager[object]) -> Iterator[None]:
    """Enter the context on rank 0 alone. An HbaError there is raised everywhere."""
    with contextlib.ExitStack() as stack:
        broadcast_from_rank0(lambda: stack.enter_context(context) and None)
        yield


@contextlib.contextmanager
def signals_to_rank0() -> Iterator[None]:
    """Within this context, only rank 0 reacts to Ctrl-C and SIGTERM.

    torchrun sends both to all processes.
    """
    if is_first() or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {
        number: signal.signal(number, signal.SIG_IGN)
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def local_device(name: str) -> torch.device:
    """find_device for this process.

    Raises:
        SettingsError: If two processes would compute on one GPU.
    """
    if size() > 1 and name.startswith("cuda:"):
        raise SettingsError(
            "device must be cuda or auto under torchrun, which gives each process a"
            f" GPU, got {name!r}"
        )
    return find_device(name)


def check_alike(inputs: Mapping[str, str]) -> None:
    """Check that all processes have the same inputs as rank 0.

    Args:
        inputs: By a name for the message.

    Raises:
        SettingsError: In all processes, if one has others.
    """
    all_inputs = [inputs] * size()
    if size() > 1:
        collective(dist.all_gather_object, all_inputs, inputs)
    for number, other in enumerate(all_inputs):
        if differing := [
            name for name, value in other.items() if value != all_inputs[0][name]
        ]:
            problem = (
                f"the {differing[0]} must be the same in all processes, but differs"
                f" between process {number} and"
            )
            raise SettingsError(
                f"{problem} the first; give all the same files and the same version"
                " of hba"
            )


def stop_requested_on_rank0(requested: Callable[[], bool], step: int) -> bool:
    """Whether all processes stop before this step.

    Several processes ask rank 0 only before every eighth step.
    """
    return (
        size() == 1 or step % STEPS_BETWEEN_QUESTIONS == 0
    ) and broadcast_from_rank0(requested)


_n_repeats = 1


@contextlib.contextmanager
def n_repeats(n: int) -> Iterator[None]:
    """Within this context, a batch has every image n times.

    It is the whole batch, then the whole batch again, ...
    """
    global _n_repeats
    before = _n_repeats
    _n_repeats = n
    try:
        yield
    finally:
        _n_repeats = before


def draw_then_shard(
    n_images: int, draw: Callable[[int], Tensor], dim: int = 0
) -> Tensor:
    """Draw for the whole batch, and keep the rows of this process's images.

    Args:
        n_images: Number of images of this process.
        draw: Called with the number of images of the whole batch.
        dim: Along which images are.
    """
    return draw(n_images) if size() == 1 else local_shard(draw(n_images * size()), dim)


def local_shard(rows: Tensor, dim: int = 0) -> Tensor:
    """From the whole batch's rows along dim, keep those of this process's images."""
    if size() == 1:
        return rows
    by_process = rows.unflatten(dim, (_n_repeats, size(), -1))
    return by_process.select(dim + 1, rank()).flatten(dim, dim + 1)


def all_gather(rows: Tensor) -> Tensor:
    """Gather the rows of all processes, without a graph.

    Args:
        rows: (B / N, ...) of each of N processes.

    Returns:
        Rows (B, ...) in the order of the whole batch.
    """
    if size() == 1:
        return rows
    rows = rows.detach().contiguous()
    by_process = [torch.empty_like(rows) for _ in range(size())]
    collective(dist.all_gather, by_process, rows)
    return torch.stack(
        [gathered.unflatten(0, (_n_repeats, -1)) for gathered in by_process], dim=1
    ).flatten(0, 2)


def mean(tensor: Tensor) -> Tensor:
    """The mean over the processes, without a graph."""
    return tensor if size() == 1 else total(tensor) / size()


def total(tensor: Tensor) -> Tensor:
    """The sum over the processes, without a graph."""
    if size() == 1:
        return tensor
    summed = tensor.detach().clone()
    collective(dist.all_reduce, summed)
    return summed


def means(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The mean over the processes of each tensor, in one message, without a graph."""
    if size() == 1:
        return list(tensors)
    flat = mean(torch.cat([tensor.detach().flatten() for tensor in tensors]))
    pieces = flat.split([tensor.numel() for tensor in tensors])
    return [
        piece.view_as(tensor) for piece, tensor in zip(pieces, tensors, strict=True)
    ]


def average_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Replace the gradients of this process's images by those of the whole batch."""
    if size() == 1:
        return
    gradients = [
        parameter.grad for parameter in parameters if parameter.grad is not None
    ]
    for gradient, average in zip(gradients, means(gradients), strict=True):
        gradient.copy_(average)
