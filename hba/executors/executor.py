"""Runs many independent tasks: one after the other, or in processes of this machine."""

import multiprocessing
import os
import pickle
import signal
import threading
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import cache
from multiprocessing import forkserver, resource_tracker
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from typing import Any

import cloudpickle
import numpy as np
import torch
import torch.multiprocessing
from torch import Tensor

from hba.data.images import Images, LabelledImages, LazySplit
from hba.errors import HbaWarning, RunError, SettingsError
from hba.operations import register_operation, registered_operations
from hba.regularization.groups import register_regularizer, registered_regularizers
from hba.utils.devices import environment
from hba.utils.files import reason_of
from hba.utils.processes import check_can_start, obstacle, without_interrupts

SECONDS_BETWEEN_REPORTS = 0.2
"""Interval at which the steps of other processes are reported while no task ends."""
START_METHOD = next(
    method
    for method in ("forkserver", "spawn")
    if method in multiprocessing.get_all_start_methods()
)
"""How processes start. Copies of this process would share the state of PyTorch's
threads, which have run already. A server, which has loaded modules and computed
nothing, starts others in a fraction of a second.
"""
SAFE_PATH = "PYTHONSAFEPATH"
"""The variable that keeps a new Python from importing from the current folder."""
CONTEXT: BaseContext = torch.multiprocessing.get_context(START_METHOD)
"""Starts processes by START_METHOD."""
if START_METHOD == "forkserver":
    CONTEXT.set_forkserver_preload(
        [
            "hba.policy_evaluation.evaluation",
            "hba.policy_search.seeds",
            "timm",
            "sklearn",
        ]
    )

Tensors = tuple[Tensor, ...]
OnStep = Callable[[], None]
"""Called after every step."""
Results = Generator[tuple[int, Any]]
"""The number and the result of each task."""
TaskFunction = Callable[[Any, Any, OnStep], Any]
"""Called with a task, with what all tasks share, and with a function to be called after
every step.
"""


@dataclass(frozen=True)
class Shared:
    """What all tasks of a run have in common."""

    value: Any = None
    """Must be picklable if the tasks run elsewhere."""
    tensors: Tensors = ()
    """In memory that processes share, if it suffices."""
    prepare: Callable[[Any, Tensors], Any] = lambda value, tensors: value
    """A function at the top level of a module, called once in each process with both;
    every task gets its result.
    """


