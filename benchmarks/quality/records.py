"""What runs found, kept in one file for each candidate as soon as they end.

A file is a list of suites: runs of the same settings, on the same images and by the same program. Each suite holds
these once, and of each run what tells it from the others and what it found.
"""

import json
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from reproduction.same_settings import same_settings

from hba.config.evaluation import EvaluationConfig
from hba.config.search import SearchConfig
from hba.runtime.files import write_text
from hba.runtime.provenance import environment

Fields = Mapping[str, Any]

ROOT = Path(__file__).parents[2]
PROGRAM = ("hba", "benchmarks/quality", "benchmarks/reproduction")
"""What decides a run's results. The records themselves change while runs are done."""

OF_ONE_RUN_OR_MACHINE = {"data", "data_root", "device", "workers", "seed"}

OF_TRAINING = {*EvaluationConfig.model_fields, "space", "operations", "interpolation", "fill"}


@dataclass(frozen=True)
class Kept:
    """One run as it is kept. shared: `dataset`, `settings` and hardware and versions. run: the rest that it is named
    by.
    """

    shared: Fields
    run: Fields
    results: Fields


@dataclass(frozen=True)
class Book:
    """The file of one candidate."""

    path: Path

    def all(self) -> Iterator[Kept]:
        for suite in self._suites():
            shared = {name: value for name, value in suite.items() if name != "runs"}
            for run in suite["runs"]:
                yield Kept(shared, {name: value for name, value in run.items() if name != "results"}, run["results"])

    def find(self, dataset: str, settings: Fields, run: Fields) -> Kept | None:
        """The run that was made so, whatever the hardware; the last of several."""
        found = None
        for kept in self.all():
            if (
                kept.run == run
                and kept.shared["dataset"] == dataset
                and same_settings(kept.shared["settings"], settings)
            ):
                found = kept
        return found

    def add(self, dataset: str, settings: Fields, run: Fields, results: Fields, made_by: Fields) -> None:
        """Write one more run. made_by: hardware and versions."""
        # Read anew each time: another command may have written since.
        suites = self._suites()
        shared = {"dataset": dataset, "settings": dict(settings), **made_by}
        for suite in suites:
            if {name: value for name, value in suite.items() if name != "runs"} == shared:
                break
        else:
            suite = {**shared, "runs": []}
            suites.append(suite)
        suite["runs"].append({**run, "results": dict(results)})
        write_text(self.path, _as_text(suites))

    def _suites(self) -> list[dict[str, Any]]:
        if not self.path.exists():
            return []
        suites: list[dict[str, Any]] = json.loads(self.path.read_text(encoding="utf-8"))
        return suites


def _as_text(suites: list[dict[str, Any]]) -> str:
    """JSON with one line for each run, so that a change of the file shows which runs came."""
    parts = []
    for suite in suites:
        shared = json.dumps({name: value for name, value in suite.items() if name != "runs"}, indent=1)
        runs = ",\n  ".join(json.dumps(run) for run in suite["runs"])
        parts.append(f'{shared.removesuffix("}").rstrip()},\n "runs": [\n  {runs}\n ]\n}}')
    return "[\n" + ",\n".join(parts) + "\n]\n"


def settings_of(config: SearchConfig) -> dict[str, Any]:
    """What a search's settings are for all seeds and on any machine, as JSON values."""
    return config.model_dump(mode="json", exclude=OF_ONE_RUN_OR_MACHINE)


def training_settings_of(config: SearchConfig) -> dict[str, Any]:
    """Those of them that a training reads which needs no schedule."""
    return {name: value for name, value in settings_of(config).items() if name in OF_TRAINING}


def made_by(device: torch.device) -> dict[str, Any]:
    """Hardware, versions and the commit of the program, for runs of one thread."""
    return {**environment(device), "n_threads": 1, "commit": _commit()}


def _commit() -> str | None:
    """The commit, with `-dirty` where the program differs from it; None outside a git repository."""
    try:
        changed = _git("status", "--porcelain", "--", *PROGRAM)
        return _git("rev-parse", "--short=12", "HEAD") + ("-dirty" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()
