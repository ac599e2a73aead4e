"""The stages, in the order in which they matter."""

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pandas as pd
from common.records import ROOT, Results

from on_gpu.limited import StageError, finished, run_within
from on_gpu.profile import most_of

BENCHMARKS = Path(__file__).parents[1]
LABEL = "CIFAR-10 (JPEG copy)"
Words = list[str | Path]
PRESET_OF_SEARCH, PRESET_OF_EVALUATION = "reduced-cifar10", "cifar10-wrn-40-2"


@dataclass(frozen=True)
class Place:
    """data: a folder with the images of CIFAR-10, or `digits` for a trial. work: what stages leave for their next call
    and for each other. seconds: of this call. is_trial: everything as small as can be, on any machine.
    """

    data: str
    work: Path
    results: Path
    device: str
    seconds: float
    is_trial: bool

    def log(self, name: str) -> Path:
        return self.work / f"{name}.txt"


@dataclass(frozen=True)
class Stage:
    """do: what it found; None where its time was over. shown: that in a few words. goes_on: whether what was done
    until then is kept.
    """

    text: str
    do: Callable[[Place], Results | None]
    shown: Callable[[Results], str]
    goes_on: bool = False


def tests(place: Place) -> Results | None:
    """All tests with the mark gpu; failures are results too."""
    report = place.work / "tests.xml"
    report.unlink(missing_ok=True)
    chosen = ["tests/test_errors.py"] if place.is_trial else ["-m", "gpu", "tests"]
    words = ["-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", f"--rootdir={ROOT}", f"--junitxml={report}"]
    ended = run_within([*words, *(str(ROOT / one) if one.startswith("tests") else one for one in chosen)], *_of(place))
    if ended.code is None:
        return None
    if not report.exists():
        raise StageError(ended.told)
    cases = list(ET.parse(report).getroot().iter("testcase"))
    failed = [f"{case.get('classname')}::{case.get('name')}" for case in cases if _has(case, "failure", "error")]
    skipped = sum(_has(case, "skipped") for case in cases)
    return {"passed": len(cases) - len(failed) - skipped, "failed": len(failed), "skipped": skipped, "failures": failed}


def _has(case: ET.Element, *kinds: str) -> bool:
    return any(case.find(kind) is not None for kind in kinds)


def _of(place: Place, name: str = "tests") -> tuple[float, Path]:
    return place.seconds, place.log(name)


def throughput(place: Place) -> Results | None:
    """A policy call in milliseconds, beside a training step."""
    file = place.work / "throughput.json"
    effort = ["--rounds", "1", "--seconds", "0"] if place.is_trial else ["--rounds", "3", "--seconds", "0.3"]
    words: Words = [BENCHMARKS / "policy_throughput.py", *effort, "--json", file]
    if not finished(words, *_of(place, "throughput")):
        return None
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return {"gpu_seconds_per_call": found.get("gpu_seconds_per_call", {}), "peers": found["peers"]}


def timed(name: str, script: str, of_trial: Sequence[str], whole: Sequence[str]) -> Callable[[Place], Results | None]:
    """What a script times, whose numbers are in records of its own: its last line. of_trial, whole: sizes."""

    def do(place: Place) -> Results | None:
        sized = of_trial if place.is_trial else whole
        words: Words = [BENCHMARKS / script, "run", *sized, "--device", place.device, "--results", place.results]
        if not finished(words, *_of(place, name)):
            return None
        return {"said": place.log(name).read_text(encoding="utf-8").strip().splitlines()[-1]}

    return do


SMALL_SIZES = ("--sizes", "wrn-10-1:8", "--batch-size", "8", "--rounds", "1")
LARGE_SIZES = ("--sizes", "wrn-40-2:32,resnet-50:224", "--batch-size", "128", "--rounds", "3", "--steps", "40")
steps = timed(
    "steps",
    "step_cost.py",
    ("--model", "wrn-10-1", "--image-size", "8", "--batch-size", "8", "--rounds", "1", "--steps", "10"),
    ("--model", "wrn-40-2", "--image-size", "32", "--batch-size", "128", "--rounds", "3", "--steps", "40"),
)
fast = timed("fast", "fast.py", (*SMALL_SIZES, "--steps", "10"), LARGE_SIZES)
compiled = timed("compiled", "compiled.py", (*SMALL_SIZES, "--steps", "2"), LARGE_SIZES)


def profile(place: Place) -> Results | None:
    """Where the time of a search's steps goes."""
    settings = _small() if place.is_trial else {"preset": PRESET_OF_SEARCH}
    return {"largest": most_of(place.data, place.device, settings, n_steps=5 if place.is_trial else 20)}


