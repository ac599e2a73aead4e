"""The stages of the GPU programme, the shortest and most valuable first."""

import json
import shutil
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from types import MappingProxyType
from typing import Any

import pandas as pd
from common.records import ROOT, Results

BENCHMARKS = Path(__file__).parents[1]
LABEL = "CIFAR-10 (JPEG copy)"
PRESET_OF_SEARCH = "reduced-cifar10"
PRESET_OF_EVALUATION = "cifar10-wrn-40-2"
LAST_SECONDS = 40.0
"""Time for a program to save its work after it is asked to stop."""
LINES = 8
"""The number of last lines that are shown of a failed program's output."""
SMALL: Mapping[str, Any] = MappingProxyType(
    {
        "model": "wrn-10-1",
        "image_size": 8,
        "train_size": 40,
        "val_size": 20,
        "batch_size": 20,
        "epochs": 20,
    }
)
"""Settings of a search for a trial."""


class StageError(Exception):
    """A program failed; the message is its last lines."""


@dataclass(frozen=True)
class Place:
    """Where and how stages run."""

    data: str
    """A folder with the images of CIFAR-10, or `digits` for a trial."""
    work: Path
    """The folder of files for the next call and for other stages."""
    results: Path
    device: str
    seconds: float
    """Time for this call."""
    is_trial: bool
    """Run everything as small as possible, on any machine."""

    def finished(self, name: str, *words: object) -> bool:
        """Run a Python program.

        When its time is over, it receives SIGINT, and is killed if it does not stop.

        Args:
            name: The name of the file with its output.
            *words: The program and its arguments.

        Returns:
            Whether the program ended within its time.

        Raises:
            StageError: If the program failed.
        """
        log = self.work / f"{name}.txt"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a", encoding="utf-8") as file:
            command = [sys.executable, *map(str, words)]
            process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
            try:
                code: int | None = process.wait(max(1.0, self.seconds - LAST_SECONDS))
            except subprocess.TimeoutExpired:
                code = None
                process.send_signal(signal.SIGINT)
                try:
                    process.wait(LAST_SECONDS)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        if code:
            raise StageError("\n".join(self.last_lines(name)))
        return code == 0

    def last_lines(self, name: str) -> list[str]:
        output = (self.work / f"{name}.txt").read_text(
            encoding="utf-8", errors="replace"
        )
        return output.strip().splitlines()[-LINES:]


@dataclass(frozen=True)
class Stage:
    """A measurement that `gpu.py run` makes."""

    text: str
    do: Callable[[Place], Results | None]
    """Runs the stage and returns its results, or None if time ran out."""
    shown: Callable[[Results], str]
    """Returns the results in a few words."""


def tests(place: Place) -> Results | None:
    """Run all tests with the mark gpu; failures are part of the results."""
    report = place.work / "tests.xml"
    report.unlink(missing_ok=True)
    chosen = (
        [ROOT / "tests" / "test_errors.py"]
        if place.is_trial
        else ["-m", "gpu", ROOT / "tests"]
    )
    options = [
        "-q",
        "-n",
        "0",
        "-p",
        "no:cacheprovider",
        f"--rootdir={ROOT}",
        f"--junitxml={report}",
    ]
    try:
        if not place.finished("tests", "-m", "pytest", *options, *chosen):
            return None
    except StageError:
        if not report.exists():
            raise
    cases = list(ET.parse(report).getroot().iter("testcase"))
    failed = [
        f"{case.get('classname')}::{case.get('name')}"
        for case in cases
        if _has(case, "failure", "error")
    ]
    skipped = sum(_has(case, "skipped") for case in cases)
    return {
        "passed": len(cases) - len(failed) - skipped,
        "failed": len(failed),
        "skipped": skipped,
        "failures": failed,
    }


def _has(case: ET.Element, *kinds: str) -> bool:
    return any(case.find(tag) is not None for tag in kinds)


