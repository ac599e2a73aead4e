"""Measure how long a training step of a search or of an ordinary training takes, and
measure several things in turns.
"""

import contextlib
import statistics
import time
from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

import torch

import hba
from common.settings import without_data
from hba.config.evaluation import EvaluationConfig
from hba.data import EvaluationData, SearchData
from hba.policy_search.config import SearchConfig
from hba.training.augmentation import ScheduleAugmentation
from hba.training.trainer import train
from hba.utils.devices import find_device

Key = TypeVar("Key", bound=Hashable)


def in_turns(
    timed: Mapping[Key, Callable[[], float]], rounds: int
) -> dict[Key, list[float]]:
    """Measure each once per round, so that other load on the machine affects all alike.

    Args:
        timed: Functions that measure something and return seconds.
        rounds: Number of rounds.

    Returns:
        The seconds of each round.
    """
    seconds: dict[Key, list[float]] = {key: [] for key in timed}
    for _ in range(rounds):
        for key, measure in timed.items():
            seconds[key].append(measure())
    return seconds


class StepClock(hba.SearchCallback):
    """Ends a search after n_steps steps and measures the seconds per step.

    Blocks of `block` steps (T_train) are timed, so that each contains its lambda step.
    The first quarter is left out, and so are blocks in which an epoch ended, because
    the whole validation set is measured then. If an epoch ends in every block, these
    blocks are used.
    """

    def __init__(self, n_steps: int, block: int, device: torch.device) -> None:
        self.n_steps = n_steps
        self.block = block
        self.device = device
        self.done = 0
        self.counts = True
        self.begun = 0.0
        self.seconds: list[float] = []
        self.closing: list[float] = []

    def started(
        self, step: int, total_steps: int, batch_size: int, n_epochs: int
    ) -> None:
        self.begun = self._now()

    def epoch_done(self, metrics: Mapping[str, float | None]) -> None:
        self.counts = False

    def step_done(self, step: int) -> None:
        self.done += 1
        if self.done % self.block == 0:
            now = self._now()
            if self.done > self.n_steps // 4:
                (self.seconds if self.counts else self.closing).append(
                    (now - self.begun) / self.block
                )
            self.begun = now
            self.counts = True

    def stop_requested(self) -> bool:
        return self.done >= self.n_steps

    @property
    def seconds_per_step(self) -> float:
        return statistics.mean(self.seconds or self.closing)

    def _now(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()


def n_steps(config: SearchConfig | EvaluationConfig, n_images: int) -> int:
    """Number of training steps; an incomplete last batch of an epoch is left out."""
    return config.epochs * (n_images // min(config.batch_size, n_images))


def search_seconds_per_step(
    config: SearchConfig, data: SearchData, measured: int
) -> float:
    """Seconds per step of hba.search with these settings, without measuring and saving.

    Steps before and after the warm-up are measured separately, and weighted by their
    shares of the epochs.
    """
    share = config.algorithm.update_schedule.warm_up_epochs / config.epochs
    if not share:
        return _mean_seconds(config, data, measured)
    before, after = (
        config.changed({"warm_up_epochs": 0, "val_steps": steps})
        for steps in (0, config.algorithm.update_schedule.in_a_row)
    )
    return share * _mean_seconds(before, data, measured) + (1 - share) * _mean_seconds(
        after, data, measured
    )


def _mean_seconds(config: SearchConfig, data: SearchData, measured: int) -> float:
    clock = StepClock(
        measured, config.algorithm.train_steps, find_device(config.device)
    )
    hba.search(
        data,
        callback=clock,
        **{**without_data(config), "epochs": max(config.epochs, measured)},
    )
    return clock.seconds_per_step


def training_seconds_per_step(
    config: EvaluationConfig, data: EvaluationData, measured: int
) -> float:
    """Seconds per step of an ordinary training, without a schedule."""
    device = find_device(config.device)
    clock = StepClock(measured, 1, device)
    clock.started(0, 0, 0, 0)

    class Enough(Exception):
        pass

    def count() -> None:
        clock.step_done(clock.done + 1)
        if clock.stop_requested():
            raise Enough

    with contextlib.suppress(Enough):
        train(
            config.model_copy(update={"epochs": max(config.epochs, measured)}),
            data.to(device),
            ScheduleAugmentation(None),
            0,
            count,
        )
    return clock.seconds_per_step
