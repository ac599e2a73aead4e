"""What a process that trains does: it takes what all trainings share, then does one training after the other."""

from dataclasses import dataclass
from multiprocessing.queues import SimpleQueue
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Semaphore

import torch

from hba.data.images import LabelledImages
from hba.data.lazy_split import LazySplit
from hba.data.load import EvaluationData
from hba.policy_evaluation.sending import unpacked_training
from hba.policy_evaluation.trainings import Ended, trained_and_measured


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
    n_steps: "Synchronized[int]"
    test_wanted: Semaphore
    tests: "SimpleQueue[LabelledImages]"


_begun: list[tuple[Work, EvaluationData]] = []
"""Of this process: one."""


def begin(work: Work) -> None:
    """Called once in a new process."""

    def ask() -> LabelledImages:
        work.test_wanted.release()
        return work.tests.get()

    test = LazySplit(ask, None, work.test_image_size, work.device)
    _begun.append((work, EvaluationData(work.name, work.class_names, work.train.to(work.device), test)))


def train_here(packed: bytes) -> Ended:
    """What a pickled Training comes to."""
    ((work, data),) = _begun
    training, saves = unpacked_training(packed)

    def count() -> None:
        with work.n_steps.get_lock():
            work.n_steps.value += 1

    return trained_and_measured(training, data, count, saves)
