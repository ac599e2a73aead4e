"""The stages of `gpu.py run`: their commands, and their results in words."""

import json
import shlex
import shutil
import signal
import subprocess
import sys
import time
import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from types import MappingProxyType

import pandas as pd
from common.records import ROOT, Results

from hba.errors import HbaError
from hba.results.run import TEST_FOLDER

BENCHMARKS = Path(__file__).parents[1]
LAST_SECONDS = 40.0
"""Time for a program to save its work after it is asked to stop."""
LINES = 8
"""The number of last lines that are shown of a failed program's output."""
REPORT = "tests.xml"
"""The report of the tests, in the folder of their stage."""


class StageError(HbaError):
    """A program failed; the message is its last lines."""


@dataclass(frozen=True)
class Stage:
    """A measurement that `gpu.py run` makes; stages.toml explains the fields."""

    text: str
    commands: tuple[str, ...]
    full: str
    trial: str
    resume: str | None = None
    resumes_from: str = ""


STAGES: Mapping[str, Stage] = MappingProxyType(
    {
        name: Stage(**entries)
        for name, entries in tomllib.loads(
            Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
        ).items()
    }
)
"""By name."""


@dataclass(frozen=True)
class Place:
    """Where and how stages run."""

    data: str
    """A folder with the images of CIFAR-10, or `digits` for a trial."""
    work: Path
    """The folder of files for the next call and for other stages."""
    results: Path
    device: str
    end: float
    """When this call ends, in seconds of time.monotonic."""
    is_trial: bool
    """Run everything as small as possible, on any machine."""

    def do(self, name: str) -> Results | None:
        """Run a stage, and return its results; None if time ran out.

        Raises:
            StageError: If a program failed.
        """
        stage = STAGES[name]
        out = self.work / name
        if (out / stage.resumes_from).is_file() and stage.resume is not None:
            commands: tuple[str, ...] = (stage.resume,)
        else:
            commands = stage.commands
            shutil.rmtree(out, ignore_errors=True)
            out.mkdir(parents=True)
        values = {
            **vars(self),
            "out": out,
            "root": ROOT,
            "benchmarks": BENCHMARKS,
        }
        size = stage.trial if self.is_trial else stage.full
        for command in commands:
            words = shlex.split(command.replace("{size}", size))
            if not self.finished(name, [word.format(**values) for word in words]):
                return None
        return results_of(name, out)

    def finished(self, name: str, words: list[str]) -> bool:
        """Run a Python program.

        When its time is over, it receives SIGINT, and is killed if it does not stop.

        Args:
            name: The name of the stage, and of the file with the program's output.
            words: The program and its arguments.

        Returns:
            Whether the program ended within its time.

        Raises:
            StageError: If the program failed.
        """
        log = self.work / f"{name}.txt"
        with log.open("a", encoding="utf-8") as file:
            process = subprocess.Popen(
                [sys.executable, *words], stdout=file, stderr=subprocess.STDOUT
            )
            try:
                left = self.end - time.monotonic() - LAST_SECONDS
                code: int | None = process.wait(max(1.0, left))
            except subprocess.TimeoutExpired:
                code = None
                process.send_signal(signal.SIGINT)
                try:
                    process.wait(LAST_SECONDS)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        # If tests fail, the results of all tests are in a report.
        if code and not (self.work / name / REPORT).is_file():
            output = log.read_text(encoding="utf-8", errors="replace")
            raise StageError("\n".join(output.strip().splitlines()[-LINES:]))
        return code is not None


def results_of(name: str, out: Path) -> Results:
    """What the programs of a stage left in its folder."""
    match name:
        case "tests":
            return _test_results(out / REPORT)
        case "throughput":
            calls = json.loads((out / "throughput.json").read_text(encoding="utf-8"))
            return {"gpu_seconds_per_call": calls}
        case "search" | "search-paper":
            last = pd.read_csv(out / "metrics.csv").iloc[-1]
            return {
                "seconds": float(last["seconds"]),
                "val_error_percent": float(last["val_error_percent"]),
            }
        case "jobs":
            seconds = {
                folder.name: _evaluation(folder)["wall_seconds"]
                for folder in sorted(out.iterdir())
            }
            # Two rows, each with eight seeds.
            rates = {number: 16 * 3600 / wall for number, wall in seconds.items()}
            return {"trainings_per_hour": rates}
        case "auto" | "evaluation":
            folder = out / "run" / TEST_FOLDER if name == "auto" else out
            rows = _evaluation(folder)["rows"]
            return {"errors": {row["name"]: row["test_error_percent"] for row in rows}}
    return {}


def _evaluation(folder: Path) -> Results:
    results: Results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    return results


def _test_results(report: Path) -> Results:
    cases = list(ET.parse(report).getroot().iter("testcase"))
    failed = [
        f"{case.get('classname')}::{case.get('name')}"
        for case in cases
        if case.find("failure") is not None or case.find("error") is not None
    ]
    skipped = sum(case.find("skipped") is not None for case in cases)
    return {
        "passed": len(cases) - len(failed) - skipped,
        "failed": len(failed),
        "skipped": skipped,
        "failures": failed,
    }


def in_words(name: str, results: Results) -> str:
    """The results of a stage in a few words."""
    match name:
        case "tests":
            return ", ".join(
                f"{results[outcome]} {outcome}"
                for outcome in ("passed", "failed", "skipped")
            )
        case "throughput":
            calls = results["gpu_seconds_per_call"].items()
            texts = [f"{call} {1e3 * median(times):.2f} ms" for call, times in calls]
            return ", ".join(texts) or "-"
        case "search" | "search-paper":
            error = results["val_error_percent"]
            return f"{results['seconds']:.0f} s, validation error {error:.2f} %"
        case "jobs":
            rates = results["trainings_per_hour"].items()
            return ", ".join(f"{number}: {rate:.0f}" for number, rate in rates)
        case "auto" | "evaluation":
            rows = results["errors"].items()
            return ", ".join(f"{row} {fmean(errors):.2f} %" for row, errors in rows)
        case "table-3" | "table-4":
            return "in docs/reproduction.md"
    return "in the tables above"
