"""Doing a run: its results as plain numbers, kept in a file of its own as soon as they are there."""

import json
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

import hba
from hba.config.evaluation import EvaluationConfig
from hba.config.search import SearchConfig
from hba.data.config import DataConfig
from hba.errors import SettingsError
from hba.preprocessing.preprocessing import Preprocessing
from hba.runtime.devices import find_device
from hba.runtime.files import write_text
from hba.runtime.memory_errors import explained_memory_errors
from hba.runtime.provenance import environment
from hba.runtime.seeding import derived_seed
from hba.training.augmentation import augmentation_of
from hba.training.measure import measure
from hba.training.train import train
from reproduction.data import Images, Place
from reproduction.runs import Run, Search, Timing, Training
from reproduction.same_settings import same_settings
from reproduction.scales import Scale
from reproduction.timing import floor_seconds_per_step, search_seconds_per_step, without_data

ROUNDS = 5
STEPS_PER_ROUND = 80
"""Of a timing."""

Results = dict[str, Any]


@dataclass(frozen=True)
class Bench:
    """Where things are: results, which are kept for ever, and work, the run folders, which can be made again."""

    scale: Scale
    places: Mapping[str, Place]
    results: Path
    work: Path
    device: str = "auto"
    images: Images = field(default_factory=Images)

    def file_of(self, run: Run, seed: int) -> Path:
        return self.results / self.scale.name / f"{run.name}-seed{seed}.json"

    def is_done(self, run: Run, seed: int) -> bool:
        """Whether results are kept; SettingsError where they are of other settings or images than this run's."""
        path = self.file_of(run, seed)
        if not path.exists():
            return False
        kept = json.loads(path.read_text(encoding="utf-8"))
        expected = self.description(run, seed)
        differing = [
            name
            for name in expected
            if not (
                same_settings(kept.get(name, {}), expected[name])
                if name == "settings"
                else kept.get(name) == expected[name]
            )
        ]
        if differing:
            raise SettingsError(
                f"{path} is kept from a run with another value of {', '.join(differing)}: remove it, or choose another "
                "--results"
            )
        return True

    def description(self, run: Run, seed: int) -> Results:
        """What a record says of its run, besides the results and the hardware."""
        first = run.searches[0] if isinstance(run, Timing) else run
        config = self.training_config(first) if isinstance(first, Training) else self.search_config(first, seed)
        return {
            "run": run.name,
            "seed": seed,
            "scale": self.scale.name,
            "dataset": self.place(first).label,
            # Folders, devices and processes are of one machine only.
            "settings": config.model_dump(mode="json", exclude={"data", "data_root", "device", "workers"}),
        }

    def covers(self, run: Run) -> bool:
        """Whether the run, and each search that it needs, is part of the scale."""
        if isinstance(run, Timing):
            return all(self.covers(search) for search in run.searches)
        parts = [run, *([run.schedule] if isinstance(run, Training) and run.schedule is not None else [])]
        return all(self.scale.settings(part) is not None for part in parts)

    def place(self, run: Search | Training) -> Place:
        dataset = str(run.settings["data"])
        return self.places.get(dataset, Place(dataset, dataset))

    def ablation_sizes(self, run: Search | Training) -> tuple[int, int, int] | None:
        return self.scale.ablation_sizes if run.ablation else None

    def search_config(self, run: Search, seed: int) -> SearchConfig:
        return SearchConfig.from_preset({**self._settings(run), "seed": seed}, run.preset, paper=True).resolved()

    def training_config(self, run: Training) -> EvaluationConfig:
        return EvaluationConfig.like_search({}, self._settings(run), run.preset)

    def _settings(self, run: Search | Training) -> dict[str, Any]:
        settings = self.scale.settings(run)
        if settings is None:
            raise SettingsError(f"{run.name} is not part of the scale {self.scale.name}")
        return {**settings, "data": self.place(run).data, "device": self.device}


def run_once(bench: Bench, run: Run, seed: int) -> Results:
    """The results of a run: those that are kept, or else it is done now."""
    path = bench.file_of(run, seed)
    if bench.is_done(run, seed):
        stored: Results = json.loads(path.read_text(encoding="utf-8"))["results"]
        return stored
    with explained_memory_errors():
        if isinstance(run, Timing):
            results = _time(bench, run)
        elif isinstance(run, Search):
            results = _search(bench, run, seed)[1]
        else:
            results = _train(bench, run, seed)
    record = {**bench.description(run, seed), "results": results, **environment(find_device(bench.device))}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(record, indent=2) + "\n")
    return results


