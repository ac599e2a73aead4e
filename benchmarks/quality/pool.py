"""Many runs, a few at a time, each in a process of one thread."""

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from typing import Any, TypeVar

import torch

from hba.errors import HbaError
from hba.runtime.interrupts import without_interrupts

Task = TypeVar("Task")
Results = Mapping[str, Any]
Outcome = Results | str
"""What a run found, or in one line why it could not be done."""


def run_side_by_side(
    run: Callable[[Task], Results], tasks: Sequence[Task], n_processes: int
) -> Iterator[tuple[Task, Outcome]]:
    """Every task with its outcome, as they end. Processes live on from task to task; one alone is this process.

    run: a function of a module. Both it and the tasks must be picklable. Where the caller stops, so do they.
    """
    if n_processes == 1:
        torch.set_num_threads(1)
        for task in tasks:
            yield task, _outcome(run, task)
        return
    # Forked processes would share the state of PyTorch's threads, which have run already.
    context = multiprocessing.get_context("spawn")
    others = multiprocessing.active_children()
    executor = ProcessPoolExecutor(min(n_processes, len(tasks)), context, initializer=_begin)
    try:
        futures: dict[Future[Outcome], Task] = {}
        with without_interrupts():
            futures = {executor.submit(_outcome, run, task): task for task in tasks}
        for future in as_completed(futures):
            yield futures[future], future.result()
    finally:
        executor.shutdown(wait=False, cancel_futures=True)
        for process in multiprocessing.active_children():
            # After Ctrl-C, nobody waits for the runs that are under way.
            if process not in others:
                process.terminate()


def _begin() -> None:
    """Of a process that runs tasks."""
    torch.set_num_threads(1)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A killed parent cannot end its processes, which would wait for tasks for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _outcome(run: Callable[[Task], Results], task: Task) -> Outcome:
    try:
        return run(task)
    except HbaError as error:
        return str(error)
