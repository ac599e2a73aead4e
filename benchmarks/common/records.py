"""What runs found: one line of JSON for each, in one file for each question.

A run's key is a digest of all that decides what it finds, and its seed. What is kept under the key is not run again.
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
from hba.utils.files import write_text
from hba.utils.provenance import environment

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
DOCS = ROOT / "docs"
PROGRAM = ("hba", "benchmarks", ":!benchmarks/results", ":!benchmarks/pages")
"""What decides a run's results. The records themselves change while runs are done."""

DIRTY = "-dirty"
"""Ends a commit that what it names differs from."""

Results = Mapping[str, Any]
Key = tuple[str, int]


@dataclass(frozen=True)
class Run:
    """What is asked for, on any machine.

    name: of the candidate, row or search. dataset: what records call the images. settings: as JSON values. further:
    what decides the results beside them. generation: counts the changes of the program after which the same seed draws
    other numbers, so that runs from before are kept but not continued.
    """

    name: str
    dataset: str
    settings: Settings
    seed: int
    further: Mapping[str, Any] = field(default_factory=dict)
    generation: int = 1

    @property
    def digest(self) -> str:
        """Equal for runs that differ in nothing but the seed."""
        content = [self.name, self.dataset, decisive(self.settings), dict(self.further), self.generation]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def key(self) -> Key:
        return self.digest, self.seed


@dataclass(frozen=True)
class Record:
    """A run, what it found, and the hardware, versions and commit that it was made by."""

    run: Run
    results: Results
    made_by: Mapping[str, Any]

    def as_line(self) -> str:
        parts = {"digest": self.run.digest, **asdict(self.run), "made_by": self.made_by, "results": self.results}
        return json.dumps(parts, allow_nan=False)

    @staticmethod
    def from_line(line: str) -> "Record":
        parts = json.loads(line)
        del parts["digest"]
        results, made_by = parts.pop("results"), parts.pop("made_by")
        return Record(Run(**parts), results, made_by)


@dataclass(frozen=True)
class Store:
    """The records of one question, in a file of JSON lines."""

    path: Path

    def by_key(self) -> dict[Key, Record]:
        """The last of equal keys."""
        if not self.path.exists():
            return {}
        found = map(Record.from_line, self.path.read_text(encoding="utf-8").splitlines())
        return {record.run.key: record for record in found}

    def add(self, *records: Record) -> None:
        # Read anew each time: another command may have written since.
        before = self.path.read_text(encoding="utf-8") if self.path.exists() else ""
        write_text(self.path, before + "".join(record.as_line() + "\n" for record in records))


def store_of(results: Path, question: str) -> Store:
    return Store(results / f"{question}.jsonl")


def newest(records: Iterable[Record], place: Callable[[Run], Hashable]) -> list[Record]:
    """Those of the digest that came last, for each place in a table: older settings and seeds are not mixed with it."""
    records = list(records)
    last = {place(record.run): record.run.digest for record in records}
    return [record for record in records if last[place(record.run)] == record.run.digest]


def newest_of_each_size(results: Path, question: str) -> list[Record]:
    """Those of benchmarks of steps: for each network, side of images and size of batches."""
    records = store_of(results, question).by_key().values()
    return newest(records, lambda run: tuple(run.settings[one] for one in ("model", "image_size", "batch_size")))


def made_by(device: torch.device) -> dict[str, Any]:
    """Hardware, versions and the commit of the program, for runs of one thread."""
    return {**environment(device), "n_threads": 1, "commit": _commit()}


def last_change(path: Path) -> str | None:
    """The commit that a file was last changed in, with `-dirty` where it differs from it; None outside a git
    repository, and for a file that is not in it.
    """
    try:
        file = str(path.resolve())
        changed = _git("status", "--porcelain", "--", file)
        commit = _git("log", "-1", "--format=%h", "--abbrev=12", "--", file)
        return commit + (DIRTY if changed else "") if commit else None
    except (OSError, subprocess.CalledProcessError):
        return None


def _commit() -> str | None:
    """The commit, with `-dirty` where the program differs from it; None outside a git repository."""
    try:
        changed = _git("status", "--porcelain", "--", *PROGRAM)
        return _git("rev-parse", "--short=12", "HEAD") + (DIRTY if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()
