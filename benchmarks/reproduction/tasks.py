"""The tasks of a table: its searches, trainings and timings, at a scale."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
from common.images import Place, Sizes
from common.records import RESULTS, Results, Run, store_of
from common.running import Task
from common.settings import PAPER
from common.tasks import FLOOR, STEPS_MEASURED, SearchTask, TrainingTask, seconds_in_turns

from hba.config.evaluation import EvaluationConfig
from hba.errors import SettingsError
from hba.policy_search.config import SearchConfig
from reproduction.runs import Asked, Search, Table, Timing, Training, Tuned
from reproduction.scales import Scale
from reproduction.schedules_held_still import FixedTask, ReplayTask
from reproduction.self_tuning import METHODS, Experiment, find_experiment
from reproduction.self_tuning_tasks import BaselineTask, Bed, SelfTuningTask
from reproduction.tuning_baselines import TUNERS

ROUNDS, STEPS_PER_ROUND = 5, 80
"""Of a timing."""
SELF_TUNING = "self-tuning"
"""The records of experiments of STN and Delta-STN."""
TunedTask = SelfTuningTask | BaselineTask | FixedTask | ReplayTask


@dataclass(frozen=True)
class Bench:
    """At which scale, where images are, and where run folders are, which can be made again. results: where the records
    are, for what depends on how long another run took.
    """

    scale: Scale
    places: Mapping[str, Place] = field(default_factory=dict)
    work: Path = Path("runs/reproduction")
    device: str = "auto"
    results: Path = RESULTS

    def covers(self, asked: Asked) -> bool:
        """Whether the run, and each search that it needs, is part of the scale."""
        if isinstance(asked, Tuned):
            return find_experiment(asked, self.scale.name) is not None
        parts = asked.searches if isinstance(asked, Timing) else (asked, *asked.needs)
        return all(self.scale.settings(part) is not None for part in parts)

    def search(self, search: Search, seed: int) -> SearchTask:
        settings = {**PAPER, **self._settings(search), "seed": seed}
        config = SearchConfig.from_preset(settings, search.preset).resolved()
        label, ablation = self.place(search).label, self._ablation(search)
        return SearchTask(search.name, label, config, self.work, self._further, ablation)

    def training(self, training: Training, seed: int) -> TrainingTask:
        config = EvaluationConfig.like_search({}, self._settings(training), training.preset)
        search = None if training.schedule is None else self.search(training.schedule, seed)
        label, ablation = self.place(training).label, self._ablation(training)
        return TrainingTask(training.name, label, config, seed, search, self._further, ablation)

    def timing(self, timing: Timing) -> "TimingTask":
        return TimingTask(timing.name, tuple(self.search(one, 0) for one in timing.searches), timing.floor)

    def tuned(self, tuned: Tuned, seed: int) -> TunedTask:
        experiment = find_experiment(tuned, self.scale.name)
        if experiment is None:
            raise SettingsError(f"{tuned.name} is not part of the scale {self.scale.name}")
        method = tuned.method if tuned.method in METHODS else experiment.budget
        own = self._self_tuning(Tuned(tuned.experiment, method), experiment, seed)
        if tuned.method in METHODS:
            return own
        if tuned.method in TUNERS:
            return BaselineTask(tuned.name, tuned.method, own, store_of(self.results, SELF_TUNING))
        return FixedTask(tuned.name, own.bed) if tuned.method == "fixed" else ReplayTask(tuned.name, own)

    def _self_tuning(self, tuned: Tuned, experiment: Experiment, seed: int) -> SelfTuningTask:
        bed = Bed(experiment, tuned.method, self._place_of(experiment.dataset), self.device, seed)
        return SelfTuningTask(tuned.name, bed, self.work)

    def place(self, asked: Search | Training) -> Place:
        return self._place_of(str(asked.preset_settings["data"]))

    def _place_of(self, dataset: str) -> Place:
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
            raise SettingsError(f"{asked.name} is not part of the scale {self.scale.name}")
        return {**settings, "data": self.place(asked).data, "device": self.device}


@dataclass(frozen=True)
class TimingTask:
    """Steps of searches in turns, so that what else the machine does falls on all alike; ratios are of the same turn.

    floor: with that of the last search.
    """

    name: str
    searches: tuple[SearchTask, ...]
    floor: bool

    @property
    def run(self) -> Run:
        """With the settings of the first search."""
        first = self.searches[0].run
        return Run(self.name, first.dataset, first.settings, 0, first.further)

    def do(self) -> Results:
        seconds = pd.DataFrame(self._round(STEPS_PER_ROUND) for _ in range(ROUNDS))
        last = self.searches[-1]
        results: dict[str, Any] = {"seconds_per_step": {one.name: seconds[one.name].tolist() for one in self.searches}}
        if self.floor:
            results["floor_seconds_per_step"] = seconds[FLOOR].tolist()
            results["over_floor"] = (seconds[last.name] / seconds[FLOOR]).tolist()
        if len(self.searches) == 1:
            return {**results, "hours": (seconds[last.name] * last.n_steps / 3600).tolist()}
        for search in self.searches:
            ratios = seconds[search.name] / seconds[last.name]
            results[f"relative_{search.config.flat()['sharing']}"] = ratios.tolist()
        return results

    def estimated_seconds(self) -> float:
        return ROUNDS * STEPS_PER_ROUND * sum(self._round(STEPS_MEASURED).values())

    def _round(self, measured: int) -> dict[str, float]:
        return seconds_in_turns(self.searches, self.searches[-1] if self.floor else None, measured)


def question_of(table: Table) -> str:
    """Where the records of a table are."""
    return SELF_TUNING if table.contests else "reproduction"


def tasks_of(bench: Bench, table: Table, n_seeds: int) -> tuple[list[Task], list[Task], list[Task]]:
    """The searches that the table needs, the trainings with what they found or in their time, and the timings, seed by
    seed.
    """
    covered = [cell.asked for cell in table.cells if bench.covers(cell.asked)]
    wanted = dict.fromkeys(part for asked in covered for part in (*asked.needs, asked))
    tuned = [one for one in wanted if isinstance(one, Tuned)]
    first = [one for one in tuned if one.method in METHODS]
    searches: list[Task] = [
        bench.search(one, seed) for seed in range(n_seeds) for one in wanted if isinstance(one, Search)
    ]
    searches += [bench.tuned(one, seed) for one in first for seed in range(n_seeds)]
    trainings: list[Task] = [
        bench.training(one, seed) for seed in range(n_seeds) for one in wanted if isinstance(one, Training)
    ]
    trainings += [bench.tuned(one, seed) for one in tuned if one not in first for seed in range(n_seeds)]
    # A timing takes its spread from its rounds.
    return searches, trainings, [bench.timing(one) for one in wanted if isinstance(one, Timing)]
