"""Whole searches by candidates, and trainings with the schedules that they found, all measured on validation images.

No test split is opened: it must not decide between candidates.
"""

import dataclasses
import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from reproduction.timing import training_seconds_per_step, without_data

import hba
from hba.config.evaluation import EvaluationConfig
from hba.config.search import IDLE_SETTINGS, SearchConfig
from hba.data import EvaluationData
from hba.policy_evaluation.rivals import middle
from hba.runtime.devices import find_device
from hba.runtime.memory_errors import explained_memory_errors
from hba.runtime.seeding import derived_seed
from hba.schedule.schedule import Schedule
from hba.training.augmentation import Augmentation, ScheduleAugmentation, Unchanged
from hba.training.train import train
from quality.beds import IMAGES
from quality.ends import results_of
from quality.pool import Results
from quality.records import settings_of, training_settings_of
from quality.suite import STEPS_MEASURED, n_steps, seconds_of_search

NONE, RANDOM = "none", "random"
LEFT_OUT: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "no-contrast": ("AutoContrast", "Equalize"),
        "no-translation": ("TranslateX", "TranslateY"),
        "no-rotation": ("Rotate", "ShearX", "ShearY"),
    }
)
"""Random policies without these operations, in whose place the others fire more often: what an operation is worth over
a whole training. None of those that do nothing at the middle of their range is among them.
"""
RIVALS: Mapping[str, str] = MappingProxyType(
    {
        NONE: "the baseline augmentation alone",
        RANDOM: "in every epoch all probabilities 0.5, all magnitudes in the middle of their range",
        **{name: f"the same without {' and '.join(operations)}" for name, operations in LEFT_OUT.items()},
    }
)
"""What a training can have instead of a found schedule."""


@dataclass(frozen=True)
class SearchTask:
    """A search by a candidate's settings. work: the folder of all run folders, which can be made again."""

    candidate: str
    config: SearchConfig
    work: Path

    @property
    def settings(self) -> Mapping[str, Any]:
        return settings_of(self.config)

    @property
    def run(self) -> Mapping[str, Any]:
        return {"seed": self.config.seed}

    @property
    def folder(self) -> Path:
        """The run folder, another for each choice of settings that the algorithm reads."""
        idle = IDLE_SETTINGS[self.config.algorithm]
        read = {name: value for name, value in self.settings.items() if name not in idle}
        digest = hashlib.sha256(json.dumps(read, sort_keys=True).encode()).hexdigest()[:8]
        return self.work / f"{self.candidate}-seed{self.config.seed}-{digest}"

    def estimated_seconds(self) -> float:
        return seconds_of_search(self.config)


@dataclass(frozen=True)
class TrainingTask:
    """A training of a fresh network with what the search of the same seed found, or with a rival's name as candidate.

    config: the search's; training settings are those of it that apply, but for the number of epochs.
    """

    candidate: str
    config: SearchConfig
    work: Path
    epochs: int

    @property
    def settings(self) -> Mapping[str, Any]:
        return training_settings_of(self.config) if self.candidate in RIVALS else settings_of(self.config)

    @property
    def run(self) -> Mapping[str, Any]:
        return {"training_epochs": self.epochs, "seed": self.config.seed}

    @property
    def training_config(self) -> EvaluationConfig:
        settings = {"epochs": self.epochs, "data": self.config.data, "device": self.config.device}
        return EvaluationConfig.like_search(self.config.model_dump(), settings)

    @property
    def search(self) -> SearchTask | None:
        """The search whose schedule it needs."""
        return None if self.candidate in RIVALS else SearchTask(self.candidate, self.config, self.work)

    def estimated_seconds(self) -> float:
        config, data = self.training_config, training_data(self.config)
        steps = n_steps(config.epochs, config.batch_size, len(data.train))
        seconds = steps * training_seconds_per_step(config, data, STEPS_MEASURED)
        search = self.search
        return seconds + (0.0 if search is None or search.folder.exists() else search.estimated_seconds())


def search_whole(task: SearchTask) -> Results:
    """What a search ended with."""
    return results_of(searched(task))


def searched(task: SearchTask) -> hba.SearchResult:
    """Searches, or goes on with a search that was interrupted; one that had ended only gives its result again."""
    began = (task.folder / "checkpoint.pt").exists()
    data = IMAGES.of_search(task.config, None)
    return hba.search(data, out=task.folder, resume=began, **without_data(task.config))


def found_schedule(task: SearchTask) -> Schedule:
    """Of a search; it is done now where that is missing. Of a finished one only the schedule is read, because several
    processes may ask for it at a time.
    """
    if task.folder.joinpath("policy.json").exists():
        schedule = hba.load_policy(task.folder)
        if schedule.epochs == task.config.epochs:
            return schedule
    found = searched(task).schedule
    assert found is not None
    return found


def training_data(config: SearchConfig) -> EvaluationData:
    """The search's training images to train on, and its validation images to measure on."""
    data = IMAGES.of_search(config, None)
    return EvaluationData(data.name, data.class_names, data.train, data.val)


def train_whole(task: TrainingTask) -> Results:
    """The trained network's validation error and loss, and the training's seconds without those of the search."""
    config, data = task.training_config, training_data(task.config)
    augmentation = _augmentation_of(task)
    device = find_device(config.device)
    began = time.monotonic()
    with torch.random.fork_rng([] if device.type == "cpu" else [device]), explained_memory_errors():
        torch.manual_seed(derived_seed(task.config.seed, "default generators of an evaluation"))
        measured = train(config, data, augmentation, task.config.seed).test
    return {
        "val_error_percent": measured.error_percent,
        "val_loss": measured.loss,
        "seconds": time.monotonic() - began,
    }


def _augmentation_of(task: TrainingTask) -> Augmentation:
    if task.search is not None:
        return ScheduleAugmentation(found_schedule(task.search))
    if task.candidate == NONE:
        return Unchanged()
    space = task.config.search_space()
    start = Schedule(space, space.decode(space.initial().double())[None].numpy(), _fill_of(task.config))
    return ScheduleAugmentation(without(middle(start), LEFT_OUT.get(task.candidate, ())))


def without(schedule: Schedule, operations: Sequence[str]) -> Schedule:
    """The same where these operations never fire."""
    values = schedule.values.copy()
    for slot in schedule.space.slots:
        if slot.operation.name in operations:
            values[:, slot.probability] = 0.0
    return dataclasses.replace(schedule, values=values)


def _fill_of(config: SearchConfig) -> tuple[float, ...]:
    return config.fill or IMAGES.of_search(config, None).train.mean_color()
