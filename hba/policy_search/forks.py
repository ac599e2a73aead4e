"""Runs the forks of a search side by side, in processes of this machine or on a Ray cluster.

A fork is a part of a search that starts from a copy of its state, such as those of the algorithm race. Another process
makes the same steps as this one would.
"""

import contextlib
import io
import pickle
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

import torch

from hba.data.images import LabelledImages, SearchData
from hba.executors.executor import Executor, Shared, Tensors, number_of_jobs, tensors_of
from hba.executors.ray_executor import executor_for
from hba.policy_search.callbacks import SearchCallback
from hba.policy_search.checkpoint import RunFolder
from hba.policy_search.context import ImageSearchContext
from hba.policy_search.trainer import SearchTrainer
from hba.utils.devices import explained_memory_errors, find_device
from hba.utils.seeding import default_generators
from hba.utils.text import counted


def fork_executor(jobs: int | None, machines: ModuleType | None, context: ImageSearchContext) -> Executor | None:
    """None to run one fork after the other in this process. jobs: at a time, None is one for each thread."""
    task = context.task
    if machines is not None:
        return executor_for(task.device.type, 1, machines)
    n_jobs = number_of_jobs(jobs, context.config.algorithm.n_forks(task.space), task.data.train, task.device)
    return executor_for(str(task.device), n_jobs, None) if n_jobs > 1 else None


class Stopped(Exception):
    """The callback requests a stop while forks are running."""


class ForkingTrainer(SearchTrainer):
    """A search whose forks run by an executor. Those that have ended are kept, the others start again on a resume."""

    def __init__(self, context: ImageSearchContext, folder: RunFolder | None, executor: Executor) -> None:
        super().__init__(context, folder)
        self.executor, self.of_images = executor, context
        threads = counted(executor.n_threads, "thread")
        self.notes = (*self.notes, f"Forks run side by side, {executor.n_jobs} at a time, each on {threads}.")

    def advance(self, callback: SearchCallback) -> None:
        algorithm, task, state = self.context.config.algorithm, self.context.task, self.state
        forks = algorithm.forks(task, state)
        if not forks:
            return super().advance(callback)

        def step_done() -> None:
            self.n_steps += 1
            callback.step_done(self.n_steps)

        def stop_if_requested() -> None:
            if callback.stop_requested():
                raise Stopped

        # A run that is killed during the forks keeps what they start from.
        self.save()
        results = self.executor.run(run_fork, forks, self._shared(), step_done, stop_if_requested)
        with contextlib.suppress(Stopped), contextlib.closing(results):
            for number, result in results:
                found, epochs = pickle.loads(result)
                algorithm.end_fork(task, state, forks[number], found)
                for metrics in epochs:
                    self.note(metrics, callback)
                self.save()
        self.count_steps()

    def _shared(self) -> Shared:
        """What all forks have in common. Tensors are sent apart, and the state so that each fork gets a copy."""
        state, data, task = io.BytesIO(), self.of_images.task.data, self.of_images.task
        torch.save(self.saved(), state)
        without_images: Any = None
        task = replace(task, data=without_images, fill=task.fill.cpu())
        context = replace(self.of_images, task=task, images_seen=None)
        value = context, data.name, data.class_names, str(self.executor.device), state.getvalue()
        return Shared(value, (*tensors_of(data.train), *tensors_of(data.val)), _prepared)


def _prepared(value: Any, tensors: Tensors) -> tuple[ImageSearchContext, bytes]:
    """The inverse of `_shared` in another process."""
    context, name, class_names, device_name, state = value
    device, (images, labels, val_images, val_labels) = find_device(device_name), tensors
    data = SearchData(name, class_names, LabelledImages(images, labels), LabelledImages(val_images, val_labels))
    return replace(context, task=replace(context.task, data=data.to(device), fill=context.task.fill.to(device))), state


def run_fork(fork: int, shared: tuple[ImageSearchContext, bytes], on_step: Callable[[], None]) -> bytes:
    """In another process: what the algorithm has found, and the metrics of the fork's epochs, pickled."""
    context, state = shared
    with default_generators(context.task.device), explained_memory_errors():
        trainer = SearchTrainer(context, None)
        trainer.load(torch.load(io.BytesIO(state), map_location="cpu", weights_only=True))

        def advance() -> None:
            trainer.advance(SearchCallback())
            on_step()

        found = context.config.algorithm.run_fork(context.task, trainer.state, fork, advance)
        # Not by PyTorch's way, which shares memory with a process that may have ended.
        return pickle.dumps((found, trainer.history.metrics))
