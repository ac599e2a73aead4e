"""Trainings with what searches found, with a half of it, and with the best of random draws."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from common.records import Results
from common.settings import kept_settings
from common.tasks import SearchTask, TrainingTask

from hba.config.evaluation import EvaluationConfig
from hba.data import EvaluationData
from hba.errors import DivergedError
from hba.models import build_model
from hba.policy_evaluation.rivals import only_augmentation
from hba.policy_search.history import finite_or_none
from hba.preprocessing.preprocessing import network_input_size
from hba.regularization.groups import hyperparameters_of
from hba.schedule.schedule import Schedule
from hba.training.augmentation import Augmentation, ScheduleAugmentation, Unchanged
from hba.training.train import train
from hba.utils.seeding import derived_seed
from joint_tuning.beds import Place

NONE, AUGMENTATION, JOINT, HALF, DRAWN = "none", "augmentation", "joint", "joint-augmentation", "drawn"
ROWS = {
    JOINT: "operations, dropout and weight decay of the joint search",
    AUGMENTATION: "operations of the default search; dropout and weight decay as set",
    HALF: "operations of the joint search; dropout and weight decay as set",
    DRAWN: "operations of the default search; of random draws of dropout and weight decay the best by validation loss",
    NONE: "no augmentation; dropout and weight decay as set",
}
N_DRAWS = 20


@dataclass(frozen=True)
class RowTask(TrainingTask):
    """A training on the bed's training images, measured on its test images. draws: of the row `drawn`."""

    draws: int = N_DRAWS

    @property
    def settings(self) -> dict[str, Any]:
        """Of the search; `none` has none."""
        return kept_settings(self.config if self.search is None else self.search.config)

    def augmented(self) -> tuple[EvaluationConfig, Augmentation]:
        if self.search is None:
            return self.config, Unchanged()
        schedule = self.search.schedule()
        return self.config, ScheduleAugmentation(only_augmentation(schedule) if self.name == HALF else schedule)

    def do(self) -> Results:
        return super().do() if self.name != DRAWN else self._best_of_draws()

    def _best_of_draws(self) -> Results:
        """Trains with each draw on the search's training images, and with the one of least validation loss as a row."""
        assert self.search is not None
        searched = self.search.data
        data = EvaluationData(searched.name, searched.class_names, searched.train, searched.val)
        schedule = self.search.schedule()
        candidates = drawn(schedule, self.config, data, self.seed, self.draws)
        losses = [_loss_of(self.config, data, one, self.seed) for one in candidates]
        best = int(np.argmin(losses))
        test = _measured(self.config, self.data, candidates[best], self.seed)
        values = [one.regularization(0) for one in candidates]
        found = [{**row, "val_loss": finite_or_none(loss)} for row, loss in zip(values, losses, strict=True)]
        return {"test_error_percent": test.error_percent, "test_loss": test.loss, "draws": found, "best": best}

    def estimated_seconds(self) -> float:
        return super().estimated_seconds() * (1 + self.draws if self.name == DRAWN else 1)


def _loss_of(config: EvaluationConfig, data: EvaluationData, schedule: Schedule, seed: int) -> float:
    """On validation images; infinite for a draw whose training diverges."""
    try:
        return float(_measured(config, data, schedule, seed).loss)
    except DivergedError:
        return math.inf


def _measured(config: EvaluationConfig, data: EvaluationData, schedule: Schedule, seed: int) -> Any:
    device = data.train.device
    with torch.random.fork_rng([] if device.type == "cpu" else [device]):
        torch.manual_seed(derived_seed(seed, "default generators of an evaluation"))
        return train(config, data, ScheduleAugmentation(schedule), seed).test


def drawn(schedule: Schedule, config: EvaluationConfig, data: EvaluationData, seed: int, n: int) -> list[Schedule]:
    """The schedule with constant dropout and weight decay beside it, from all of their ranges: rates uniform, weight
    decay uniform in its logarithm.
    """
    size = network_input_size(data.train, config.baseline_augmentation())
    network = build_model(config.model, len(data.class_names), 0, size, None, data.train.n_channels)
    regularizers = hyperparameters_of(["dropout", "weight-decay"], lambda: network, config.weight_decay)
    random = np.random.default_rng(derived_seed(seed, "draws of dropout and weight decay"))
    found = []
    for _ in range(n):
        places = random.random(len(regularizers))
        values = [
            one.low * (one.high / one.low) ** place if one.scale == "log" else one.low + (one.high - one.low) * place
            for one, place in zip(regularizers, places, strict=True)
        ]
        found.append(schedule.with_regularizers(regularizers, values))
    return found


def row_task(row: str, place: Place, seed: int, draws: int = N_DRAWS) -> RowTask:
    """A training of the bed, by the name of its row."""
    search: SearchTask = place.search(JOINT if row in (JOINT, HALF) else AUGMENTATION, seed)
    config = search.config
    alike = {name: getattr(config, name) for name in ("data", "device", "train_size")}
    of_training = EvaluationConfig.like_search(config.model_dump(), {**alike, "epochs": config.epochs})
    further = {**search.further, "training_images": config.train_size, **({"draws": draws} if row == DRAWN else {})}
    used = None if row == NONE else search
    return RowTask(row, search.label, of_training, seed, used, further, view=search.view, draws=draws)