def throughput(place: Place) -> Results | None:
    """Time a policy call and a training step."""
    file = place.work / "throughput.json"
    effort = (
        ["--rounds", "1", "--seconds", "0"]
        if place.is_trial
        else ["--rounds", "3", "--seconds", "0.3"]
    )
    if not place.finished(
        "throughput", BENCHMARKS / "speed.py", "throughput", *effort, "--json", file
    ):
        return None
    return {"gpu_seconds_per_call": json.loads(file.read_text(encoding="utf-8"))}


def timed(
    command: str, sizes: str, *more_options: str
) -> Callable[[Place], Results | None]:
    """Return a command of speed.py that stores its own records.

    Args:
        command: The name of the command.
        sizes: Networks and sizes of images, for `--sizes`.
        *more_options: More options of the command.
    """

    def do(place: Place) -> Results | None:
        small = [
            "--sizes",
            "wrn-10-1:8",
            "--batch-size",
            "8",
            "--rounds",
            "1",
            "--steps",
            "10",
        ]
        # Lambda steps are recorded and checked within the first quarter, which is not
        # timed.
        large = [
            "--sizes",
            sizes,
            "--batch-size",
            "128",
            "--rounds",
            "3",
            "--steps",
            "120",
        ]
        where = ["--device", place.device, "--results", place.results]
        size_options = small if place.is_trial else large
        name = "-".join((command, *(word.strip("-") for word in more_options)))
        return (
            {}
            if place.finished(
                name,
                BENCHMARKS / "speed.py",
                command,
                *size_options,
                *where,
                *more_options,
            )
            else None
        )

    return do


def search(name: str, *more_options: str) -> Callable[[Place], Results | None]:
    """Return a search of Reduced CIFAR-10 (the paper's Table 10).

    Args:
        name: The name of the run folder.
        *more_options: More options of the search.
    """

    def do(place: Place) -> Results | None:
        out = place.work / name
        options = [
            word
            for key, value in SMALL.items()
            for word in (f"--{key.replace('_', '-')}", value)
        ]
        size_options = options if place.is_trial else ["--preset", PRESET_OF_SEARCH]
        begin = [
            place.data,
            *size_options,
            *more_options,
            "--device",
            place.device,
            "--seed",
            "0",
            "--out",
            out,
        ]
        resume = ["--out", out, "--resume"]
        words = resume if (out / "checkpoint.pt").exists() else begin
        if not place.finished(name, "-m", "hba", "search", *words):
            return None
        last = pd.read_csv(out / "metrics.csv").iloc[-1]
        return {
            "seconds": float(last["seconds"]),
            "val_error_percent": float(last["val_error_percent"]),
        }

    return do


def jobs(place: Place) -> Results | None:
    """Train eight networks on the same data, different numbers of them at a time."""
    rates = {}
    small = [
        "--epochs",
        "1",
        "--model",
        "wrn-10-1",
        "--image-size",
        "8",
        "--train-size",
        "100",
        "--batch-size",
        "20",
    ]
    large = [
        "--epochs",
        "5",
        "--model",
        "wrn-16-2",
        "--train-size",
        "4000",
        "--batch-size",
        "128",
    ]
    for number in (1, 2) if place.is_trial else (1, 2, 4, 8):
        out = place.work / f"jobs-{number}"
        shutil.rmtree(out, ignore_errors=True)
        size_options = small if place.is_trial else large
        words = [
            place.data,
            *size_options,
            "--seeds",
            "8",
            "--against",
            "none",
            "--jobs",
            number,
            "--device",
            place.device,
        ]
        if not place.finished(
            f"jobs-{number}",
            "-m",
            "hba",
            "evaluate",
            "randaugment",
            *words,
            "--out",
            out,
        ):
            return None
        results = json.loads((out / "results.json").read_text(encoding="utf-8"))
        rates[str(number)] = 16 * 3600 / results["wall_seconds"]
    return {"trainings_per_hour": rates}


