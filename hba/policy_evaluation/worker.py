"""What a process that trains does: it takes what all trainings share, then does one training after the other."""

import importlib.util
import pickle
import sys
from dataclasses import dataclass
from multiprocessing.queues import SimpleQueue
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Semaphore
from pathlib import Path
from typing import NamedTuple

import torch

from hba.data.held_back import HeldBack
from hba.data.images import LabelledImages
from hba.data.load import EvaluationData
from hba.errors import SettingsError
from hba.policy_evaluation.trainings import Ended, Training, trained_and_measured
from hba.regularization.groups import register_regularizer


class OwnModule(NamedTuple):
    """A module that Python would not find by its name: an operations file."""

    name: str
    file: Path


@dataclass(frozen=True)
class Work:
    """What all trainings share.

    train: on the CPU, in memory that the processes share. n_steps: done by all of them. A process asks for the test
    images by test_wanted, once, when its first training has done its last step; they then come by tests.
    """

    name: str
    class_names: tuple[str, ...]
    train: LabelledImages
    test_image_size: int
    device: torch.device
    modules: tuple[OwnModule, ...]
    n_steps: "Synchronized[int]"
    test_wanted: Semaphore
    tests: "SimpleQueue[LabelledImages]"


_begun: list[tuple[Work, EvaluationData]] = []
"""Of this process: one."""


def begin(work: Work) -> None:
    """Called once in a new process."""
    for module in work.modules:
        _load(module)

    def ask() -> LabelledImages:
        work.test_wanted.release()
        return work.tests.get()

    test = HeldBack(ask, None, work.test_image_size, work.device)
    _begun.append((work, EvaluationData(work.name, work.class_names, work.train.to(work.device), test)))


def train_here(packed: bytes) -> Ended:
    """What a pickled Training comes to."""
    ((work, data),) = _begun
    try:
        training: Training
        training, saves, regularizers = pickle.loads(packed)
        for regularizer in regularizers:
            register_regularizer(regularizer)
    except Exception as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise SettingsError(f"what trains cannot be made anew in another process ({reason}); use jobs=1") from error

    def count() -> None:
        with work.n_steps.get_lock():
            work.n_steps.value += 1

    return trained_and_measured(training, data, count, saves)


def _load(module: OwnModule) -> None:
    """So that what is pickled by its name can be found."""
    spec = importlib.util.spec_from_file_location(module.name, module.file)
    assert spec is not None
    assert spec.loader is not None
    sys.modules[module.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[module.name])