def _search(bench: Bench, run: Search, seed: int) -> tuple[hba.SearchResult, Results]:
    """Searches, or goes on with a search that was interrupted; one that had ended only gives its result again."""
    config = bench.search_config(run, seed)
    data = bench.images.of_search(config, bench.ablation_sizes(run))
    folder = bench.work / bench.scale.name / f"{run.name}-seed{seed}"
    began = (folder / "checkpoint.pt").exists()
    result = hba.search(data, out=folder, resume=began, **without_data(config))
    last = result.metrics[-1]
    results: Results = {
        "val_error_percent": last["val_error_percent"],
        "val_loss": last["val_loss"],
        "seconds": last["seconds"],
        "epochs": config.epochs,
        "curve": [
            [metrics["seconds"], metrics["val_error_percent"]]
            for metrics in result.metrics
            if metrics["val_error_percent"] is not None
        ],
    }
    if run.tested:
        names = (*DataConfig.model_fields, "device")
        settings = {name: getattr(config, name) for name in names if name not in ("val_size", "train_size")}
        tested = bench.images.of_training(EvaluationConfig.make(settings), None)
        preprocessing = Preprocessing.of(data.train, config.baseline_augmentation())
        measured = measure(result.network, result.network, tested.test, preprocessing.measure)
        results |= {"test_loss": measured.loss, "test_error_percent": measured.error_percent}
    return result, results


def _train(bench: Bench, run: Training, seed: int) -> Results:
    schedule = None
    if run.schedule is not None:
        run_once(bench, run.schedule, seed)
        schedule = _search(bench, run.schedule, seed)[0].schedule
    config = bench.training_config(run)
    device = find_device(config.device)
    data = bench.images.of_training(config, bench.ablation_sizes(run))
    began = time.monotonic()
    with torch.random.fork_rng([] if device.type == "cpu" else [device]):
        torch.manual_seed(derived_seed(seed, "default generators of an evaluation"))
        measured = train(config, data, augmentation_of(schedule), seed).test
    return {
        "test_error_percent": measured.error_percent,
        "test_loss": measured.loss,
        "seconds": time.monotonic() - began,
    }


def _time(bench: Bench, run: Timing) -> Results:
    """In turns, so that what else the machine does falls on all alike; ratios are of the same turn."""
    configs = {search: bench.search_config(search, 0) for search in run.searches}
    seconds: dict[Search, list[float]] = {search: [] for search in run.searches}
    floor: list[float] = []
    for _ in range(ROUNDS):
        for search, config in configs.items():
            data = bench.images.of_search(config, bench.ablation_sizes(search))
            seconds[search].append(search_seconds_per_step(config, data, STEPS_PER_ROUND))
            if run.floor:
                floor.append(floor_seconds_per_step(config, data, STEPS_PER_ROUND))
    results: Results = {"seconds_per_step": {search.name: values for search, values in seconds.items()}}
    last = run.searches[-1]
    if run.floor:
        results |= {"floor_seconds_per_step": floor, "over_floor": _ratios(seconds[last], floor)}
    if len(run.searches) == 1:
        n_images = len(bench.images.of_search(configs[last], bench.ablation_sizes(last)).train)
        steps = configs[last].epochs * (n_images // min(configs[last].batch_size, n_images))
        return {**results, "hours": [steps * per_step / 3600 for per_step in seconds[last]]}
    relative = {f"relative_{configs[search].sharing}": _ratios(seconds[search], seconds[last]) for search in configs}
    return {**results, **relative}


def _ratios(values: list[float], base: list[float]) -> list[float]:
    return [value / least for value, least in zip(values, base, strict=True)]


def mean_and_spread(values: list[Any]) -> tuple[float, float | None, int]:
    """Mean, sample standard deviation (None for one value) and number of values."""
    numbers = [number for value in values for number in (value if isinstance(value, list) else [value])]
    return statistics.mean(numbers), statistics.stdev(numbers) if len(numbers) > 1 else None, len(numbers)
