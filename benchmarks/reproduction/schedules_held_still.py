"""STN's Table 1: whether a schedule is worth more than a fixed value, with one hyperparameter, a dropout rate."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from common.records import Results, Run
from torch import Tensor, nn
from torch.optim import Optimizer

from hba.training.augmentation import EpochRegularization, ScheduleAugmentation
from hba.utils.seeding import derived_seed
from reproduction.self_tuning_tasks import Bed, SelfTuningTask, losses

RATES = (0.05, 0.2, 0.35, 0.5, 0.6, 0.7, 0.8, 0.9)
"""Of the grid."""
NOISE = 0.05
"""Standard deviation of the noise on the rate, new for every batch (STN, Figure 9)."""
AMPLITUDE, PERIOD_EPOCHS = 0.1, 3.6
"""Of the sinusoid. STN's 1,200 batches are so many epochs of its text."""
VARIANTS = ("noise", "sinusoid")


@dataclass
class Rates:
    """Rates around another, batch by batch."""

    kind: str
    steps_per_epoch: int
    random: np.random.Generator
    step: int = 0

    def next(self, rate: float) -> float:
        """Within [0, 0.95]."""
        if self.kind == "noise":
            moved = rate + NOISE * float(self.random.standard_normal())
        else:
            moved = rate + AMPLITUDE * math.sin(2 * math.pi * self.step / (PERIOD_EPOCHS * self.steps_per_epoch))
        self.step += 1
        return min(max(moved, 0.0), 0.95)


@dataclass(frozen=True)
class VariedEpoch(EpochRegularization):
    """network: none before the epoch begins, then the one that is trained."""

    rates: Rates
    network: list[nn.Module]

    def begin(self, network: nn.Module, optimizer: Optimizer) -> None:
        super().begin(network, optimizer)
        self.network[:] = [network]

    def inputs(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """It is asked before each step."""
        ((name, rate),) = self.row.items()
        module = self.network[0].get_submodule(name.partition(".")[2])
        assert isinstance(module, nn.Dropout)
        module.p = self.rates.next(rate)
        return super().inputs(images, generator)


@dataclass(frozen=True)
class Varied(ScheduleAugmentation):
    """A fixed dropout rate that changes from batch to batch, for one training."""

    rates: Rates

    def regularization_by_epoch(self, epochs: int, device: torch.device) -> Sequence[EpochRegularization]:
        found = super().regularization_by_epoch(epochs, device)
        return [VariedEpoch(**vars(one), rates=self.rates, network=[]) for one in found]


@dataclass(frozen=True)
class FixedTask:
    """Every rate of the grid; and around the one of the least validation loss, noise and a sinusoid."""

    name: str
    bed: Bed

    @property
    def run(self) -> Run:
        kinds = {"noise": NOISE, "amplitude": AMPLITUDE, "period_epochs": PERIOD_EPOCHS}
        return self.bed.run(self.name, rates=list(RATES), **kinds)

    def do(self) -> Results:
        bed = self.bed
        began = bed.clock()
        by_rate = {rate: bed.trained(bed.constant((rate,))) for rate in RATES}
        grid_seconds = bed.clock() - began
        best = min(by_rate, key=lambda rate: by_rate[rate][1].loss)
        network, val = by_rate[best]
        results: dict[str, Any] = {
            **losses(val, bed.tested(network)),
            "rate": best,
            "grid": {str(rate): round(val.loss, 5) for rate, (_, val) in by_rate.items()},
        }
        steps_per_epoch = len(bed.data.train) // bed.config.batch_size
        for kind in VARIANTS:
            seed = derived_seed(bed.seed, f"rates of {kind}")
            rates = Rates(kind, steps_per_epoch, np.random.default_rng(seed))
            network, val = bed.trained(Varied(bed.constant((best,)).schedule, rates))
            results |= {f"{kind}_{name}": value for name, value in losses(val, bed.tested(network)).items()}
        return {**results, "grid_seconds": grid_seconds, "seconds": bed.clock() - began}

    def estimated_seconds(self) -> float:
        return (len(RATES) + len(VARIANTS)) * self.bed.estimated_training_seconds()


@dataclass(frozen=True)
class ReplayTask:
    """A fresh network by the schedule that STN found, and another by its last value alone."""

    name: str
    search: SelfTuningTask

    @property
    def run(self) -> Run:
        return self.search.bed.run(self.name, schedule=self.search.name)

    def do(self) -> Results:
        bed, schedule = self.search.bed, self.search.schedule()
        began = bed.clock()
        network, val = bed.trained(ScheduleAugmentation(schedule))
        results = losses(val, bed.tested(network))
        network, val = bed.trained(ScheduleAugmentation(schedule.only(schedule.epochs - 1)))
        final = {f"final_{name}": value for name, value in losses(val, bed.tested(network)).items()}
        return {**results, **final, "seconds": bed.clock() - began}

    def estimated_seconds(self) -> float:
        return 2 * self.search.bed.estimated_training_seconds()