def _small() -> dict[str, Any]:
    return {"model": "wrn-10-1", "image_size": 8, "train_size": 40, "val_size": 20, "batch_size": 20, "epochs": 20}


def search(name: str, *further: str) -> Callable[[Place], Results | None]:
    """Of Reduced CIFAR-10, as in the paper's Table 10. further: options."""

    def do(place: Place) -> Results | None:
        out = place.work / name
        options = [word for key, value in _small().items() for word in (f"--{key.replace('_', '-')}", str(value))]
        sized = options if place.is_trial else ["--preset", PRESET_OF_SEARCH]
        begin: Words = ["search", place.data, *sized, *further, "--device", place.device, "--seed", "0", "--out", out]
        is_begun = (out / "checkpoint.pt").exists()
        words: Words = ["-m", "hba", *(["search", "--out", out, "--resume"] if is_begun else begin)]
        if not finished(words, *_of(place, name)):
            return None
        metrics = pd.read_csv(out / "metrics.csv")
        last = metrics.iloc[-1]
        return {"seconds": float(last["seconds"]), "val_error_percent": float(last["val_error_percent"])}

    return do


def evaluation(place: Place) -> Results | None:
    """The schedule of the search beside rivals, as many trainings as end in time."""
    out, policy = place.work / "evaluation", place.work / "search" / "policy.json"
    if not policy.exists():
        raise StageError("there is no schedule yet: the stage search must end first")
    of_trial = ["--epochs", "2", "--seeds", "1", "--model", "wrn-10-1", "--image-size", "8", "--batch-size", "20"]
    sized = of_trial if place.is_trial else ["--preset", PRESET_OF_EVALUATION, "--seeds", "3"]
    words: Words = ["-m", "hba", "evaluate", policy, place.data, *sized, "--against", "none,random,randaugment"]
    words += ["--device", place.device, "--out", out, *(["--resume"] if (out / "results.json").exists() else [])]
    if not finished(words, *_of(place, "evaluation")):
        return None
    found = json.loads((out / "results.json").read_text(encoding="utf-8"))
    return {"errors": {row["name"]: row["test_error_percent"] for row in found["rows"]}}


def table(number: str, *further: str) -> Callable[[Place], Results | None]:
    """A table of the paper at its own size, whose numbers are in the records of reproduce.py."""

    def do(place: Place) -> Results | None:
        scale = ["--scale", "tiny" if place.is_trial else "full"]
        words: Words = [BENCHMARKS / "reproduce.py", number, *scale, *further, "--device", place.device]
        words += ["--work", place.work / "tables", "--results", place.results]
        if not place.is_trial:
            words += ["--data", "cifar10", place.data, LABEL]
        return {} if finished(words, *_of(place, f"table-{number}")) else None

    return do


def _tested(found: Results) -> str:
    return f"{found['passed']} passed, {found['failed']} failed, {found['skipped']} skipped"


def _said(found: Results) -> str:
    return str(found["said"])


def _errors(found: Results) -> str:
    means = {name: sum(errors) / len(errors) for name, errors in found["errors"].items()}
    return ", ".join(f"{name} {mean:.2f} %" for name, mean in means.items())


def _calls(found: Results) -> str:
    calls: Mapping[str, Sequence[float]] = found["gpu_seconds_per_call"]
    return ", ".join(f"{name} {1e3 * sorted(rounds)[len(rounds) // 2]:.2f} ms" for name, rounds in calls.items()) or "-"


def _searched(found: Results) -> str:
    return f"{found['seconds']:.0f} s, validation error {found['val_error_percent']:.2f} %"


STAGES: Mapping[str, Stage] = MappingProxyType(
    {
        "tests": Stage("tests with the mark gpu", tests, _tested),
        "throughput": Stage("a policy call on 128 images of 32x32", throughput, _calls),
        "steps": Stage("steps of all algorithms beside their floors", steps, _said),
        "fast": Stage("steps with --fast and without", fast, _said),
        "compiled": Stage("bare steps of compiled networks", compiled, _said),
        "profile": Stage("where the time of a search goes", profile, lambda found: ", ".join(found["largest"][:3])),
        "search": Stage("search of Reduced CIFAR-10, the default", search("search"), _searched, goes_on=True),
        "search-paper": Stage(
            "search of Reduced CIFAR-10, --paper", search("search-paper", "--paper"), _searched, goes_on=True
        ),
        "evaluation": Stage("WRN-40-2 with the schedule of `search`, and rivals", evaluation, _errors, goes_on=True),
        "table-3": Stage("Table 3, search time", table("3"), lambda found: "in docs/reproduction.md", goes_on=True),
        "table-4": Stage("Table 4, WRN-40-2", table("4"), lambda found: "in docs/reproduction.md", goes_on=True),
    }
)  # fmt: skip
"""By name."""