class Executor:
    """Runs tasks.

    Args:
        device: Of each task.
        n_jobs: Number of tasks at a time.
    """

    def __init__(self, device: torch.device, n_jobs: int = 1) -> None:
        self.device = device
        self.n_jobs = n_jobs

    @property
    def n_threads(self) -> int:
        """Number of PyTorch's threads for each task."""
        return max(1, torch.get_num_threads() // self.n_jobs)

    @property
    def description(self) -> str:
        """The device in words, for a plan."""
        return str(self.device)

    def environment(self) -> Mapping[str, Any]:
        return {**environment(self.device), "n_threads": self.n_threads}

    def run(
        self,
        function: TaskFunction,
        tasks: Sequence[Any],
        shared: Shared,
        on_step: OnStep,
    ) -> Results:
        """Yield the number and the result of each task, in the order in which they end.

        All processes end with the generator.

        Args:
            function: Computes a task.
            tasks: What it is called with.
            shared: What all tasks have in common.
            on_step: Called in this process for each step of any task.

        Raises:
            Exception: That of a task, after results that arrived with it.
            RunError: If a machine or process is lost.
        """
        raise NotImplementedError


class SerialExecutor(Executor):
    """Runs one task after the other, and pickles nothing."""

    def run(
        self,
        function: TaskFunction,
        tasks: Sequence[Any],
        shared: Shared,
        on_step: OnStep,
    ) -> Results:
        prepared = shared.prepare(shared.value, shared.tensors)
        for number, task in enumerate(tasks):
            yield number, function(task, prepared, on_step)


class ProcessExecutor(Executor):
    """Runs n_jobs tasks at a time, in processes that share PyTorch's threads.

    Raises SettingsError if none can start.
    """

    def __init__(self, device: torch.device, n_jobs: int) -> None:
        check_can_start(f"use jobs=1, got {n_jobs}")
        super().__init__(device, n_jobs)

    def run(
        self,
        function: TaskFunction,
        tasks: Sequence[Any],
        shared: Shared,
        on_step: OnStep,
    ) -> Results:
        contents = [packed(task) for task in tasks]
        n_steps = CONTEXT.Value("q", 0)
        n_reported = 0
        arguments = (
            self.n_threads,
            packed_run(function, shared),
            self._sendable(shared.tensors),
            n_steps,
        )

        def report_steps() -> None:
            nonlocal n_reported
            # Without the lock, which a process that was killed may hold forever.
            for _ in range(n_steps.get_obj().value - n_reported):
                n_reported += 1
                on_step()

        earlier_processes = multiprocessing.active_children()
        processes = list[BaseProcess]()
        _start_servers()
        pool = ProcessPoolExecutor(self.n_jobs, CONTEXT, _begin, arguments)
        try:
            with without_interrupts():
                futures = {
                    pool.submit(_run, content): number
                    for number, content in enumerate(contents)
                }
                processes += [
                    process
                    for process in multiprocessing.active_children()
                    if process not in earlier_processes
                ]
            yield from results_of(futures, report_steps)
        except BrokenProcessPool:
            remedy = (
                "Fewer jobs need less memory, and a script must call hba under `if"
                ' __name__ == "__main__":`'
            )
            raise RunError(
                "a worker process has died; finished tasks are kept for --resume."
                f" {remedy}"
            ) from None
        finally:
            for process in processes:
                process.terminate()
            pool.shutdown(cancel_futures=True)

    def _sendable(self, tensors: Sequence[Tensor]) -> Sequence[Tensor | np.ndarray]:
        """The tensors in memory that all processes see. If there is too little, arrays,
        of which each gets a copy.
        """
        on_cpu = [tensor.cpu() for tensor in tensors]
        try:
            return [tensor.share_memory_() for tensor in on_cpu]
        except RuntimeError as error:
            problem = (
                f"the images do not fit into shared memory ({reason_of(error)}), so"
                f" each of {self.n_jobs} processes"
            )
            remedy = (
                "enlarge /dev/shm (in Docker: --ipc=host, or --shm-size), or use jobs 1"
            )
            warnings.warn(
                f"{problem} keeps a copy; to save memory, {remedy}",
                HbaWarning,
                stacklevel=2,
            )
            return [tensor.numpy() for tensor in on_cpu]


def _start_servers() -> None:
    """Start the processes of multiprocessing that every other process needs.

    Python starts them by a command, which would import modules from the current folder
    first, such as a user's random.py, unlike this process.
    """
    before = os.environ.get(SAFE_PATH)
    os.environ[SAFE_PATH] = "1"
    try:
        # If it started with the first process, it would let interrupts through again.
        resource_tracker.ensure_running()
        if START_METHOD == "forkserver":
            forkserver.ensure_running()
    finally:
        if before is None:
            del os.environ[SAFE_PATH]
        else:
            os.environ[SAFE_PATH] = before


def results_of(
    futures: Mapping[Future[Any], int], report_steps: Callable[[], None] = lambda: None
) -> Iterator[tuple[int, Any]]:
    """The number and the result of each future, as they end.

    Args:
        futures: With the number of each.
        report_steps: Called several times a second meanwhile.
    """
    waiting = set(futures)
    while waiting:
        done, waiting = wait(waiting, SECONDS_BETWEEN_REPORTS, FIRST_COMPLETED)
        report_steps()
        # Errors last, so that what ended at the same time is kept.
        for future in sorted(done, key=lambda ended: ended.exception() is not None):
            yield futures[future], future.result()


def tensors_of(split: Images | LazySplit) -> Tensors:
    """Images and labels; SettingsError for images that stay in their files."""
    images = split.opened()
    if not isinstance(images, LabelledImages):
        raise SettingsError(
            "images that are streamed from their files allow one task at a time: use"
            " jobs 1"
        )
    return images.images, images.labels


def number_of_jobs(
    asked: int | None, n_tasks: int, images: Images, device: torch.device | None
) -> int:
    """How many tasks run at a time on this machine, at most n_tasks.

    Args:
        asked: None means default_jobs, but 1 for streamed images.
        n_tasks: Number of tasks.
        images: What the tasks read.
        device: None for a cluster.
    """
    if asked is None:
        is_streamed = not isinstance(images, LabelledImages)
        asked = 1 if device is None or is_streamed else default_jobs(device)
    return max(1, min(asked, n_tasks))


def default_jobs(device: torch.device) -> int:
    """Number of tasks at a time, if none is given.

    One for each thread of PyTorch on a CPU; 1 on a GPU, and where no process can be
    started.
    """
    return torch.get_num_threads() if device.type == "cpu" and obstacle() is None else 1


_worker_state: list[tuple[bytes, Tensors, Any]] = []
"""In a worker process: what all its tasks share, and the number of steps that all
processes have done.
"""


def _begin(
    n_threads: int, common: bytes, tensors: Sequence[Tensor | np.ndarray], n_steps: Any
) -> None:
    # Where a Ctrl-C cannot be kept away from a new process, it can be ignored from here
    # on.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(n_threads)
    _worker_state.append(
        (common, tuple(torch.as_tensor(array) for array in tensors), n_steps)
    )


def _end_with_parent() -> None:
    """End with a parent that was killed. Otherwise, this process would wait for tasks
    forever.
    """
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@cache
def _prepare_worker() -> tuple[TaskFunction, Any, OnStep]:
    """Called with the first task, not in _begin, where the pool would hide an error."""
    ((common, tensors, n_steps),) = _worker_state

    def step_done() -> None:
        with n_steps.get_lock():
            n_steps.value += 1

    return *unpacked_run(common, tensors), step_done


def _run(content: bytes) -> Any:
    function, shared, step_done = _prepare_worker()
    return function(pickle.loads(content), shared, step_done)


def packed(parts: Any) -> bytes:
    """Pickle with cloudpickle.

    Raises:
        SettingsError: If that fails; names a task by its `name`.
    """
    try:
        return bytes(cloudpickle.dumps(parts))
    except Exception as error:
        name = getattr(parts, "name", "what all tasks share")
        problem = (
            f"{name} cannot be sent to another process ({reason_of(error)}); use"
            " jobs=1, and omit cluster"
        )
        raise SettingsError(problem) from None


def packed_run(function: TaskFunction, shared: Shared) -> bytes:
    """What all tasks share, without tensors.

    It includes the operations and regularizers that the user has registered.
    """
    return packed(
        (
            registered_operations(),
            registered_regularizers(),
            function,
            shared.prepare,
            shared.value,
        )
    )


def unpacked_run(content: bytes, tensors: Tensors) -> tuple[TaskFunction, Any]:
    """The function and the prepared value.

    Registers the user's operations and regularizers.
    """
    operations, regularizers, function, prepare, value = pickle.loads(content)
    for operation in operations:
        register_operation(operation)
    for regularizer in regularizers:
        register_regularizer(regularizer)
    return function, prepare(value, tensors)
