"""The sets of images, and trainings on them: with a recipe, with a changed group of
operations, or with a search.
"""

import os
import shutil
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from common.options import CIFAR_FOLDER, DATA_FOLDER
from common.records import Results
from common.settings import kept_settings
from common.tasks import SearchTask
from quality.beds import DIGITS, Bed
from quality.tasks import RowTask, row_task

from hba.algorithms.race_measures import calibrated
from hba.algorithms.race_policies import GROUPS as RACE_GROUPS
from hba.config.evaluation import EvaluationConfig
from hba.data import EvaluationData
from hba.errors import DataError
from hba.models.timm_networks import LITE, TIMM
from hba.operations import STAGED
from hba.preprocessing import Preprocessing
from hba.schedule.recipes import RECIPES, TURNS
from hba.schedule.schedule import Schedule
from hba.tasks import task_of
from hba.training.augmentation import Augmentation, ScheduleAugmentation
from hba.training.metrics import logits_of
from hba.training.trainer import Trained

CIFAR = "cifar10"
BALANCED = "wbc-shift"
NONE = "none"
SEARCH = "search"
SETS = ("pbc", BALANCED, "omniglot", "gtsrb32", "rsscn7", "flowers", CIFAR, DIGITS)
SETTINGS: dict[str, Any] = {
    "model": "wrn-10-1",
    "image_size": 24,
    "epochs": 60,
    "batch_size": 100,
    "learning_rate": 0.1,
    "weight_decay": 0.0005,
    "baseline": "none",
    "fast": True,
}
"""The settings of searches and trainings from random weights."""
FINE_TUNING: dict[str, Any] = {
    "model": LITE,
    "pretrained": TIMM,
    "image_size": 48,
    "epochs": 8,
    "batch_size": 32,
    "optimizer": "adamw",
    "learning_rate": 0.003,
    "weight_decay": 0.05,
    "learning_rate_warm_up_epochs": 1,
    "fast": False,
    "tunes_strength": False,
    "smaller": 1.0,
}
"""Settings that replace them for pretrained weights, as `hba auto` fine-tunes and
searches in 20 minutes.
"""
OF_CLASS = {"train": 150, "test": 500}
"""The number of images per class of CIFAR-10; the first ones are used."""
FLIPS = {
    "horizontal flip": "HorizontalFlip",
    "vertical flip": "VerticalFlip",
    "quarter turn": "QuarterTurn",
}
OPERATIONS = {
    **FLIPS,
    "crop and zoom": "PaddedCrop,ResizedCrop",
    "color": "Hue,Saturation,Gamma,Gray",
    "blur and noise": "Blur,Noise,Jpeg",
    "erasing": "Erase",
    "mixing": "Mixup,CutMix",
}
TYPICAL = {
    **TURNS,
    **{
        name: settings
        for groups in RACE_GROUPS.values()
        for name, settings in groups.items()
    },
}
GROUPS = {
    group: {name: TYPICAL[name] for name in names.split(",")}
    for group, names in OPERATIONS.items()
}
"""By name, operations that are tried together, with the probability and the magnitude
of each.
"""


def searches(
    name: str, seeds: Iterable[int], work: Path, device: str, **more_settings: Any
) -> list[SearchTask]:
    """Return searches on a set with the defaults and SETTINGS.

    Args:
        name: The name of the set.
        seeds: The seed of each search.
        work: The folder of run folders.
        device: The device that computes.
        **more_settings: Settings that override the defaults and SETTINGS.
    """
    settings = {
        **SETTINGS,
        "train_size": None,
        "val_size": None,
        "device": device,
        **more_settings,
    }
    bed = Bed(name, None, settings, data=folder_of(name, work))
    return [bed.search_with(SEARCH, seed, work) for seed in seeds]


def folder_of(name: str, work: Path) -> str:
    """The folder of a set, which is unpacked from the archives in the folder HBA_DATA
    if it is missing.
    """
    if name == DIGITS:
        return DIGITS
    folder = work / "sets" / name
    if name == CIFAR:
        return unpacked(folder, f"{CIFAR_FOLDER}.tar.xz", first_of_each_class)
    return unpacked(folder, f"beds/{name}.tar.xz", "data", inside=name)


