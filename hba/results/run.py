"""Reads the folder of a run for its page and for comparisons: files of a search, of an
evaluation, or of both.
"""

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from hba.data.reading import LEFT_OUT_NAME, SkippedFile
from hba.errors import RunError
from hba.results.evaluation import RESULTS_NAME, EvaluationResult, read_results
from hba.schedule.library import POLICY_NAME, of_several_seeds
from hba.schedule.schedule import Schedule
from hba.training.trained_network import INFO_NAME
from hba.utils.files import read_text, reason_of, run_of

METRICS_NAME = "metrics.csv"
"""The losses and errors of a search, by epoch."""
CONFIG_NAME = "config.json"
"""The settings of a search."""
OWN = "own parts"
"""The key of config.json, next to the settings, that lists those for which the user
passed their own object.
"""
EVALUATED_NAME = "schedule.json"
"""The schedule of an evaluation, saved next to its results."""
AUTO_NAME = "auto.json"
"""The plan and the decisions of a run of `hba auto`."""
SEARCH_FOLDER = "search"
"""The folder of the search of a run of `hba auto`."""
ROWS_FOLDER = "rows"
"""The folder of recipes with the symmetries that this search has found."""
TEST_FOLDER = "evaluation"
"""The folder of the test of a run of `hba auto`."""

Content = TypeVar("Content")


@dataclass(frozen=True)
class SearchFiles:
    """The files of a search."""

    schedule: Schedule
    metrics: Sequence[Mapping[str, float | None]]
    """One mapping for each finished epoch, as in metrics.csv."""
    settings: Mapping[str, Any]
    """The content of config.json."""

    def measured(self, name: str) -> dict[int, float]:
        """A column of the metrics, by epoch, counted from 1, for the epochs that
        measured it.
        """
        column = ((row.get("epoch"), row.get(name)) for row in self.metrics)
        return {
            int(epoch): value
            for epoch, value in column
            if epoch is not None and value is not None
        }


@dataclass(frozen=True)
class Run:
    """The files of a run in its folder."""

    folder: Path
    search: SearchFiles | None
    """The search, if there is one."""
    results: EvaluationResult | None
    """The evaluation, if there is one."""
    evaluated: Schedule | None
    """The schedule of the evaluation, or the one that `hba auto` chose; None before it
    has ended.
    """
    auto: Mapping[str, Any] = field(default_factory=dict)
    """The content of auto.json; empty if there is none."""
    network: Mapping[str, Any] = field(default_factory=dict)
    """The content of network.json; empty if there is none."""
    left_out: tuple[SkippedFile, ...] = ()
    """Files that were not used."""

    @property
    def schedule(self) -> Schedule | None:
        """The schedule that was found or evaluated; for `hba auto`, the chosen one."""
        return (
            self.evaluated if self.search is None or self.auto else self.search.schedule
        )

    @property
    def policy_file(self) -> str:
        """Name of the schedule's file in the folder."""
        return EVALUATED_NAME if self.search is None and not self.auto else POLICY_NAME

    @property
    def folders(self) -> tuple[Path, Path]:
        """The folders of the search and of the evaluation."""
        return _folders(self.folder, is_auto=bool(self.auto))

    @staticmethod
    def read(folder: str | Path) -> "Run":
        """Read a folder, or that of a file. Raises RunError if it contains no run, or
        if one of its files is broken.
        """
        folder = run_of(folder)
        auto = read_part(folder / AUTO_NAME, _object) or {}
        searched, tested = _folders(folder, is_auto=bool(auto))
        search = None
        # hba.train writes its policy next to results, without the settings of a search.
        is_search = (searched / CONFIG_NAME).exists() or not (
            searched / RESULTS_NAME
        ).exists()
        if is_search and (searched / POLICY_NAME).exists():
            schedule = Schedule.load(searched / POLICY_NAME)
            metrics = read_part(searched / METRICS_NAME, _metrics) or ()
            search = SearchFiles(
                schedule, metrics, read_part(searched / CONFIG_NAME, _settings) or {}
            )
        results = None
        if (tested / RESULTS_NAME).exists():
            results = read_results(tested / RESULTS_NAME)
        evaluated = None
        evaluated_file = folder / (POLICY_NAME if auto else EVALUATED_NAME)
        if evaluated_file.exists() and (auto or results is not None):
            evaluated = Schedule.load(evaluated_file)
        if search is None and results is None and not auto:
            raise RunError(
                of_several_seeds(folder)
                or f"{folder} must be the folder of a search or an evaluation, "
                f"but has neither {POLICY_NAME} nor {RESULTS_NAME}"
            )
        left_out = [
            file
            for place in (folder, searched, tested)
            for file in read_left_out(place / LEFT_OUT_NAME)
        ]
        network = read_part(folder / INFO_NAME, _object) or {}
        return Run(
            folder,
            search,
            results,
            evaluated,
            auto,
            network,
            tuple(dict.fromkeys(left_out)),
        )


def _folders(folder: Path, *, is_auto: bool) -> tuple[Path, Path]:
    """The folders of the search and of the evaluation of a run."""
    if is_auto:
        return folder / SEARCH_FOLDER, folder / TEST_FOLDER
    return folder, folder


def read_part(path: Path, load: Callable[[Path], Content]) -> Content | None:
    """Load a file; None if it does not exist. Raises RunError if loading fails."""
    try:
        return load(path) if path.exists() else None
    except Exception as error:
        # Any program may have written the file; Pillow raises any kind of exception.
        raise RunError(f"{path} cannot be read: {reason_of(error)}") from None


def _object(path: Path) -> dict[str, Any]:
    content = json.loads(read_text(path))
    if not isinstance(content, dict):
        raise ValueError("it must contain a JSON object")
    return content


def _settings(path: Path) -> dict[str, Any]:
    settings = _object(path)
    own_parts = settings.pop(OWN, ())
    return settings | {name: "your own" for name in settings if name in own_parts}


def _metrics(path: Path) -> list[dict[str, float | None]]:
    return [
        {name: float(cell) if cell else None for name, cell in row.items()}
        for row in _rows(path)
    ]


def read_left_out(path: Path) -> list[SkippedFile]:
    """The files that a left_out.csv lists; none if there is no such file."""

    def load(file: Path) -> list[SkippedFile]:
        return [SkippedFile(row["path"], row["reason"]) for row in _rows(file)]

    return read_part(path, load) or []


def _rows(path: Path) -> Iterator[dict[str, str]]:
    return csv.DictReader(io.StringIO(read_text(path)))
