"""The tasks that benchmarks run: a policy search, and an ordinary training."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock

import hba
from common.images import IMAGES, Sizes, View
from common.records import Results, Run
from common.settings import kept_settings, without_data
from common.timing import n_steps
from hba.config.evaluation import EvaluationConfig
from hba.data import EvaluationData, SearchData
from hba.policy_search.checkpoint import RunFolder
from hba.policy_search.config import SearchConfig
from hba.schedule.schedule import Schedule
from hba.schedule.summary import changes
from hba.training.augmentation import Augmentation, ScheduleAugmentation
from hba.training.trainer import Trained, train
from hba.utils.seeding import derived_seed

TRAINING_GENERATION = 2
"""Trainings of the first generation began with the initial weights of the search with
the same seed.
"""
Further = Mapping[str, Any]


@dataclass(frozen=True)
class SearchTask:
    """A policy search."""

    name: str
    label: str
    """The name of the images in records."""
    config: SearchConfig
    work: Path | None = None
    """The folder of run folders, which can be made again; without it, only the record
    is kept.
    """
    further: Further = field(default_factory=dict)
    """What decides the results besides `config`."""
    ablation: Sizes | None = None
    """Sizes of the three-way split."""
    view: View | None = None
    """Changes the images after they are read; `further` or the label says so too."""

    @property
    def run(self) -> Run:
        return Run(
            self.name,
            self.label,
            kept_settings(self.config),
            self.config.seed,
            self.further,
        )

    @property
    def folder(self) -> Path | None:
        """The run folder, a different one for each choice of the settings that the
        algorithm reads.
        """
        name = f"{self.name}-seed{self.config.seed}-{self.run.digest[:8]}"
        return None if self.work is None else self.work / self.label / name

    @property
    def data(self) -> SearchData:
        return IMAGES.of_search(self.config, self.ablation, self.view)

    @property
    def n_steps(self) -> int:
        return n_steps(self.config, len(self.data.train))

    def do(self) -> Results:
        return results_of(self._searched())

    def schedule(self) -> Schedule:
        """Return the schedule that was found, and search it first if it is missing. If
        several processes call this at the same time, the first one searches and the
        others wait.
        """
        if self.folder is None or self.work is None:
            return self._new_schedule()
        self.work.mkdir(parents=True, exist_ok=True)
        with FileLock(self.work / f"{self.label}-{self.folder.name}.lock"):
            if self.folder.joinpath("policy.json").exists():
                schedule = hba.load_policy(self.folder)
                if schedule.epochs == self.config.epochs:
                    return schedule
            return self._new_schedule()

    def _new_schedule(self) -> Schedule:
        schedule = self._searched().schedule
        assert schedule is not None
        return schedule

    def _searched(self) -> hba.SearchResult:
        """Resume an interrupted search; for a finished one, only return its result."""
        resume = self.folder is not None and RunFolder(self.folder).checkpoint.exists()
        return hba.search(
            self.data, out=self.folder, resume=resume, **without_data(self.config)
        )


def results_of(search: hba.SearchResult) -> Results:
    """The last validation error and loss of the network, the seconds, the error over
    time, and for each operation the probability in the last epoch and its rise since
    the start of the search in logits, both as means over copies.
    """
    assert search.schedule is not None
    last = {
        name: search.metrics[-1][name]
        for name in ("val_error_percent", "val_loss", "seconds")
    }
    curve = [
        [metrics["seconds"], metrics["val_error_percent"]] for metrics in search.metrics
    ]
    measured = [point for point in curve if point[1] is not None]
    end = {}
    for change in changes(search.schedule, search.schedule.epochs - 1):
        rise = torch.tensor(change.probability).logit(1e-6).diff().item()
        end[change.operation.name] = {
            "probability": round(change.probability[-1], 5),
            "rise": round(rise, 5),
        }
    return {**last, "epochs": len(search.metrics), "curve": measured, "end": end}


@dataclass(frozen=True)
class TrainingTask:
    """A training of a fresh network as in hba.evaluate."""

    name: str
    label: str
    config: EvaluationConfig
    seed: int
    search: SearchTask | None = None
    """The search whose schedule is used; None for no schedule."""
    further: Further = field(default_factory=dict)
    ablation: Sizes | None = None
    view: View | None = None

    @property
    def run(self) -> Run:
        return Run(
            self.name,
            self.label,
            self.settings,
            self.seed,
            self.further,
            TRAINING_GENERATION,
        )

    @property
    def settings(self) -> dict[str, Any]:
        return kept_settings(self.config)

    @property
    def data(self) -> EvaluationData:
        return IMAGES.of_training(self.config, self.ablation, self.view)

    @property
    def measured_on(self) -> str:
        return "test"

    def augmented(self) -> tuple[EvaluationConfig, Augmentation]:
        return self.config, ScheduleAugmentation(
            None if self.search is None else self.search.schedule()
        )

    def do(self) -> Results:
        """Train, and return error and loss after the last epoch, and the seconds of the
        training without the search.
        """
        config, augmentation = self.augmented()
        data = self.data
        began = time.monotonic()
        trained = self.trained(config, data, augmentation)
        seconds = time.monotonic() - began
        measured = trained.test
        error, loss = (
            f"{self.measured_on}_{quantity}" for quantity in ("error_percent", "loss")
        )
        training_results = {
            error: measured.error_percent,
            loss: measured.loss,
            "seconds": seconds,
        }
        return {**training_results, **self.further_results(trained, data)}

    def trained(
        self, config: EvaluationConfig, data: EvaluationData, augmentation: Augmentation
    ) -> Trained:
        device = data.train.device
        with torch.random.fork_rng([] if device.type == "cpu" else [device]):
            torch.manual_seed(
                derived_seed(self.seed, "default generators of an evaluation")
            )
            return train(
                config, data, augmentation, self.seed, start=config.network_start()
            )

    def further_results(self, trained: Trained, data: EvaluationData) -> Results:
        return {}