def evaluation(place: Place) -> Results | None:
    """Compare the schedule of the search with baselines, with as many trainings as end
    in time.
    """
    out = place.work / "evaluation"
    policy = place.work / "search" / "policy.json"
    if not policy.exists():
        raise StageError("there is no schedule yet: the stage search must end first")
    small = [
        "--epochs",
        "2",
        "--seeds",
        "1",
        "--model",
        "wrn-10-1",
        "--image-size",
        "8",
        "--batch-size",
        "20",
    ]
    size_options = (
        small if place.is_trial else ["--preset", PRESET_OF_EVALUATION, "--seeds", "3"]
    )
    resume = ["--resume"] if (out / "results.json").exists() else []
    words = [
        "evaluate",
        policy,
        place.data,
        *size_options,
        "--against",
        "none,start,randaugment",
        "--device",
        place.device,
    ]
    if not place.finished("evaluation", "-m", "hba", *words, "--out", out, *resume):
        return None
    results = json.loads((out / "results.json").read_text(encoding="utf-8"))
    return {
        "errors": {row["name"]: row["test_error_percent"] for row in results["rows"]}
    }


def table(number: str) -> Callable[[Place], Results | None]:
    """A table of the paper at its own scale; reproduce.py stores the numbers in its
    records.
    """

    def do(place: Place) -> Results | None:
        size_options = (
            ["--scale", "tiny"]
            if place.is_trial
            else ["--scale", "full", "--data", "cifar10", place.data, LABEL]
        )
        where = [
            "--device",
            place.device,
            "--work",
            place.work / "tables",
            "--results",
            place.results,
        ]
        return (
            {}
            if place.finished(
                f"table-{number}",
                BENCHMARKS / "reproduce.py",
                number,
                *size_options,
                *where,
            )
            else None
        )

    return do


def _tests_text(results: Results) -> str:
    return (
        f"{results['passed']} passed, {results['failed']} failed, {results['skipped']}"
        " skipped"
    )


def _errors(results: Results) -> str:
    return ", ".join(
        f"{name} {fmean(errors):.2f} %" for name, errors in results["errors"].items()
    )


def _calls(results: Results) -> str:
    calls: Mapping[str, Sequence[float]] = results["gpu_seconds_per_call"]
    return (
        ", ".join(
            f"{name} {1e3 * median(rounds):.2f} ms" for name, rounds in calls.items()
        )
        or "-"
    )


def _trainings_text(results: Results) -> str:
    return ", ".join(
        f"{number}: {rate:.0f}"
        for number, rate in results["trainings_per_hour"].items()
    )


def _search_text(results: Results) -> str:
    return (
        f"{results['seconds']:.0f} s,"
        f" validation error {results['val_error_percent']:.2f} %"
    )


def _elsewhere(results: Results) -> str:
    return "in docs/reproduction.md"


def _above(results: Results) -> str:
    return "in the tables above"


STAGES: Mapping[str, Stage] = MappingProxyType(
    {
        "tests": Stage("tests with the mark gpu", tests, _tests_text),
        "throughput": Stage("a policy call on 128 images of 32x32", throughput, _calls),
        "steps": Stage(
            "steps of all algorithms beside their floors",
            timed("steps", "wrn-40-2:32"),
            _above,
        ),
        "steps-no-graph": Stage(
            "the same without graphs",
            timed("steps", "wrn-40-2:32", "--no-graph"),
            _above,
        ),
        "search-paper": Stage(
            "search of Reduced CIFAR-10, --paper",
            search("search-paper", "--paper"),
            _search_text,
        ),
        "search": Stage(
            "search of Reduced CIFAR-10, the default", search("search"), _search_text
        ),
        "jobs": Stage(
            "trainings of WRN-16-2 an hour, 1, 2, 4 and 8 at a time",
            jobs,
            _trainings_text,
        ),
        "fast": Stage(
            "steps with --fast and without",
            timed("fast", "wrn-40-2:32,resnet-50:224"),
            _above,
        ),
        "evaluation": Stage(
            "WRN-40-2 with the schedule of `search`, and baselines", evaluation, _errors
        ),
        "table-3": Stage("Table 3, search time", table("3"), _elsewhere),
        "table-4": Stage("Table 4, WRN-40-2", table("4"), _elsewhere),
    }
)
"""By name."""
