"""A run as its folder tells it: the files of a search, of an evaluation, or of both."""

import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pydantic

from hba.errors import RunError
from hba.report.samples import SAMPLES_NAME, Samples
from hba.runtime.validation import first_problem
from hba.schedule.schedule import Schedule

POLICY_NAME, METRICS_NAME, CONFIG_NAME = "policy.json", "metrics.csv", "config.json"
RESULTS_NAME = "results.json"
EVALUATED_NAME = "schedule.json"
"""What an evaluation was of, kept beside its results."""

Metrics = Mapping[str, float | None]


@dataclass(frozen=True)
class SearchFiles:
    """metrics: one mapping for each finished epoch, as in metrics.csv. settings: as in config.json."""

    schedule: Schedule
    metrics: tuple[Metrics, ...]
    settings: Mapping[str, Any]


class Difference(pydantic.BaseModel):
    """The schedule's test error minus a row's, in percentage points, with its 95 % interval."""

    n_pairs: int
    mean: float
    interval: tuple[float, float] | None


class Row(pydantic.BaseModel):
    """A row of results.json; errors in per cent."""

    name: str
    seeds: tuple[int, ...]
    test_error_percent: tuple[float, ...]
    mean: float | None
    std: float | None
    schedule_minus_row: Difference | None = None


class Results(pydantic.BaseModel):
    """What of results.json is shown. Older versions wrote fewer fields."""

    rows: tuple[Row, ...] = pydantic.Field(min_length=1)
    verdict: str | None
    verdict_details: Mapping[str, Any] | None = None
    settings: Mapping[str, Any]
    own_network: str | None = None
    train_images: int
    test_images: int
    device: str
    device_name: str
    n_threads: int
    jobs: int | None = None
    python: str
    packages: Mapping[str, str | None]
    wall_seconds: float | None = None


@dataclass(frozen=True)
class EvaluationFiles:
    """schedule: what was evaluated, None where it is not kept, as by older versions."""

    results: Results
    schedule: Schedule | None


@dataclass(frozen=True)
class Run:
    """samples: None where none are kept. problems: sentences on files that are there but cannot be read."""

    folder: Path
    search: SearchFiles | None
    evaluation: EvaluationFiles | None
    samples: Samples | None
    problems: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.folder.resolve().name

    @property
    def schedule(self) -> Schedule | None:
        """What was found, or what was evaluated."""
        if self.search is not None:
            return self.search.schedule
        return None if self.evaluation is None else self.evaluation.schedule

    @staticmethod
    def read(folder: str | Path) -> "Run":
        """RunError where the folder holds no run, or a file of it is not as a run writes it."""
        folder = Path(folder)
        search = _search(folder) if (folder / POLICY_NAME).exists() else None
        evaluation = _evaluation(folder) if (folder / RESULTS_NAME).exists() else None
        if search is None and evaluation is None:
            raise RunError(
                f"{folder} must be the folder of a search or an evaluation, but it has neither {POLICY_NAME} nor "
                f"{RESULTS_NAME}"
            )
        samples, problems = _samples(folder)
        return Run(folder, search, evaluation, samples, problems)


def _search(folder: Path) -> SearchFiles:
    schedule = Schedule.load(folder / POLICY_NAME)
    metrics = _metrics(folder / METRICS_NAME) if (folder / METRICS_NAME).exists() else ()
    settings = _settings(folder / CONFIG_NAME) if (folder / CONFIG_NAME).exists() else {}
    return SearchFiles(schedule, metrics, settings)


def _evaluation(folder: Path) -> EvaluationFiles:
    path, evaluated = folder / RESULTS_NAME, folder / EVALUATED_NAME
    try:
        results = Results.model_validate_json(path.read_text(encoding="utf-8"))
    except pydantic.ValidationError as error:
        raise RunError(f"{path} is not what an evaluation writes: {first_problem(error)}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise RunError(f"{path} cannot be read: {error}") from None
    return EvaluationFiles(results, Schedule.load(evaluated) if evaluated.exists() else None)


def _metrics(path: Path) -> tuple[Metrics, ...]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return tuple(
                {name: float(cell) if cell else None for name, cell in row.items()} for row in csv.DictReader(file)
            )
    except (OSError, ValueError, TypeError, csv.Error) as error:
        raise RunError(f"{path} cannot be read as numbers: {error}") from None


def _settings(path: Path) -> Mapping[str, Any]:
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(f"{path} cannot be read: {error}") from None
    if not isinstance(settings, dict):
        raise RunError(f"{path} must hold settings by name")
    return settings


def _samples(folder: Path) -> tuple[Samples | None, tuple[str, ...]]:
    """Without its pictures, a report still tells all else."""
    path = folder / SAMPLES_NAME
    if not path.exists():
        return None, ()
    try:
        return Samples.load(path), ()
    except RunError as error:
        return None, (f"{error}.",)
