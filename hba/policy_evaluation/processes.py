"""The trainings of an evaluation side by side, in processes of their own."""

import importlib.machinery
import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import torch
import torch.multiprocessing
from joblib import wrap_non_picklable_objects

from hba.data.held_back import HeldBack
from hba.data.images import CPU, Images, LabelledImages
from hba.data.load import EvaluationData
from hba.errors import RunError, SettingsError
from hba.operations import function_path
from hba.policy_evaluation.contenders import Contender
from hba.policy_evaluation.strength import AsStrong
from hba.policy_evaluation.trainings import Finished, Training
from hba.policy_evaluation.worker import (
    Ended,
    Failed,
    Message,
    OwnModule,
    StepsDone,
    TestWanted,
    Work,
    work_until_the_end,
)
from hba.runtime.interrupts import without_interrupts
from hba.training.augmentation import ScheduleAugmentation

SECONDS_TO_END = 5


def number_of_jobs(asked: int | None, n_trainings: int, data: EvaluationData, device: torch.device) -> int:
    """How many trainings run at a time: no more than there are.

    asked: None is as many as PyTorch has threads on a CPU, 1 on a GPU and for images that are streamed. Raises
    SettingsError for what cannot be.
    """
    streamed = data.is_streamed
    if asked is not None and asked < 1:
        raise SettingsError(f"jobs must be at least 1, got {asked}")
    if asked is not None and asked > 1 and streamed:
        raise SettingsError(f"images that are streamed from their files are trained on one by one: jobs 1, got {asked}")
    if asked is None:
        asked = torch.get_num_threads() if device.type == "cpu" and not streamed else 1
    return max(1, min(asked, n_trainings))


def side_by_side(
    trainings: Sequence[Training],
    data: EvaluationData,
    device: torch.device,
    n_jobs: int,
    n_threads: int,
    on_step: Callable[[], None],
) -> Finished:
    """n_jobs processes, or none, with n_threads threads each; all have ended when this generator has, or is closed.

    The images are in memory once, shared by all processes; the test split is opened when the first training has done
    its last step. Raises what a training raised, and RunError for a process that died.
    """
    workers: list[_Worker] = []
    try:
        work = _work(data, device)
        modules = own_modules([training.contender for training in trainings])
        # Started together with the first process, it would let interrupts through again.
        resource_tracker.ensure_running()
        with without_interrupts():
            for _ in range(n_jobs):
                workers.append(_Worker(modules, n_threads))
        for worker in workers:
            worker.send(work)
        yield from _hand_out(iter(trainings), workers, data.test, on_step)
    finally:
        for worker in workers:
            worker.end()


def _hand_out(
    trainings: Iterator[Training], workers: Sequence["_Worker"], test: Images | HeldBack, on_step: Callable[[], None]
) -> Finished:
    # By connection, whose class depends on the system.
    busy: dict[Any, tuple[_Worker, Training]] = {}

    def give_next(worker: _Worker) -> None:
        for training in trainings:
            worker.send(training)
            busy[worker.connection] = (worker, training)
            return

    for worker in workers:
        give_next(worker)
    while busy:
        failures: list[Failed] = []
        for connection in wait(list(busy)):
            worker, training = busy[connection]
            match message := worker.receive():
                case StepsDone(n_steps):
                    _repeat(on_step, n_steps)
                case TestWanted():
                    worker.send(_shared(test))
                case Ended(test_error_percent):
                    del busy[connection]
                    yield training, test_error_percent
                    give_next(worker)
                case Failed():
                    failures.append(message)
        # Only now, so that what ended at the same time is kept.
        _raise_first(failures)


def _raise_first(failures: Sequence[Failed]) -> None:
    for failure in failures:
        raise failure.error or RuntimeError(f"a training failed in its process:\n{failure.traceback}")


def _repeat(function: Callable[[], None], count: int) -> None:
    for _ in range(count):
        function()


class _Worker:
    """A process and the connection to it."""

    def __init__(self, modules: Sequence[OwnModule], n_threads: int) -> None:
        context = torch.multiprocessing.get_context("spawn")
        self.connection, its_own = context.Pipe()
        self._process = context.Process(target=work_until_the_end, args=(its_own, modules, n_threads), daemon=True)
        self._process.start()
        # With this end open, the death of the process would not be noticed.
        its_own.close()
        self._has_answered = False

    def send(self, content: Work | Training | LabelledImages) -> None:
        try:
            self.connection.send(_picklable(content) if isinstance(content, Training) else content)
        except ConnectionError:
            raise self._died() from None

    def receive(self) -> Message:
        """Its next message; of a process that has died, that it has failed by this."""
        try:
            message: Message = self.connection.recv()
        except (EOFError, ConnectionError):
            return Failed(self._died(), "")
        self._has_answered = True
        return message

    def _died(self) -> RunError:
        self._process.join(SECONDS_TO_END)
        code = self._process.exitcode
        start = f"a process that trains has died (exit code {code})"
        # A code below zero is a signal's, such as that of a system without memory; no script raises it.
        if self._has_answered or (code is not None and code < 0):
            return RunError(f"{start}; what has ended is kept, and fewer jobs need less memory")
        return RunError(
            f'{start} before its first step; a script must call hba.evaluate under `if __name__ == "__main__":`, or '
            "use jobs=1"
        )

    def end(self) -> None:
        """At once, whatever it is doing."""
        self._process.terminate()
        self._process.join(SECONDS_TO_END)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self.connection.close()


def _picklable(training: Training) -> Any:
    """Also with functions and classes of one's own that only this process knows; SettingsError where that cannot be."""
    packed = wrap_non_picklable_objects(training, keep_wrapper=False)
    try:
        pickle.dumps(packed)
    except Exception as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise SettingsError(
            f"the row {training.contender.name} cannot be sent to another process ({reason}); use jobs=1"
        ) from None
    return packed


def _work(data: EvaluationData, device: torch.device) -> Work:
    return Work(data.name, data.class_names, _shared(data.train), data.test.image_size, device)


def _shared(split: Images | HeldBack) -> LabelledImages:
    """The images in memory that other processes can see; RunError where there is not enough of it."""
    images = split.opened() if isinstance(split, HeldBack) else split
    if not isinstance(images, LabelledImages):
        raise RunError("images that are streamed from their files are measured one by one: use jobs 1")
    images = images.to(CPU)
    try:
        images.images.share_memory_()
        images.labels.share_memory_()
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise RunError(f"the images do not fit into shared memory ({reason}); use jobs 1") from None
    return images


def own_modules(contenders: Sequence[Contender]) -> tuple[OwnModule, ...]:
    """Modules of own operations that a new process would not find: those of operations files."""
    schedules = [
        augmentation.schedule
        for contender in contenders
        for augmentation in contender.augmentations
        if isinstance(augmentation, ScheduleAugmentation | AsStrong)
    ]
    paths = {function_path(operation) for schedule in schedules for operation in schedule.space.operations}
    names = {path.partition(":")[0] for path in paths if path is not None}
    files = {name: getattr(sys.modules.get(name), "__file__", None) for name in names}
    return tuple(
        OwnModule(name, Path(file).resolve())
        for name, file in sorted(files.items())
        if file is not None and name != "__main__" and importlib.machinery.PathFinder.find_spec(name) is None
    )
