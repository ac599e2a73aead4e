"""Policy evaluation of several schedules side by side: same network, images, epochs and seeds for each."""

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from hba.config import EvaluationConfig, find_device
from hba.data.load import EvaluationData, load_evaluation_data
from hba.data.preprocessing import network_input_size
from hba.errors import RunError, SettingsError, explained_memory_errors
from hba.files import write_text
from hba.library import load_policy
from hba.provenance import environment
from hba.schedule import Schedule
from hba.seeding import derived_seed
from hba.train import train

NONE = "none"
RESULTS_NAME = "results.json"


@dataclass(frozen=True)
class EvaluationRow:
    """One schedule: test error in per cent of the last epoch, one value per seed.

    mean: None before the first. std: the sample standard deviation over seeds, None for fewer than two.
    """

    name: str
    test_error_percent: tuple[float, ...]

    @property
    def mean(self) -> float | None:
        return statistics.mean(self.test_error_percent) if self.test_error_percent else None

    @property
    def std(self) -> float | None:
        return statistics.stdev(self.test_error_percent) if len(self.test_error_percent) > 1 else None


@dataclass(frozen=True)
class EvaluationResult:
    """One row per schedule, in the order asked for, and what the numbers depend on."""

    rows: tuple[EvaluationRow, ...]
    config: EvaluationConfig
    train_images: int
    test_images: int
    skipped_images: int
    environment: Mapping[str, Any]

    def save(self, path: Path) -> None:
        """Write results.json whole or not at all."""
        rows = [{**asdict(row), "mean": row.mean, "std": row.std} for row in self.rows]
        content = {
            "rows": rows,
            "settings": self.config.model_dump(),
            "train_images": self.train_images,
            "test_images": self.test_images,
            "skipped_images": self.skipped_images,
            **self.environment,
        }
        write_text(path, json.dumps(content, indent=2) + "\n")


class EvaluationObserver:
    """How an evaluation tells what it is doing. Override what you need; the defaults do nothing."""

    def images_read(self, done: int, total: int) -> None:
        """So many of the images have been read."""

    def data_ready(self, train_images: int, test_images: int | None, n_classes: int, skipped_images: int) -> None:
        """The training images are read; so many files could not be, and were left out.

        test_images: None where only opening their file, after the training, will tell.
        """

    def started(self, config: EvaluationConfig, n_trainings: int, steps_per_training: int) -> None:
        """The first training follows."""

    def step_done(self) -> None:
        """A training step is done."""

    def training_done(self, name: str, seed: int, test_error_percent: float) -> None:
        """One network was trained to its last epoch and measured."""


def evaluate(
    schedule: Schedule | str | Path,
    data: str | Path | EvaluationData | None = None,
    *,
    against: Sequence[str] = (NONE,),
    preset: str | None = None,
    out: str | Path | None = None,
    observer: EvaluationObserver | None = None,
    **settings: Any,
) -> EvaluationResult:
    """Train with the schedule and with each of `against`, and measure the test split after the last epoch of each.

    schedule: a schedule, its file, or the name of a shipped one. data: a dataset's name, a folder, or images in
    memory; None is what the schedule was searched on. against: `none` (the baseline augmentation alone), files or
    names. preset: a key of EVALUATION_PRESETS. settings: fields of EvaluationConfig; what neither sets is as in the
    search. out: a folder for results.json, which is written after each training, so that an interrupted evaluation
    keeps what it has.
    """
    observer = observer or EvaluationObserver()
    entries = _entries(schedule, against)
    main = next(iter(entries.values()))
    if data is not None:
        settings["data"] = data.name if isinstance(data, EvaluationData) else data
    searched = main.provenance.get("settings") if main is not None else None
    searched = searched if isinstance(searched, dict) else {}
    if data is None and preset is None and main is not None and main.provenance and "data" not in searched:
        raise SettingsError("the schedule does not tell what it was searched on: name the data to evaluate it on")
    config = EvaluationConfig.like_search(searched, settings, preset)
    if isinstance(data, EvaluationData) and "image_size" not in settings:
        size = network_input_size(data.train, config.baseline())
        config = EvaluationConfig.like_search(searched, {**settings, "image_size": size}, preset)
    results_path = None if out is None else Path(out) / RESULTS_NAME
    if results_path is not None and results_path.exists():
        raise RunError(f"{results_path} is there already: choose another --out")
    if not isinstance(data, EvaluationData):
        data = load_evaluation_data(config, observer.images_read)
    observer.data_ready(len(data.train), data.n_test, len(data.class_names), len(data.train.skipped))
    return _train_all(config, data, entries, results_path, observer)


def _train_all(
    config: EvaluationConfig,
    data: EvaluationData,
    entries: Mapping[str, Schedule | None],
    results_path: Path | None,
    observer: EvaluationObserver,
) -> EvaluationResult:
    device = find_device(config.device)
    data = data.to(device)
    errors: dict[str, list[float]] = {name: [] for name in entries}
    steps_per_epoch = len(data.train) // min(config.batch_size, len(data.train))
    observer.started(config, len(entries) * config.seeds, config.epochs * steps_per_epoch)
    for seed in range(config.seeds):
        for name, schedule in entries.items():
            with torch.random.fork_rng([] if device.type == "cpu" else [device]), explained_memory_errors():
                torch.manual_seed(derived_seed(seed, "default generators"))
                error_percent = train(config, data, schedule, seed, observer.step_done).test.error_percent
            errors[name].append(error_percent)
            result = EvaluationResult(
                rows=tuple(EvaluationRow(name, tuple(values)) for name, values in errors.items()),
                config=config,
                train_images=len(data.train),
                test_images=len(data.test),
                skipped_images=len(data.train.skipped) + len(data.test.skipped),
                environment=environment(device),
            )
            if results_path is not None:
                result.save(results_path)
            observer.training_done(name, seed, error_percent)
    return result


def _entries(schedule: Schedule | str | Path, against: Sequence[str]) -> dict[str, Schedule | None]:
    """Row names and what each trains with, the schedule first."""
    if isinstance(schedule, Schedule):
        entries: dict[str, Schedule | None] = {"schedule": schedule}
    else:
        entries = {_row_name(schedule): load_policy(schedule)}
    for other in against:
        name = NONE if other == NONE else _row_name(other)
        if name in entries:
            raise SettingsError(f"two rows would be called {name!r}; give each schedule a file name of its own")
        entries[name] = None if other == NONE else load_policy(other)
    return entries


def _row_name(path_or_name: str | Path) -> str:
    """The file's name, or its run folder's for a policy.json."""
    path = Path(path_or_name)
    if path.is_dir():
        return path.resolve().name
    return path.resolve().parent.name if path.name == "policy.json" else path.stem
