"""Tasks side by side in processes of this machine, which end when their parent leaves the run or dies."""

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import cache
from multiprocessing import resource_tracker
from multiprocessing.context import SpawnContext
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

import torch
import torch.multiprocessing
from torch import Tensor

from hba.errors import RunError
from hba.executors.executor import (
    NOTHING_SHARED,
    Executor,
    Shared,
    TaskFunction,
    Tensors,
    ignore_steps,
    packed_run,
    packed_task,
    unpacked,
    unpacked_run,
)
from hba.utils.interrupts import without_interrupts

SECONDS_BETWEEN_LOOKS = 0.2
"""Between two looks at the steps of the processes, while no task ends."""
SECONDS_TO_END = 5
CONTEXT: SpawnContext = torch.multiprocessing.get_context("spawn")
"""Forked processes would share the state of PyTorch's threads, which have run already."""

T = TypeVar("T")


class ProcessExecutor(Executor):
    """Runs n_jobs tasks at a time, in processes that share PyTorch's threads."""

    def run(
        self,
        function: TaskFunction,
        tasks: Sequence[Any],
        shared: Shared = NOTHING_SHARED,
        on_step: Callable[[], None] = ignore_steps,
    ) -> Generator[tuple[int, Any]]:
        """See Executor.run."""
        if not tasks:
            return
        contents = [packed_task(task, "use jobs=1") for task in tasks]
        common = packed_run(function, shared, "use jobs=1")
        channel = _Channel()
        arguments = (self.n_threads, common, _in_shared_memory(shared.tensors), channel)
        with _pool(min(self.n_jobs, len(tasks)), arguments) as pool:
            try:
                futures = {future: number for number, future in enumerate(pool.submit(_run, contents))}
                yield from _finished(futures, channel, shared.late_tensors, on_step)
            except BrokenProcessPool:
                raise _death(pool.exit_code(), has_begun=channel.has_begun.value > 0) from None


@dataclass(frozen=True)
class _Channel:
    """What the processes of a run tell their parent, and get from it.

    n_steps: done by all of them. A process asks for the late tensors by `wanted`; they then come by `late`.
    """

    n_steps: Any = field(default_factory=lambda: CONTEXT.Value("q", 0))
    has_begun: Any = field(default_factory=lambda: CONTEXT.Value("b", 0, lock=False))
    wanted: Any = field(default_factory=lambda: CONTEXT.Semaphore(0))
    late: Any = field(default_factory=lambda: CONTEXT.SimpleQueue())

    def fetch(self) -> Tensors:
        self.wanted.release()
        tensors: Tensors = self.late.get()
        return tensors

    def step_done(self) -> None:
        with self.n_steps.get_lock():
            self.n_steps.value += 1

    def steps(self) -> int:
        """Without the lock, which a process that was killed may hold for ever."""
        return int(self.n_steps.get_obj().value)


def _finished(
    futures: Mapping[Future[Any], int], channel: _Channel, late_tensors: Callable[[], Tensors], on_step: Any
) -> Iterator[tuple[int, Any]]:
    """Results as they come; meanwhile reports steps, and sends the late tensors to the processes that ask for them."""
    n_reported, waiting = 0, set(futures)
    late = cache(lambda: _in_shared_memory(late_tensors()))
    while waiting:
        done, waiting = wait(waiting, SECONDS_BETWEEN_LOOKS, FIRST_COMPLETED)
        # Asked before the steps are counted: a process reports its last step before it asks for late tensors.
        n_wanted = 0
        while channel.wanted.acquire(block=False):
            n_wanted += 1
        for _ in range(channel.steps() - n_reported):
            n_reported += 1
            on_step()
        for _ in range(n_wanted):
            channel.late.put(late())
        for future in done:
            if future.exception() is None:
                yield futures[future], future.result()
        # Errors last, so that what ended at the same time is kept.
        for future in done:
            future.result()


def _in_shared_memory(tensors: Sequence[Tensor]) -> Tensors:
    """The tensors on the CPU, where other processes can see them; RunError where there is too little of such memory."""
    found = tuple(tensor.cpu() for tensor in tensors)
    try:
        for tensor in found:
            tensor.share_memory_()
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise RunError(f"the images do not fit into shared memory ({reason}); use jobs 1") from None
    return found


def _death(code: int, *, has_begun: bool) -> RunError:
    """has_begun: whether any process has begun its first task."""
    start = f"a worker process has died (exit code {code})"
    # A code below zero is a signal's, such as that of a system without memory; no script raises it.
    if has_begun or code < 0:
        return RunError(f"{start}; what has ended is kept for --resume, and fewer jobs need less memory")
    return RunError(
        f'{start} before its first step; a script must call hba under `if __name__ == "__main__":`, or use jobs=1'
    )


class _Pool:
    """A ProcessPoolExecutor whose processes never get a Ctrl-C."""

    def __init__(self, n_processes: int, arguments: tuple[Any, ...]) -> None:
        self.executor = ProcessPoolExecutor(n_processes, CONTEXT, _begin, arguments)
        self.processes: list[BaseProcess] = []

    def submit(self, function: Callable[[Any], T], tasks: Sequence[Any]) -> list[Future[T]]:
        others = multiprocessing.active_children()
        # Started together with the first process, it would let interrupts through again.
        resource_tracker.ensure_running()
        with without_interrupts():
            try:
                return [self.executor.submit(function, task) for task in tasks]
            finally:
                self.processes += [process for process in multiprocessing.active_children() if process not in others]

    def exit_code(self) -> int:
        """Of a process that has died, after a BrokenProcessPool."""
        # When one dies, the executor ends the others by a signal; then it has waited for all.
        self.executor.shutdown()
        codes = [process.exitcode for process in self.processes if process.exitcode]
        return next((code for code in codes if code != -signal.SIGTERM), -signal.SIGTERM)

    def end(self) -> None:
        """End all processes at once, whatever they are doing."""
        for process in self.processes:
            process.terminate()
            process.join(SECONDS_TO_END)
            if process.is_alive():
                process.kill()
                process.join()
        self.executor.shutdown(cancel_futures=True)


@contextlib.contextmanager
def _pool(n_processes: int, arguments: tuple[Any, ...]) -> Iterator[_Pool]:
    pool = _Pool(n_processes, arguments)
    try:
        yield pool
    finally:
        pool.end()


_begun: list[tuple[bytes, Tensors, _Channel]] = []
"""Of a worker process: what all its tasks share."""


def _begin(n_threads: int, common: bytes, tensors: Tensors, channel: _Channel) -> None:
    """Called once in a new process."""
    # Where a Ctrl-C cannot be kept away from a new process, it can be ignored from here on.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(n_threads)
    channel.has_begun.value = 1
    _begun.append((common, tensors, channel))


def _end_with_parent() -> None:
    """A killed parent cannot end its processes, which would wait for tasks for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@cache
def _prepared() -> tuple[TaskFunction, Any, Callable[[], None]]:
    """With the first task, not in _begin: there, the pool would hide an error."""
    ((common, tensors, channel),) = _begun
    return *unpacked_run(common, tensors, channel.fetch), channel.step_done


def _run(content: bytes) -> Any:
    function, shared, step_done = _prepared()
    return function(unpacked(content), shared, step_done)
