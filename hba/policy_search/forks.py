"""Runs parts of a search in parallel, in processes of this machine or on a Ray cluster.

Each process makes the same steps, from a copy of the state, as this one would.
"""

import contextlib
import pickle
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

from hba.algorithms import Algorithm
from hba.data.images import LabelledImages, SearchData
from hba.executors.executor import (
    Executor,
    ProcessExecutor,
    Shared,
    Tensors,
    number_of_jobs,
    packed,
    tensors_of,
)
from hba.executors.ray_executor import executor_for
from hba.policy_search.callbacks import SearchCallback
from hba.policy_search.checkpoint import RunFolder
from hba.policy_search.context import ImageSearchContext
from hba.policy_search.trainer import SearchTrainer
from hba.utils.devices import explained_memory_errors, find_device
from hba.utils.seeding import default_generators
from hba.utils.text import counted


def trainer_for(
    jobs: int | None,
    machines: ModuleType | None,
    context: ImageSearchContext,
    folder: RunFolder | None,
) -> SearchTrainer:
    """The trainer of a search.

    Args:
        jobs: How many parts run at a time; None for one for each thread of a CPU.
        machines: The module ray, if they run on a cluster.
        context: The search.
        folder: The folder of the run, if there is one.
    """
    problem = context.problem
    algorithm = context.config.algorithm
    if not algorithm.has_parallel_parts:
        return SearchTrainer(context, folder)
    most = algorithm.most_parallel_parts(problem.space)
    n_jobs = number_of_jobs(jobs, most, problem.data.train, problem.device)
    if most == 1 or (machines is None and n_jobs == 1):
        return SearchTrainer(context, folder)
    executor = executor_for(str(problem.device), n_jobs, machines)
    return ForkingTrainer(context, algorithm, folder, executor)


class Stopped(Exception):
    """The callback requests a stop while forks are running."""


class ForkingTrainer(SearchTrainer):
    """Trains a search whose parallel parts an executor runs.

    A resumed search keeps finished parts and restarts the others.
    """

    def __init__(
        self,
        context: ImageSearchContext,
        algorithm: Algorithm,
        folder: RunFolder | None,
        executor: Executor,
    ) -> None:
        super().__init__(context, folder)
        self.executor = executor
        self.algorithm = algorithm
        self.problem = context.problem
        data = self.problem.data
        without_images = replace(self.problem, data=None)  # type: ignore[arg-type]
        # On the CPU, where the first forks put them into shared memory, in which later
        # ones find them.
        tensors = [
            tensor.cpu() for tensor in (*tensors_of(data.train), *tensors_of(data.val))
        ]
        self.value = (
            replace(context, problem=without_images, images_seen=None),
            data.name,
            data.class_names,
            data.train.groups,
        )
        # Objects that cannot be sent raise an error before the training.
        packed(self.value)
        self.tensors = tuple(tensors)
        threads = counted(executor.n_threads, "thread")
        self.notes = (
            *self.notes,
            f"Forks run side by side, {executor.n_jobs} at a time, each on {threads}.",
        )

    def advance(self, callback: SearchCallback) -> None:
        state = self.state
        parts = self.algorithm.parallel_parts(self.problem, state)
        if not parts:
            return super().advance(callback)

        def step_done() -> None:
            self.n_steps += 1
            callback.step_done(self.n_steps)
            # A cluster reports the steps of a fork at its end.
            if isinstance(self.executor, ProcessExecutor) and callback.stop_requested():
                raise Stopped

        # A run that is killed during the forks keeps their start.
        self.save()
        # Pickled, so that each fork gets a copy.
        value = *self.value, str(self.executor.device), pickle.dumps(self.saved())
        results = self.executor.run(
            run_part, parts, Shared(value, self.tensors, prepared), step_done
        )
        with contextlib.suppress(Stopped), contextlib.closing(results):
            for number, pickled in results:
                result, epochs = pickle.loads(pickled)
                self.algorithm.end_part(self.problem, state, parts[number], result)
                for metrics in epochs:
                    self.note(metrics, callback)
                self.save()
                if callback.stop_requested():
                    break
        self.count_steps()


def prepared(value: Any, tensors: Tensors) -> tuple[ImageSearchContext, bytes]:
    """In another process, return the search with its images on the device, and its
    pickled state.
    """
    context, name, class_names, groups, device, state = value
    images, labels, val_images, val_labels = (
        tensor.to(find_device(device)) for tensor in tensors
    )
    train = LabelledImages(images, labels, groups=groups)
    val = LabelledImages(val_images, val_labels)
    return (
        replace(
            context,
            problem=replace(
                context.problem, data=SearchData(name, class_names, train, val)
            ),
        ),
        state,
    )


def run_part(
    number: int, shared: tuple[ImageSearchContext, bytes], on_step: Callable[[], None]
) -> bytes:
    """In another process, run a part of the search.

    Args:
        number: Number of the part.
        shared: The search, and its pickled state.
        on_step: Called after each step.

    Returns:
        The result of the part and the metrics of its epochs, pickled.
    """
    context, saved = shared
    algorithm = context.config.algorithm
    with default_generators(context.problem.device), explained_memory_errors():
        trainer = SearchTrainer(context, None)
        trainer.load(pickle.loads(saved))
        algorithm.start_part(context.problem, trainer.state, number)
        while (result := algorithm.result_of_part(trainer.state, number)) is None:
            trainer.advance(SearchCallback())
            on_step()
        # PyTorch's own way would share memory with a process that may have ended.
        return pickle.dumps((result, trainer.history.metrics))
