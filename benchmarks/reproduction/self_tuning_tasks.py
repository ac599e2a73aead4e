"""What is run of an experiment of STN and Delta-STN: a training that tunes itself, and searches by whole trainings."""

import time
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common.images import IMAGES, Place
from common.records import Results, Run, Store
from common.settings import kept_settings, without_data
from common.tasks import STEPS_MEASURED
from common.timing import StepClock, n_steps, training_seconds_per_step
from torch import nn

import hba
from hba.data import EvaluationData, LabelledImages, SearchData
from hba.data.images import LazySplit
from hba.errors import SettingsError
from hba.policy.space import SearchSpace
from hba.policy_search.config import OF_OPERATIONS, SearchConfig
from hba.preprocessing.preprocessing import Preprocessing
from hba.schedule.schedule import Schedule
from hba.training.augmentation import Augmentation, ScheduleAugmentation
from hba.training.custom_network import CustomNetwork
from hba.training.metrics import Measured, measure
from hba.training.trainer import network_of, train
from hba.utils.devices import find_device
from hba.utils.seeding import derived_seed
from reproduction.self_tuning import Experiment, training_config
from reproduction.tuning_baselines import TUNERS, Monitor, Values, tune

OF_SPACE = {"tune", "fill", *OF_OPERATIONS}
"""Settings in whose place an experiment brings a search space."""


