"""Processes that work side by side. They end when the caller leaves or dies, and leave a Ctrl-C to it."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import resource_tracker
from multiprocessing.context import SpawnContext
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Self, TypeVar

import torch
import torch.multiprocessing

from hba.utils.interrupts import without_interrupts

SECONDS_TO_END = 5

Task = TypeVar("Task")
Result = TypeVar("Result")


class ProcessPool:
    """n_processes of n_threads threads each, from __enter__ to __exit__; they live on from task to task.

    begin: called once in each process, with `arguments`, before its first task. Arguments may hold tensors in shared
    memory, and what `context` makes.
    """

    context: SpawnContext = torch.multiprocessing.get_context("spawn")
    """Forked processes would share the state of PyTorch's threads, which have run already."""

    def __init__(
        self, n_processes: int, n_threads: int, begin: Callable[..., None] | None = None, *arguments: object
    ) -> None:
        self._executor = ProcessPoolExecutor(n_processes, self.context, _begin, (n_threads, begin, arguments))
        self._processes: list[BaseProcess] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End all processes at once, whatever they are doing."""
        for process in self._processes:
            process.terminate()
            process.join(SECONDS_TO_END)
            if process.is_alive():
                process.kill()
                process.join()
        self._executor.shutdown(cancel_futures=True)

    def submit(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> list[Future[Result]]:
        """A future for each task, in their order; they are begun in this order too. To be called once.

        function: of a module; it and the tasks must be picklable.
        """
        others = multiprocessing.active_children()
        # Started together with the first process, it would let interrupts through again.
        resource_tracker.ensure_running()
        with without_interrupts():
            try:
                return [self._executor.submit(function, task) for task in tasks]
            finally:
                self._processes += [process for process in multiprocessing.active_children() if process not in others]

    def exit_code(self) -> int:
        """Of a process that has died, after a BrokenProcessPool."""
        # When one dies, the executor ends the others by a signal; then it has waited for all.
        self._executor.shutdown()
        codes = [process.exitcode for process in self._processes if process.exitcode]
        return next((code for code in codes if code != -signal.SIGTERM), -signal.SIGTERM)


def _begin(n_threads: int, begin: Callable[..., None] | None, arguments: tuple[object, ...]) -> None:
    # Where a Ctrl-C cannot be kept away from a new process, it can be ignored from here on.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(n_threads)
    if begin is not None:
        begin(*arguments)


def _end_with_parent() -> None:
    """A killed parent cannot end its processes, which would wait for tasks for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