def unpacked(folder: Path, archive: str, kept: Any, inside: str = "") -> str:
    """Unpack an archive as the folder, if the folder is missing.

    Args:
        folder: The folder to make.
        archive: The archive, relative to the folder HBA_DATA.
        kept: A filter for tarfile.
        inside: The folder of the archive whose contents are used.

    Returns:
        The folder.

    Raises:
        DataError: If the archive cannot be unpacked.
    """
    if not folder.exists():
        unfinished = folder.with_name(f"{folder.name}.part")
        try:
            with tarfile.open(
                Path(os.environ.get(DATA_FOLDER, "")) / archive
            ) as opened:
                opened.extractall(unfinished, filter=kept)
        except (OSError, tarfile.TarError) as error:
            problem = (
                f"the set {folder.name} cannot be unpacked, set {DATA_FOLDER} to its"
                f" folder: {error}"
            )
            raise DataError(problem) from None
        (unfinished / inside).rename(folder)
        shutil.rmtree(unfinished, ignore_errors=True)
    return str(folder)


def first_of_each_class(file: tarfile.TarInfo, folder: str) -> tarfile.TarInfo | None:
    """A filter for tarfile. The names of images are train/<class>/NNNN.jpg."""
    path = Path(file.name)
    return (
        None
        if file.isfile() and int(path.stem) >= OF_CLASS[path.parts[0]]
        else tarfile.data_filter(file, folder)
    )


@dataclass(frozen=True)
class DomainTask(RowTask):
    """A training with a schedule."""

    schedule: Schedule | None = None
    """None for no augmentation; the row `search` uses the schedule of its search."""

    @property
    def settings(self) -> dict[str, Any]:
        return kept_settings(self._searched if self.name == SEARCH else self.config)

    def augmented(self) -> tuple[EvaluationConfig, Augmentation]:
        return self.config, ScheduleAugmentation(
            self._search.schedule() if self.name == SEARCH else self.schedule
        )

    def further_results(self, trained: Trained, data: EvaluationData) -> Results:
        """The mean error of the classes, the calibrated loss, and the results of the
        search.
        """
        colors = self.config.colors_of_network()
        preprocessing = Preprocessing.of(
            data.train, self.config.baseline_augmentation(), colors
        )
        logits, labels = logits_of(
            trained.network, data.test.opened(), preprocessing.measure
        )
        assert trained.test.confusion is not None
        losses = task_of(labels).losses(calibrated(logits, labels), labels)
        results: dict[str, Any] = {
            f"{self.measured_on}_balanced_error_percent": (
                100 - trained.test.confusion.balanced_accuracy_percent
            ),
            f"{self.measured_on}_calibrated_loss": losses.mean().item(),
        }
        if self.name == SEARCH:
            results["search"] = self._search.do()
        return results


def domain_task(
    name: str, schedule: Schedule | None, search: SearchTask, *, tested: bool = False
) -> DomainTask:
    """Return the task of a row.

    Args:
        name: The name of the row.
        schedule: The schedule of the training; None for no augmentation.
        search: The search whose settings are used.
        tested: Train on all training images and measure test images, instead of on the
            search's split.
    """
    fields = vars(row_task(name, search, tested=tested))
    schedule_entry = (
        {}
        if name == SEARCH
        else {"augmentation": ScheduleAugmentation(schedule).definition}
    )
    config_entry = {
        "config": fields["config"].model_copy(update={"fast": search.config.fast})
    }
    return DomainTask(
        **{
            **fields,
            **config_entry,
            "further": fields["further"] | schedule_entry,
            "schedule": schedule,
        }
    )


def recipe(name: str) -> Schedule | None:
    """The schedule of a recipe; None for `none` and for the row `search`."""
    return None if name in (NONE, SEARCH) else RECIPES[name].make()


def changed(name: str, group: str, is_on: bool) -> tuple[str, Schedule | None]:
    """The name and schedule of a recipe with or without a group; the recipe's own name
    if nothing changes.
    """
    schedule = RECIPES[name].make()
    names = schedule.space.names
    rows = (schedule.values, schedule.spread)
    before, spread = (dict(zip(names, row[0].tolist(), strict=True)) for row in rows)
    operations = {operation.name: operation for operation in schedule.space.operations}
    values = dict(before)
    for operation, (probability, magnitude) in GROUPS[group].items():
        if is_on or operation in operations:
            operations.setdefault(operation, STAGED[operation])
            values[f"{operation}.probability"] = probability if is_on else 0.0
            if is_on and magnitude is not None:
                values[f"{operation}.magnitude"] = magnitude
    if values == before:
        return name, recipe(name)
    space = replace(schedule.space, operations=tuple(operations.values()))
    row, width = (
        np.array([[numbers.get(column, 0.0) for column in space.names]])
        for numbers in (values, spread)
    )
    changed_schedule = replace(schedule, space=space, values=row, spread=width)
    return f"{name} {'with' if is_on else 'without'} {group}", changed_schedule
