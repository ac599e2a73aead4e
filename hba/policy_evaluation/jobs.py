"""The trainings of an evaluation, and the executor that runs them."""

import contextlib
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
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
    """One network to be trained."""

    row: RowConfig
    seed: int


class TrainingResult(NamedTuple):
    """What a training measured: on the test split, and on the augmented images of each epoch."""

    test: Measured
    epochs: tuple[Measured, ...]


def train_and_measure(
    job: Job, data: EvaluationData, on_step: Callable[[], None], saves: TrainCheckpoint | None = None
) -> TrainingResult:
    """Train and measure the test split. data is on its device. PyTorch's default generators are left as they were.

    saves: the checkpoint that the training resumes from, and writes. Raises DivergedError, which names the training,
    for a loss that is not finite.
    """
    row, seed = job
    generators = default_generators(data.train.device, derived_seed(seed, "default generators of an evaluation"))
    with generators, explained_memory_errors():
        try:
            trained = train(
                row.config,
                data,
                row.augmentation(seed),
                seed,
                on_step,
                row.own_network,
                row.start,
                saves,
            )
            return TrainingResult(trained.test, trained.epochs)
        except DivergedError as error:
            raise DivergedError(f"{row.name}, seed {seed}: {error}") from None


def run_jobs(
    executor: Executor,
    jobs: Sequence[Job],
    data: EvaluationData,
    on_step: Callable[[], None],
    saves_of: Callable[[Job], TrainCheckpoint],
) -> Generator[tuple[Job, TrainingResult]]:
    """Yield jobs and their results, in the order in which they end. data: on the device of a SerialExecutor.

    Elsewhere the images are in memory once for all processes of a machine. The test split is opened when the first
    training has done its last step. Raises SettingsError for images that stay in their files in other processes.
    """
    if not jobs:
        return
    if isinstance(executor, SerialExecutor):
        shared = Shared(data)
    else:
        splits = _Splits(data.name, data.class_names, data.test.image_size, str(executor.device))
        shared = Shared(splits, _tensors(data.train), lambda: _tensors(data.test), _data)
    tasks = [_Task(job, saves_of(job)) for job in jobs]
    with contextlib.closing(executor.run(_train, tasks, shared, on_step)) as finished:
        for number, result in finished:
            yield jobs[number], result


@dataclass(frozen=True)
class _Task:
    job: Job
    saves: TrainCheckpoint

    @property
    def name(self) -> str:
        return f"the row {self.job.row.name}"


def _train(task: _Task, data: EvaluationData, step_done: Callable[[], None]) -> TrainingResult:
    path = task.saves.path
    # Another machine may not see the evaluation's folder.
    is_seen = path is None or path.parent.parent.is_dir()
    return train_and_measure(task.job, data, step_done, task.saves if is_seen else replace(task.saves, path=None))


@dataclass(frozen=True)
class _Splits:
    """What tensors do not tell of an EvaluationData."""

    name: str
    class_names: tuple[str, ...]
    test_image_size: int
    device: str


def _data(splits: _Splits, train: Tensors, fetch_test: Callable[[], Tensors]) -> EvaluationData:
    device = find_device(splits.device)
    test = LazySplit(lambda: _images(fetch_test()), None, splits.test_image_size, device)
    return EvaluationData(splits.name, splits.class_names, _images(train).to(device), test)


def _images(tensors: Tensors) -> LabelledImages:
    images, labels = tensors
    return LabelledImages(images, labels)


def _tensors(split: Images | LazySplit) -> Tensors:
    images = split.opened() if isinstance(split, LazySplit) else split
    if not isinstance(images, LabelledImages):
        raise SettingsError("images that are streamed from their files are trained on one by one: use jobs 1")
    return images.images, images.labels


def check_executor(jobs: int | None, cluster: str | None, gpus_per_training: int) -> None:
    """SettingsError, before anything is read, for arguments that exclude each other."""
    if gpus_per_training < 1:
        raise SettingsError(f"gpus_per_training must be at least 1, got {gpus_per_training}")
    if cluster is None:
        if gpus_per_training > 1:
            raise SettingsError("gpus_per_training is for a cluster; on one machine, start hba evaluate by torchrun")
        return
    if jobs not in (None, 1):
        raise SettingsError(f"a cluster has as many jobs at a time as it has room for; omit jobs, got {jobs}")
    if size() > 1:
        raise SettingsError("a cluster is given its trainings by one process; start hba evaluate without torchrun")


def executor_for(
    data: EvaluationData, device: str, n_trainings: int, jobs: int | None, cluster: Cluster | None, gpus: int
) -> Executor:
    """The executor of so many trainings. jobs: as evaluate takes it. gpus: per training. SettingsError where it cannot
    be.
    """
    if cluster is not None:
        needs = cluster.needs(device)
        if cluster.places(needs) < gpus:
            raise SettingsError(
                f"gpus_per_training must be at most {cluster.places(needs)}, as many as the cluster has room for, got "
                f"{gpus}"
            )
        return RayExecutor(cluster, needs, gpus)
    found = local_device(device)
    if size() > 1:
        if jobs not in (None, 1):
            raise SettingsError(
                f"jobs must be 1 where {size()} processes share one training after the other, got {jobs}"
            )
        return SerialExecutor(found)
    n_jobs = number_of_jobs(jobs, n_trainings, data, found)
    return SerialExecutor(found) if n_jobs == 1 else ProcessExecutor(found, n_jobs)


def number_of_jobs(asked: int | None, n_trainings: int, data: EvaluationData, device: torch.device) -> int:
    """How many trainings run at a time: no more than there are.

    asked: None is as many as PyTorch has threads on a CPU, 1 on a GPU and for images that are streamed.
    """
    if asked is not None and asked < 1:
        raise SettingsError(f"jobs must be at least 1, got {asked}")
    if asked is None:
        asked = torch.get_num_threads() if device.type == "cpu" and not data.is_streamed else 1
    return max(1, min(asked, n_trainings))
