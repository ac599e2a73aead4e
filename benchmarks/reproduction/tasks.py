"""The tasks of a table at a scale: its searches, trainings and timings."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common.floors import PLAIN, bare_seconds_per_step
from common.images import Place, Sizes
from common.records import Results, Run
from common.running import Task
from common.settings import PAPER
from common.tasks import SearchTask, TrainingTask
from common.timing import in_turns, search_seconds_per_step

from hba.config.evaluation import EvaluationConfig
from hba.errors import SettingsError
from hba.policy_search.config import SearchConfig
from reproduction.runs import Asked, Search, Table, Timing, Training
from reproduction.scales import Scale

FLOOR = "floor"
"""Plain training without augmentation, with the forward passes of a search on
validation batches.
"""
ROUNDS = 5
"""Rounds of a timing."""
STEPS_PER_ROUND = 80
"""Steps in each round of a timing."""


@dataclass(frozen=True)
class Bench:
    """What turns runs of the paper into tasks."""

    scale: Scale
    places: Mapping[str, Place] = field(default_factory=dict)
    """The places of images by dataset."""
    work: Path = Path("runs/reproduction")
    """The folder of run folders."""
    device: str = "auto"

    def covers(self, asked: Asked) -> bool:
        """Whether the run, and each search that it needs, is part of the scale."""
        parts = asked.searches if isinstance(asked, Timing) else (asked, *asked.needs)
        return all(self.scale.settings(run) is not None for run in parts)

    def search(self, search: Search, seed: int) -> SearchTask:
        settings = {**PAPER, "space": "hba", **self._settings(search), "seed": seed}
        config = SearchConfig.from_preset(settings, search.preset).resolved()
        label = self.place(search).label
        ablation = self._ablation(search)
        return SearchTask(
            search.name, label, config, self.work, self._further, ablation
        )

    def training(self, training: Training, seed: int) -> TrainingTask:
        config = EvaluationConfig.like_search(
            {}, self._settings(training), training.preset
        )
        search = (
            None if training.schedule is None else self.search(training.schedule, seed)
        )
        label = self.place(training).label
        ablation = self._ablation(training)
        return TrainingTask(
            training.name, label, config, seed, search, self._further, ablation
        )

    def timing(self, timing: Timing) -> "TimingTask":
        return TimingTask(
            timing.name,
            tuple(self.search(search, 0) for search in timing.searches),
            timing.floor,
        )

    def place(self, asked: Search | Training) -> Place:
        dataset = str(asked.preset_settings["data"])
        return self.places.get(dataset, Place(dataset, dataset))

    @property
    def _further(self) -> dict[str, Any]:
        return {"scale": self.scale.name}

    def _ablation(self, asked: Search | Training) -> Sizes | None:
        first, second, third = self.scale.ablation_sizes
        return (first, second, third) if asked.ablation else None

    def _settings(self, asked: Search | Training) -> dict[str, Any]:
        settings = self.scale.settings(asked)
        if settings is None:
            raise SettingsError(
                f"{asked.name} is not part of the scale {self.scale.name}"
            )
        return {**settings, "data": self.place(asked).data, "device": self.device}


@dataclass(frozen=True)
class TimingTask:
    """Times steps of searches in turns, so that other load on the machine affects all
    alike; ratios are within a turn.
    """

    name: str
    searches: tuple[SearchTask, ...]
    floor: bool
    """Also time the floor of the last search."""

    @property
    def run(self) -> Run:
        """The run, with the settings of the first search."""
        first = self.searches[0].run
        return Run(self.name, first.dataset, first.settings, 0, first.further)

    def do(self) -> Results:
        last = self.searches[-1]
        timed: dict[str, Callable[[], float]] = {
            search.name: partial(
                search_seconds_per_step, search.config, search.data, STEPS_PER_ROUND
            )
            for search in self.searches
        }
        if self.floor:
            timed[FLOOR] = partial(
                bare_seconds_per_step, PLAIN, last.config, last.data, STEPS_PER_ROUND
            )
        seconds = {
            name: np.array(by_round)
            for name, by_round in in_turns(timed, ROUNDS).items()
        }
        results: dict[str, Any] = {
            "seconds_per_step": {
                search.name: seconds[search.name].tolist() for search in self.searches
            }
        }
        if self.floor:
            results["floor_seconds_per_step"] = seconds[FLOOR].tolist()
            results["over_floor"] = (seconds[last.name] / seconds[FLOOR]).tolist()
        if len(self.searches) == 1:
            return {
                **results,
                "hours": (seconds[last.name] * last.n_steps / 3600).tolist(),
            }
        for search in self.searches:
            ratios = seconds[search.name] / seconds[last.name]
            results[f"relative_{search.config.flat()['sharing']}"] = ratios.tolist()
        return results


def tasks_of(
    bench: Bench, table: Table, n_seeds: int
) -> tuple[list[Task], list[Task], list[Task]]:
    """The searches that a table needs, the trainings with their schedules, and the
    timings, seed by seed.
    """
    covered = [cell.asked for cell in table.cells if bench.covers(cell.asked)]
    runs = list(
        dict.fromkeys(run for asked in covered for run in (*asked.needs, asked))
    )
    searches = [
        bench.search(run, seed)
        for seed in range(n_seeds)
        for run in runs
        if isinstance(run, Search)
    ]
    trainings = [
        bench.training(run, seed)
        for seed in range(n_seeds)
        for run in runs
        if isinstance(run, Training)
    ]
    # A timing takes its spread from its rounds.
    return (
        [*searches],
        [*trainings],
        [bench.timing(run) for run in runs if isinstance(run, Timing)],
    )
