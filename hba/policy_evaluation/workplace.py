"""Where the trainings of an evaluation run: in this process, in several of this machine, or on those of a cluster."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import torch

from hba.data.load import EvaluationData
from hba.distributed.cluster import Cluster, Needs
from hba.distributed.collectives import own_device
from hba.distributed.process_info import size
from hba.errors import SettingsError
from hba.policy_evaluation.on_cluster import Abilities, abilities_on, over_machines
from hba.policy_evaluation.processes import number_of_jobs, side_by_side
from hba.policy_evaluation.task import Task
from hba.policy_evaluation.trainings import Finished, SavesOf, Training, one_by_one
from hba.report.results import Results
from hba.training.amp import slow_note
from hba.utils.provenance import environment


class Workplace(Protocol):
    """device: as each training has it. n_jobs: trainings at a time. n_threads: of each."""

    @property
    def device(self) -> torch.device: ...

    @property
    def n_jobs(self) -> int: ...

    @property
    def n_threads(self) -> int: ...

    @property
    def n_processes(self) -> int:
        """That share each training."""
        ...

    @property
    def told(self) -> str:
        """In the words of a plan."""
        ...

    def environment(self) -> Mapping[str, Any]:
        """What makes the numbers."""
        ...

    def slow_note(self) -> str | None:
        """See hba.training.amp."""
        ...

    def brought(self, data: EvaluationData) -> EvaluationData:
        """The data where the trainings take them from."""
        ...

    def train(
        self, trainings: Sequence[Training], data: EvaluationData, on_step: Callable[[], None], saves_of: SavesOf
    ) -> Finished:
        """data: brought. on_step: called for each step that is done. All has ended when the generator has."""
        ...


@dataclass(frozen=True)
class Here:
    """One training after the other, each made by all processes of this computation."""

    device: torch.device
    n_jobs: int = 1

    @property
    def n_threads(self) -> int:
        return torch.get_num_threads()

    @property
    def n_processes(self) -> int:
        return size()

    @property
    def told(self) -> str:
        return str(self.device)

    def environment(self) -> Mapping[str, Any]:
        return environment(self.device) | ({"n_processes": size()} if size() > 1 else {})

    def slow_note(self) -> str | None:
        return slow_note(self.device)

    def brought(self, data: EvaluationData) -> EvaluationData:
        return data.to(self.device)

    def train(
        self, trainings: Sequence[Training], data: EvaluationData, on_step: Callable[[], None], saves_of: SavesOf
    ) -> Finished:
        return one_by_one(trainings, data, on_step, saves_of)


@dataclass(frozen=True)
class SideBySide:
    """Processes of this machine, which share PyTorch's threads."""

    device: torch.device
    n_jobs: int
    n_processes: int = 1

    @property
    def n_threads(self) -> int:
        return max(1, torch.get_num_threads() // self.n_jobs)

    @property
    def told(self) -> str:
        return str(self.device)

    def environment(self) -> Mapping[str, Any]:
        return {**environment(self.device), "n_threads": self.n_threads}

    def slow_note(self) -> str | None:
        return slow_note(self.device)

    def brought(self, data: EvaluationData) -> EvaluationData:
        """Each process moves them to the device by itself."""
        return data

    def train(
        self, trainings: Sequence[Training], data: EvaluationData, on_step: Callable[[], None], saves_of: SavesOf
    ) -> Finished:
        n_jobs = min(self.n_jobs, len(trainings))
        return side_by_side(trainings, data, self.device, n_jobs, self.n_threads, on_step, saves_of)


@dataclass(frozen=True)
class OnCluster:
    """One training at a time on each GPU of a cluster, or on each CPU where it has no GPU; or on several of them.

    n_processes: of each training.
    """

    cluster: Cluster
    needs: Needs
    n_processes: int

    @property
    def device(self) -> torch.device:
        return torch.device("cuda" if self.needs.n_gpus else "cpu")

    @property
    def n_jobs(self) -> int:
        return max(1, self.cluster.places(self.needs) // self.n_processes)

    @property
    def n_threads(self) -> int:
        return self.needs.n_cpus

    @property
    def told(self) -> str:
        return f"{self.device} of {self.cluster.told}"

    @cached_property
    def _abilities(self) -> Abilities:
        """Of the first machine that answers."""
        return abilities_on(self.cluster, self.needs)

    def environment(self) -> Mapping[str, Any]:
        several = {"n_processes": self.n_processes} if self.n_processes > 1 else {}
        return {**self._abilities.environment, **several, "machines": len(self.cluster.machines())}

    def slow_note(self) -> str | None:
        return self._abilities.slow_note

    def brought(self, data: EvaluationData) -> EvaluationData:
        """Each machine gets them once."""
        return data

    def train(
        self, trainings: Sequence[Training], data: EvaluationData, on_step: Callable[[], None], saves_of: SavesOf
    ) -> Finished:
        return over_machines(self.cluster, self.needs, self.n_processes, trainings, data, on_step, saves_of)


@dataclass(frozen=True)
class WhereItWas:
    """Of an evaluation that is whole: it trains no more, and so its device need not be on this machine."""

    stored: Results

    @property
    def device(self) -> torch.device:
        return torch.device(self.stored.device)

    @property
    def n_jobs(self) -> int:
        return self.stored.jobs or 1

    @property
    def n_threads(self) -> int:
        return self.stored.n_threads

    @property
    def n_processes(self) -> int:
        return size()

    @property
    def told(self) -> str:
        return self.stored.device

    def environment(self) -> Mapping[str, Any]:
        """As it was kept."""
        return self.stored.environment

    def slow_note(self) -> str | None:
        return None

    def brought(self, data: EvaluationData) -> EvaluationData:
        return data

    def train(
        self, trainings: Sequence[Training], data: EvaluationData, on_step: Callable[[], None], saves_of: SavesOf
    ) -> Finished:
        assert not trainings, "an evaluation that is whole"
        return one_by_one(trainings, data, on_step, saves_of)


def workplace(task: Task, jobs: int | None, cluster: Cluster | None, gpus_per_training: int) -> Workplace:
    """jobs: trainings at a time on this machine, as evaluate takes it. SettingsError for what cannot be."""
    if task.stored is not None and task.stored.holds([one.name for one in task.everyone], task.config.training_seeds):
        return WhereItWas(task.stored)
    if cluster is not None:
        if task.data.is_streamed:
            raise SettingsError("images that are streamed from their files are trained on one by one: omit cluster")
        needs = cluster.needs(task.config.device)
        if cluster.places(needs) < gpus_per_training:
            raise SettingsError(
                f"gpus_per_training must be at most {cluster.places(needs)}, as many as the cluster has room for, got "
                f"{gpus_per_training}"
            )
        return OnCluster(cluster, needs, gpus_per_training)
    device = own_device(task.config.device)
    if size() > 1:
        if jobs not in (None, 1):
            raise SettingsError(
                f"jobs must be 1 where {size()} processes share one training after the other, got {jobs}"
            )
        return Here(device)
    n_jobs = number_of_jobs(jobs, task.n_trainings, task.data, device)
    return Here(device) if n_jobs == 1 else SideBySide(device, n_jobs)


def check_workplace(jobs: int | None, cluster: str | None, gpus_per_training: int) -> None:
    """SettingsError, before anything is read, for two workplaces at once."""
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


def check_device_here(name: str, cluster: str | None) -> None:
    """SettingsError, before images are read, for a device that this machine lacks. A cluster has its own."""
    if cluster is None:
        own_device(name)
