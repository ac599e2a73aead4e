"""Records of benchmark runs: one JSON line per run, one file per question.

The key of a run is its seed and a digest of everything else that decides its results. A
run whose key is already stored is not run again.
"""

import hashlib
import json
import subprocess
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from common.settings import Settings, decisive
from hba.errors import SettingsError
from hba.utils.devices import environment
from hba.utils.files import write_text

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
DOCS = ROOT / "docs"
PROGRAM = ("hba", "benchmarks", ":!benchmarks/results", ":!benchmarks/pages")
"""The files that decide a run's results. The records themselves change while runs are
being done.
"""
DIRTY = "-dirty"
"""Suffix of a commit when the files differ from it."""

Results = Mapping[str, Any]
Key = tuple[str, int]


@dataclass(frozen=True)
class Run:
    """A run, described independently of the machine."""

    name: str
    """Name of the candidate, row or search."""
    dataset: str
    """The name of the images in records."""
    settings: Settings
    """JSON values."""
    seed: int
    further: Mapping[str, Any] = field(default_factory=dict)
    """Everything else that decides the results."""
    generation: int = 1
    """Counts the changes of the program after which the same seed draws other numbers;
    runs of an earlier generation are kept but not continued.
    """

    @property
    def digest(self) -> str:
        """Equal for runs that differ only in the seed."""
        content = [
            self.name,
            self.dataset,
            decisive(self.settings),
            dict(self.further),
            self.generation,
        ]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[
            :16
        ]

    @property
    def key(self) -> Key:
        return self.digest, self.seed


@dataclass(frozen=True)
class Record:
    """A run and its results."""

    run: Run
    results: Results
    made_by: Mapping[str, Any]
    """The hardware, versions and commit that produced the results."""

    def as_line(self) -> str:
        parts = {
            "digest": self.run.digest,
            **asdict(self.run),
            "made_by": self.made_by,
            "results": self.results,
        }
        return json.dumps(parts, allow_nan=False)

    @staticmethod
    def from_line(line: str) -> "Record":
        parts = json.loads(line)
        del parts["digest"]
        results = parts.pop("results")
        made_by = parts.pop("made_by")
        return Record(Run(**parts), results, made_by)


@dataclass(frozen=True)
class Store:
    """The records of one question in a file of JSON lines."""

    path: Path

    def by_key(self) -> dict[Key, Record]:
        """The last record of each key."""
        if not self.path.exists():
            return {}
        records = map(
            Record.from_line, self.path.read_text(encoding="utf-8").splitlines()
        )
        return {record.run.key: record for record in records}

    def records(self) -> list[Record]:
        """The last record of each key."""
        return list(self.by_key().values())

    def add(self, *records: Record) -> None:
        # Read it again each time: another command may have written to it in the
        # meantime.
        before = self.path.read_text(encoding="utf-8") if self.path.exists() else ""
        write_text(
            self.path, before + "".join(record.as_line() + "\n" for record in records)
        )


def store_of(results: Path, question: str) -> Store:
    return Store(results / f"{question}.jsonl")


def newest(records: Iterable[Record], place: Callable[[Run], Hashable]) -> list[Record]:
    """The records with the last digest for each place in a table, so that older and
    newer settings are not mixed.
    """
    records = list(records)
    last = {place(record.run): record.run.digest for record in records}
    return [
        record for record in records if last[place(record.run)] == record.run.digest
    ]


def made_by(device: torch.device) -> dict[str, Any]:
    """Hardware, versions and the commit of the program, for runs with one thread."""
    return {**environment(device), "n_threads": 1, "commit": _commit()}


def plan_noted(plan: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return the plan as records keep it.

    Args:
        plan: The entries of the plan.
        path: The file of the plan.

    Returns:
        The entries, and the commit that last changed the file (None outside git).

    Raises:
        SettingsError: If the file has uncommitted changes, because a plan is stated
            before it is run.
    """
    try:
        file = str(path.resolve())
        commit = _git("log", "-1", "--format=%h", "--abbrev=12", "--", file) or None
        if commit and _git("status", "--porcelain", "--", file):
            raise SettingsError(
                f"{path} has changes that are not committed; commit them before you run"
                " the verdict"
            )
    except (OSError, subprocess.CalledProcessError):
        commit = None
    return {"plan": {**plan, "commit": commit}}


def _commit() -> str | None:
    """The commit, with `-dirty` if the program differs from it; None outside a git
    repository.
    """
    try:
        changed = _git("status", "--porcelain", "--", *PROGRAM)
        return _git("rev-parse", "--short=12", "HEAD") + (DIRTY if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()
