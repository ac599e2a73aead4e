"""What is disturbed: a small search and a small evaluation, and how it is seen that nothing of them was lost."""

import csv
import json
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

import hba
from fault.commands import Ended, run
from hba.errors import HbaError

SMALL = ("--model", "wrn-10-1", "--image-size", "8", "--batch-size", "8", "--device", "cpu")
N_IMAGES = 24
"""Of each of two classes."""


@dataclass(frozen=True)
class Subject:
    """A command that makes a run in a folder. words: the command without its folder. kept: the file in which a later
    command finds the run. result: the file that holds what was found.
    """

    name: str
    words: tuple[str, ...]
    kept: str
    result: str

    def begun(self, folder: Path) -> tuple[str, ...]:
        """The command that begins the run, or, where there is one to resume, resumes it."""
        if not (folder / self.kept).exists():
            return (*self.words, "--out", str(folder))
        words = ("search",) if self.name == "search" else self.words
        return (*words, "--out", str(folder), "--resume")

    def found(self, folder: Path) -> bytes:
        """The schedule, or the test errors, to the last bit."""
        if self.name == "search":
            schedule = hba.load_policy(folder)
            return schedule.values.tobytes() + schedule.spread.tobytes()
        rows = json.loads((folder / self.result).read_text(encoding="utf-8"))["rows"]
        return json.dumps([(row["name"], row["seeds"], row["test_error_percent"]) for row in rows]).encode()

    def lost(self, folder: Path, expected: bytes) -> str | None:
        """What a fault has cost: None where no file is half written, and the run goes on to what was expected."""
        if half := half_written(folder):
            return half
        ended = run(self.begun(folder))
        if ended.code != 0:
            return f"it does not go on: {ended.message.strip() or ended.code}"
        if self.found(folder) != expected:
            return "it goes on to something else"
        left = [path.name for path in folder.glob("*.part")] + [path.name for path in folder.glob(".*.part")]
        return f"it leaves {left[0]}" if left else half_written(folder)


def search_of(images: Path, epochs: int = 2, *more: str) -> Subject:
    words = ("search", str(images), *SMALL, "--epochs", str(epochs), *more)
    return Subject("search", words, "config.json", "policy.json")


def evaluation_of(images: Path, policy: Path, jobs: int = 1, epochs: int = 2) -> Subject:
    words = ("evaluate", str(policy), str(images), *SMALL, "--epochs", str(epochs), "--seeds", "2", "--jobs", str(jobs))
    return Subject("evaluation", words, "results.json", "results.json")


def undisturbed(subject: Subject, folder: Path) -> bytes:
    """What the subject finds where nothing happens."""
    ended = run(subject.begun(folder))
    if ended.code != 0:
        raise HbaError(f"without any fault, {' '.join(subject.words)} fails: {ended.message}")
    return subject.found(folder)


def make_images(folder: Path, seed: int = 0) -> Path:
    random = np.random.default_rng(seed)
    for label, name in enumerate(("cat", "dog")):
        (folder / name).mkdir(parents=True)
        for number in range(N_IMAGES):
            pixels = random.integers(0, 240, (10, 12, 3)) + 15 * label
            Image.fromarray(pixels.astype(np.uint8)).save(folder / name / f"{number:02}.png")
    return folder


def half_written(folder: Path) -> str | None:
    """The first file of a run that cannot be read whole."""
    for path in sorted(folder.iterdir()) if folder.exists() else ():
        try:
            _read_whole(path)
        except Exception as error:
            return f"{path.name} is half written ({type(error).__name__}: {error})"
    return None


def _read_whole(path: Path) -> None:
    if path.name == "policy.json":
        hba.load_policy(path)
    elif path.suffix == ".json":
        json.loads(path.read_text(encoding="utf-8"))
    elif path.suffix == ".csv":
        rows: Sequence[Sequence[str]] = list(csv.reader(path.read_text(encoding="utf-8").splitlines()))
        if len({len(row) for row in rows}) != 1:
            raise ValueError("rows of several lengths")
    elif path.suffix == ".pt" and "broken" not in path.name:
        with zipfile.ZipFile(path) as parts:
            if parts.testzip():
                raise ValueError("wrong checksum")


def refused(ended: Ended, *words: str) -> str | None:
    """None where the command was refused in one line with one of the words; else what it did."""
    if ended.wrong:
        return ended.wrong
    if ended.code == 0:
        return "it was not refused"
    return None if any(word in ended.message for word in words) else f"it says {ended.message.strip()!r}"