@dataclass(frozen=True)
class Bed:
    """An experiment with a method's settings and a seed: its images, its space, and trainings in it.

    method: of the settings.
    """

    experiment: Experiment
    method: str
    place: Place
    device: str
    seed: int

    @cached_property
    def config(self) -> SearchConfig:
        return self.experiment.config(self.method, self.place, self.device, self.seed)

    @cached_property
    def data(self) -> SearchData:
        return IMAGES.of_search(self.config, self.experiment.parts).in_color()

    @cached_property
    def space(self) -> SearchSpace:
        return self.experiment.space(self.config)

    def run(self, name: str, **further: Any) -> Run:
        """With the space in words, as the settings do not say its ranges."""
        ranges = {one.name: [one.low, one.high, one.initial] for one in self.space.regularizers}
        own = {"scale": self.experiment.scale, "ranges": ranges, "parts": self.experiment.parts, **further}
        return Run(name, self.place.label, kept_settings(self.config), self.seed, own)

    @property
    def evaluation_data(self) -> EvaluationData:
        """Trainings are measured on the validation images, as the search is."""
        data = self.data
        return EvaluationData(data.name, data.class_names, data.train, data.val)

    def searched(self, callback: hba.SearchCallback | None = None) -> hba.SearchResult:
        """A training that tunes itself."""
        settings = {name: value for name, value in without_data(self.config).items() if name not in OF_SPACE}
        return hba.search(self.data, space=self.space, callback=callback, **settings)

    def trained(self, augmentation: Augmentation, monitor: Monitor | None = None) -> tuple[nn.Module, Measured]:
        """A fresh network after its training, and what it does on the validation images.

        monitor: is told of every step, and of the validation loss where it asks for it.
        """
        config, data = training_config(self.config), self.evaluation_data
        preprocessing = Preprocessing.of(data.train, config.baseline_augmentation())
        made: list[nn.Module] = []

        def fresh(seed: int) -> nn.Module:
            made.append(network_of(config, data, seed))
            return made[0]

        steps = 0
        per_epoch = n_steps(config, len(data.train)) // config.epochs

        def on_step() -> None:
            nonlocal steps
            steps += 1
            if monitor is None:
                return
            monitor.check()
            if steps % per_epoch == 0 and steps // per_epoch in monitor.rungs:
                monitor.tell(steps // per_epoch, measure(made[0], data.test, preprocessing.measure).loss)

        device = data.train.device
        with torch.random.fork_rng([] if device.type == "cpu" else [device]):
            torch.manual_seed(derived_seed(self.seed, "default generators of an evaluation"))
            found = train(config, data, augmentation, self.seed, on_step, CustomNetwork(fresh))
        return found.network, found.test

    def tested(self, network: nn.Module) -> Measured:
        """On the test images, or on the third part of the split."""
        test = IMAGES.of_training(training_config(self.config), self.experiment.parts).test
        test = test.opened() if isinstance(test, LazySplit) else test
        preprocessing = Preprocessing.of(self.data.train, self.config.baseline_augmentation())
        return measure(network, test.in_color() if isinstance(test, LabelledImages) else test, preprocessing.measure)

    def constant(self, values: Values) -> ScheduleAugmentation:
        """One row of values for all epochs."""
        return ScheduleAugmentation(Schedule(self.space, np.array([values]), self.data.train.mean_color()))

    def clock(self) -> float:
        """Seconds of this process' one thread, which other work on the machine does not extend_epochs; on a GPU, of the
        clock on the wall.
        """
        if self._device.type == "cpu":
            return time.process_time()
        torch.cuda.synchronize(self._device)
        return time.monotonic()

    @cached_property
    def _device(self) -> torch.device:
        """The clock is asked at every step of a baseline, whose time it must not take."""
        return find_device(self.config.device)

    def estimated_training_seconds(self) -> float:
        config = training_config(self.config)
        data = self.evaluation_data
        return n_steps(config, len(data.train)) * training_seconds_per_step(config, data, STEPS_MEASURED)


def losses(val: Measured, test: Measured) -> dict[str, float]:
    return {
        "val_loss": val.loss,
        "val_error_percent": val.error_percent,
        "test_loss": test.loss,
        "test_error_percent": test.error_percent,
    }


@dataclass(frozen=True)
class SelfTuningTask:
    """A training that tunes itself. work: where its schedule is kept, which can be found again."""

    name: str
    bed: Bed
    work: Path

    @property
    def run(self) -> Run:
        return self.bed.run(self.name)

    @property
    def path(self) -> Path:
        return self.work / self.bed.place.label / f"{self.name}-seed{self.bed.seed}-{self.run.digest[:8]}.json"

    def do(self) -> Results:
        """What the network does in the end, at lambda itself, and where the hyperparameters stood in each tenth."""
        bed = self.bed
        began, on_wall = bed.clock(), time.monotonic()
        found = bed.searched()
        seconds, wall_seconds = bed.clock() - began, time.monotonic() - on_wall
        assert found.schedule is not None
        self.path.parent.mkdir(parents=True, exist_ok=True)
        found.schedule.save(self.path)
        preprocessing = Preprocessing.of(bed.data.train, bed.config.baseline_augmentation())
        val = measure(found.network, bed.data.val, preprocessing.measure)
        tenths = np.linspace(0, found.schedule.epochs - 1, min(10, found.schedule.epochs)).round().astype(int)
        values = {
            name: [round(float(found.schedule.values[row, column]), 4) for row in tenths]
            for column, name in enumerate(bed.space.names)
        }
        return {
            **losses(val, bed.tested(found.network)),
            "seconds": seconds,
            "wall_seconds": wall_seconds,
            "values": values,
        }

    def schedule(self) -> Schedule:
        """It is searched now where that is missing."""
        if not self.path.exists():
            self.do()
        return Schedule.load(self.path)

    def estimated_seconds(self) -> float:
        """All steps like those behind the warm-up."""
        config = self.bed.config
        warm_up = config.algorithm.update_schedule.warm_up_of(config.epochs)
        per_epoch = len(self.bed.data.train) // config.batch_size
        clock = StepClock(
            warm_up * per_epoch + STEPS_MEASURED, config.algorithm.train_steps, find_device(config.device)
        )
        self.bed.searched(clock)
        return config.epochs * per_epoch * clock.seconds_per_step


@dataclass(frozen=True)
class BaselineTask:
    """Fixed values by whole trainings, in the time that a self-tuning training of the same seed took.

    tuner: as in tuning_baselines.py. store: where the record of that training is.
    """

    name: str
    tuner: str
    budget: SelfTuningTask
    store: Store

    @property
    def bed(self) -> Bed:
        return self.budget.bed

    @property
    def run(self) -> Run:
        return self.bed.run(self.name, time_of=self.budget.name, tuner=dict(TUNERS[self.tuner]))

    def do(self) -> Results:
        """Of the trial with the least validation loss."""
        record = self.store.by_key().get(self.budget.run.key)
        if record is None:
            raise SettingsError(f"{self.name} has the time of {self.budget.name}, which is not run; run that first")
        bed, seconds = self.bed, float(record.results["seconds"])
        best: list[tuple[nn.Module, Measured]] = []

        def objective(values: Values, monitor: Monitor) -> float:
            network, val = bed.trained(bed.constant(values), monitor)
            if not best or val.loss < best[0][1].loss:
                best[:] = [(network, val)]
            return val.loss

        tuned = bed.space.regularizers
        began = time.monotonic()
        found = tune(self.tuner, tuned, objective, bed.config.epochs, seconds, bed.seed, bed.clock)
        wall_seconds = time.monotonic() - began
        if found.best is None:
            raise SettingsError(f"{self.name}: every trial was stopped; give more epochs")
        network, val = best[0]
        finished = [trial for trial in found.trials if trial.loss is not None]
        chosen = dict(zip(bed.space.names, found.trials[found.best].values, strict=True))
        return {
            **losses(val, bed.tested(network)),
            "seconds": sum(trial.seconds for trial in found.trials),
            "wall_seconds": wall_seconds,
            "budget_seconds": seconds,
            "trials": len(found.trials),
            "finished_trials": len(finished),
            "values": {name: round(value, 4) for name, value in chosen.items()},
            **({} if self.tuner == "grid" else {"optuna": version("optuna")}),
        }

    def estimated_seconds(self) -> float:
        """As long as what it has the time of, but one training at least."""
        return max(self.budget.estimated_seconds(), self.bed.estimated_training_seconds())
