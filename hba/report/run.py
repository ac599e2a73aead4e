"""The folder of a run, as its page and comparisons read it: the files of a search, of an evaluation, or of both."""

import contextlib
import csv
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hba.errors import RunError
from hba.report.results import RESULTS_NAME, EvaluationResult, read_results
from hba.report.samples import SAMPLES_NAME, Samples
from hba.schedule.library import POLICY_NAME, of_several_seeds
from hba.schedule.schedule import Schedule
from hba.utils.files import read_text, reason_of

METRICS_NAME, CONFIG_NAME = "metrics.csv", "config.json"
OWN = "own parts"
"""The key of config.json, beside the settings, that lists those for which the user passed an object of their own."""
EVALUATED_NAME = "schedule.json"
"""The schedule that an evaluation was of, kept beside its results."""

Metrics = Mapping[str, float | None]


@dataclass(frozen=True)
class SearchFiles:
    """metrics: one mapping for each finished epoch, as in metrics.csv. settings: as in config.json."""

    schedule: Schedule
    metrics: tuple[Metrics, ...]
    settings: Mapping[str, Any]

    def measured(self, name: str) -> dict[int, float]:
        """A column of the metrics by epoch, counted from 1, where it was measured."""
        found = ((row.get("epoch"), row.get(name)) for row in self.metrics)
        return {int(epoch): value for epoch, value in found if epoch is not None and value is not None}


@dataclass(frozen=True)
class Run:
    """evaluated: the schedule of an evaluation; None where it is not kept, as by older versions. samples: None where
    none are kept.
    """

    folder: Path
    search: SearchFiles | None
    results: EvaluationResult | None
    evaluated: Schedule | None
    samples: Samples | None

    @property
    def schedule(self) -> Schedule | None:
        """What was found, or what was evaluated."""
        return self.evaluated if self.search is None else self.search.schedule

    @staticmethod
    def read(folder: str | Path) -> "Run":
        """RunError where the folder holds no run, or a file of it is not as a run writes it."""
        folder = Path(folder)
        search, results, evaluated, samples = None, None, None, None
        # hba.train writes its policy beside results, without the settings of a search.
        is_search = (folder / CONFIG_NAME).exists() or not (folder / RESULTS_NAME).exists()
        if is_search and (folder / POLICY_NAME).exists():
            schedule = Schedule.load(folder / POLICY_NAME)
            search = SearchFiles(schedule, _metrics(folder / METRICS_NAME), _settings(folder / CONFIG_NAME))
        if (folder / RESULTS_NAME).exists():
            results = read_results(folder / RESULTS_NAME)
            evaluated = Schedule.load(folder / EVALUATED_NAME) if (folder / EVALUATED_NAME).exists() else None
        if search is None and results is None:
            raise RunError(
                of_several_seeds(folder)
                or f"{folder} must be the folder of a search or an evaluation, but it has neither {POLICY_NAME} nor "
                f"{RESULTS_NAME}"
            )
        if (folder / SAMPLES_NAME).exists():
            with _reading(folder / SAMPLES_NAME):
                samples = Samples.load(folder / SAMPLES_NAME)
        return Run(folder, search, results, evaluated, samples)


def _metrics(path: Path) -> tuple[Metrics, ...]:
    """Empty where there is no such file."""
    with _reading(path):
        rows = csv.DictReader(io.StringIO(read_text(path))) if path.exists() else ()
        return tuple({name: float(cell) if cell else None for name, cell in row.items()} for row in rows)


def _settings(path: Path) -> Mapping[str, Any]:
    """Empty where there is no such file."""
    with _reading(path):
        settings = json.loads(read_text(path)) if path.exists() else {}
        own = settings.pop(OWN, ())
        return settings | {name: "your own" for name in settings if name in own}


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        # Pillow raises exceptions of any kind for damaged files.
        raise RunError(f"{path} cannot be read: {reason_of(error)}") from None
