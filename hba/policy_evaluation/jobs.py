"""The trainings of an evaluation, and how an executor runs them."""

import contextlib
from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple

import torch

from hba.data.images import EvaluationData, Images, LabelledImages, LazySplit
from hba.distributed.process_info import size
from hba.errors import DivergedError, SettingsError
from hba.executors.executor import Executor, SerialExecutor, Shared, Tensors
from hba.policy_evaluation.baselines import RowConfig
from hba.training.checkpoint import TrainCheckpoint
from hba.training.metrics import Measured
from hba.training.trainer import train
from hba.utils.devices import explained_memory_errors, find_device
from hba.utils.seeding import default_generators, derived_seed


class Job(NamedTuple):
    """One network to be trained. checkpoint: what the training resumes from, and writes."""

    row: RowConfig
    seed: int
    checkpoint: TrainCheckpoint

    @property
    def name(self) -> str:
        """In the message of an executor that cannot send it."""
        return f"the row {self.row.name}"


class TrainingResult(NamedTuple):
    """What a training measured: on the test split, and on the augmented images of each epoch."""

    test: Measured
    epochs: tuple[Measured, ...]


def train_and_measure(job: Job, data: EvaluationData, on_step: Callable[[], None]) -> TrainingResult:
    """Train and measure the test split. data is on its device. PyTorch's default generators are left as they were.

    Raises DivergedError, which names the training, for a loss that is not finite.
    """
    (row, seed, checkpoint), device = job, data.train.device
    if checkpoint.path is not None and not checkpoint.path.parent.parent.is_dir():
        # Another machine may not see the evaluation's folder.
        checkpoint = TrainCheckpoint()
    generators = default_generators(device, derived_seed(seed, "default generators of an evaluation"))
    with generators, explained_memory_errors():
        try:
            augmentation = row.augmentation(seed)
            found = train(row.config, data, augmentation, seed, on_step, row.own_network, row.start, checkpoint)
        except DivergedError as error:
            raise DivergedError(f"{row.name}, seed {seed}: {error}") from None
    return TrainingResult(found.test, found.epochs)


def run_jobs(
    executor: Executor, jobs: Sequence[Job], data: EvaluationData, on_step: Callable[[], None]
) -> Generator[tuple[Job, TrainingResult]]:
    """Yield jobs and their results, in the order in which they end. data: on the device of a SerialExecutor.

    There, the test split is opened when the first training has done its last step. Elsewhere it is opened before the
    first one, and the images are in memory once for all processes of a machine; SettingsError for images that stay in
    their files.
    """
    if not jobs:
        return
    shared = Shared(data)
    if not isinstance(executor, SerialExecutor):
        value = (data.name, data.class_names, str(executor.device))
        shared = Shared(value, (*_tensors(data.train), *_tensors(data.test)), _data)
    with contextlib.closing(executor.run(train_and_measure, jobs, shared, on_step)) as finished:
        for number, result in finished:
            yield jobs[number], result


def _data(value: tuple[str, tuple[str, ...], str], tensors: Tensors) -> EvaluationData:
    """The inverse of what run_jobs shares with other processes."""
    name, class_names, device_name = value
    device, (images, labels, test_images, test_labels) = find_device(device_name), tensors
    test = LazySplit(lambda: LabelledImages(test_images, test_labels).to(device))
    return EvaluationData(name, class_names, LabelledImages(images, labels).to(device), test)


def _tensors(split: Images | LazySplit) -> Tensors:
    images = split.opened()
    if not isinstance(images, LabelledImages):
        raise SettingsError("images that are streamed from their files are trained on one by one: use jobs 1")
    return images.images, images.labels


def number_of_jobs(asked: int | None, n_trainings: int, data: EvaluationData, device: torch.device | None) -> int:
    """How many trainings run at a time on this machine: no more than there are. device: None for a cluster.

    asked: None is as many as PyTorch has threads on a CPU, 1 on a GPU, within torchrun, and for streamed images.
    """
    if asked is None:
        is_cpu = device is not None and device.type == "cpu"
        asked = torch.get_num_threads() if is_cpu and not data.is_streamed and size() == 1 else 1
    return max(1, min(asked, n_trainings))
