"""The trainings of an evaluation, and the executor that runs them."""

import contextlib
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch

from hba.data.images import EvaluationData, Images, LabelledImages, LazySplit
from hba.distributed.collectives import local_device
from hba.distributed.process_info import size
from hba.errors import DivergedError, SettingsError
from hba.executors.executor import Executor, ProcessExecutor, SerialExecutor, Shared, Tensors
from hba.executors.ray_executor import Cluster, RayExecutor
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
        checkpoint = replace(checkpoint, path=None)
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

    Elsewhere the images are in memory once for all processes of a machine. The test split is opened when the first
    training has done its last step. Raises SettingsError for images that stay in their files in other processes.
    """
    if not jobs:
        return
    shared = Shared(data)
    if not isinstance(executor, SerialExecutor):
        value = (data.name, data.class_names, str(executor.device))
        shared = Shared(value, _tensors(data.train), lambda: _tensors(data.test), _data)
    with contextlib.closing(executor.run(train_and_measure, jobs, shared, on_step)) as finished:
        for number, result in finished:
            yield jobs[number], result


def _data(value: tuple[str, tuple[str, ...], str], train: Tensors, fetch_test: Callable[[], Tensors]) -> EvaluationData:
    """The inverse of what run_jobs shares with other processes."""
    name, class_names, device_name = value
    device = find_device(device_name)
    test = LazySplit(lambda: _images(fetch_test()).to(device))
    return EvaluationData(name, class_names, _images(train).to(device), test)


def _images(tensors: Tensors) -> LabelledImages:
    images, labels = tensors
    return LabelledImages(images, labels)


def _tensors(split: Images | LazySplit) -> Tensors:
    images = split.opened()
    if not isinstance(images, LabelledImages):
        raise SettingsError("images that are streamed from their files are trained on one by one: use jobs 1")
    return images.images, images.labels


def check_executor(jobs: int | None, cluster: str | None, gpus_per_training: int) -> None:
    """SettingsError, before anything is read, for arguments that exclude each other."""
    if jobs is not None and jobs < 1:
        raise SettingsError(f"jobs must be at least 1, got {jobs}")
    if gpus_per_training < 1:
        raise SettingsError(f"gpus_per_training must be at least 1, got {gpus_per_training}")
    if cluster is None and gpus_per_training > 1:
        raise SettingsError("gpus_per_training is for a cluster; on one machine, start hba evaluate by torchrun")
    if (cluster is not None or size() > 1) and jobs not in (None, 1):
        raise SettingsError(f"jobs must be 1 on a cluster and where several processes share a training, got {jobs}")
    if cluster is not None and size() > 1:
        raise SettingsError("a cluster is given its trainings by one process; start hba evaluate without torchrun")


def executor_for(
    data: EvaluationData, device: str, n_trainings: int, jobs: int | None, cluster: Cluster | None, gpus: int
) -> Executor:
    """The executor of so many trainings. jobs: as evaluate takes it. gpus: per training."""
    if cluster is not None:
        needs = cluster.needs(device)
        if cluster.places(needs) < gpus:
            raise SettingsError(
                f"gpus_per_training must be at most {cluster.places(needs)}, as many as the cluster has room for, got "
                f"{gpus}"
            )
        return RayExecutor(cluster, needs, gpus)
    found = local_device(device)
    n_jobs = 1 if size() > 1 else number_of_jobs(jobs, n_trainings, data, found)
    return SerialExecutor(found) if n_jobs == 1 else ProcessExecutor(found, n_jobs)


def number_of_jobs(asked: int | None, n_trainings: int, data: EvaluationData, device: torch.device) -> int:
    """How many trainings run at a time: no more than there are.

    asked: None is as many as PyTorch has threads on a CPU, 1 on a GPU and for images that are streamed.
    """
    if asked is None:
        asked = torch.get_num_threads() if device.type == "cpu" and not data.is_streamed else 1
    return max(1, min(asked, n_trainings))
