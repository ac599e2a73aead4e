"""A process that trains what it is told to: what it is sent, what it answers, and what it does."""

import contextlib
import importlib.util
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import torch

from hba.data.held_back import HeldBack
from hba.data.images import LabelledImages
from hba.data.load import EvaluationData
from hba.errors import HbaError
from hba.policy_evaluation.trainings import Training, measured_error

REPORT_EVERY_SECONDS = 0.2


@dataclass(frozen=True)
class Work:
    """What all trainings share. train: on the CPU, in memory that the processes share; the test split is sent when it
    is asked for.
    """

    name: str
    class_names: tuple[str, ...]
    train: LabelledImages
    test_image_size: int
    device: torch.device


class OwnModule(NamedTuple):
    """A module that Python would not find by its name: an operations file."""

    name: str
    file: Path


class StepsDone(NamedTuple):
    """So many since the last report."""

    n_steps: int


class TestWanted(NamedTuple):
    """The last step of the first training is done: the test images, please."""


class Ended(NamedTuple):
    """A training, by its test error."""

    test_error_percent: float


class Failed(NamedTuple):
    """A training that cannot go on. error: one that a user can act on, else None."""

    error: HbaError | None
    traceback: str


Message = StepsDone | TestWanted | Ended | Failed


def work_until_the_end(connection: Connection, modules: Sequence[OwnModule], n_threads: int) -> None:
    """Receive Work, and from then on one Training after the other, and answer each.

    Ends when the other end of the connection is closed, as it is when its process dies.
    """
    # Where a Ctrl-C cannot be kept away from a new process, it can be ignored from here on.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(n_threads)
    with contextlib.suppress(EOFError, ConnectionError):
        for module in modules:
            _load(module)
        reporter = _Reporter(connection)
        data = _data(connection.recv(), connection, reporter)
        while True:
            connection.send(_answer(connection.recv(), data, reporter))


def _load(module: OwnModule) -> None:
    """So that what is pickled by its name can be found."""
    spec = importlib.util.spec_from_file_location(module.name, module.file)
    assert spec is not None
    assert spec.loader is not None
    sys.modules[module.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[module.name])


def _data(work: Work, connection: Connection, reporter: "_Reporter") -> EvaluationData:
    def ask() -> LabelledImages:
        reporter.report()
        connection.send(TestWanted())
        images: LabelledImages = connection.recv()
        return images

    test = HeldBack(ask, None, work.test_image_size, work.device)
    return EvaluationData(work.name, work.class_names, work.train.to(work.device), test)


def _answer(training: Training, data: EvaluationData, reporter: "_Reporter") -> Message:
    try:
        error_percent = measured_error(training, data, reporter.step_done)
        reporter.report()
        return Ended(error_percent)
    except (EOFError, ConnectionError):
        raise
    except Exception as error:
        return Failed(error if isinstance(error, HbaError) else None, traceback.format_exc())


class _Reporter:
    """Tells of steps, but not of each by itself."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._n_steps, self._reported_at = 0, time.monotonic()

    def step_done(self) -> None:
        self._n_steps += 1
        if time.monotonic() - self._reported_at >= REPORT_EVERY_SECONDS:
            self.report()

    def report(self) -> None:
        self._connection.send(StepsDone(self._n_steps))
        self._n_steps, self._reported_at = 0, time.monotonic()
