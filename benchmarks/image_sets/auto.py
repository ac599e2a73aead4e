"""Run `hba auto` as a user would, and compare its choice with recipes that are trained
like its network.
"""

import json
import math
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
from common.options import CIFAR_FOLDER
from common.records import Record, Results, Run
from common.tables import NOTHING, difference_text, spread_text

import hba
from hba.data.config import Size
from hba.errors import RunError
from hba.policy_choice.rows import RANDAUGMENT
from hba.policy_evaluation.baselines import NONE
from hba.results.evaluation import EvaluationRow
from hba.results.run import ROWS_FOLDER
from hba.results.statistics import PairedDifference
from hba.schedule.recipes import RECIPES
from hba.schedule.schedule import Schedule
from hba.utils.settings import Settings
from image_sets.runs import BALANCED, CIFAR, SETS, folder_of, unpacked
from image_sets.tables import ERROR

AUTO = "auto-symmetries"
"""The question of the records of runs."""
EARLIER = "auto-pretrained"
"""The same of the version before symmetries by class."""
BEST = "best recipe"
"""The column of the recipe with the lowest error."""
UNEVEN = "cifar10-uneven"
"""The set of CIFAR-10 images with uneven classes."""
AUTO_SETS = tuple(UNEVEN if name == CIFAR else name for name in SETS)
OF_UNEVEN = {
    "airplane": 300,
    "automobile": 200,
    "bird": 150,
    "cat": 100,
    "deer": 90,
    "dog": 60,
}
"""The number of first training images of six classes of CIFAR-10: 900 in all, of which
a fifth is the test split.
"""
SHOWN = ("model", "image_size", "epochs", "batch_size", "fast", "pretrained", "freeze")
AUTO_COLUMN = "auto"
LINEAR = "linear layer"


class AutoPlan(Settings):
    """The plan of `domains.py auto`."""

    budgets: tuple[Size, ...]
    """In minutes."""
    rows: tuple[str, ...]
    """Rows that are trained with the settings of each run of the longest budget."""
    seeds: Size
    """The fewest seeds of these rows, the first ones of the run's own test."""


def uneven_folder(work: Path) -> str:
    """The folder of six classes of CIFAR-10, which is unpacked if it is missing."""
    return unpacked(
        work / "sets" / UNEVEN, f"{CIFAR_FOLDER}.tar.xz", keep_uneven, inside="train"
    )


def keep_uneven(file: tarfile.TarInfo, folder: str) -> tarfile.TarInfo | None:
    """A filter for tarfile. The names of images are train/<class>/NNNN.jpg."""
    split, *names = Path(file.name).parts
    n_images = OF_UNEVEN.get(names[0] if names else "", 0)
    is_kept = split == "train" and (
        not names
        or (n_images and (file.isdir() or int(Path(file.name).stem) < n_images))
    )
    return tarfile.data_filter(file, folder) if is_kept else None


def set_of_classes(name: str, work: Path) -> str:
    """The folder of a set with classes, which is unpacked if it is missing."""
    return uneven_folder(work) if name == UNEVEN else folder_of(name, work)


@dataclass(frozen=True)
class AutoTask:
    """One run of `hba auto`, in its own process with all cores."""

    question: str
    """The name of its records."""
    dataset: str
    minutes: int
    rows: tuple[str, ...]
    """Names of recipes and of `policies`."""
    seeds: int
    work: Path
    data_of: Callable[[str, Path], str] = set_of_classes
    """Makes the data of a set, if they are missing."""
    options: tuple[str, ...] = ()
    """Further options of the command."""
    policies: Mapping[str, Callable[[], Schedule]] = field(default_factory=dict)
    """Policies that are no recipes, by name."""

    @property
    def label(self) -> str:
        return self.dataset

    @property
    def run(self) -> Run:
        further = {"minutes": self.minutes, "rows": [*self.rows]}
        return Run(self.question, self.dataset, {}, 0, further)

    def policy(self, row: str, folder: Path) -> str:
        """The name of a recipe, or the file of another policy, in a folder."""
        if row not in self.policies:
            return row
        path = folder / f"{row}.json"
        path.parent.mkdir(exist_ok=True)
        self.policies[row]().save(path)
        return str(path)

    def do(self) -> Results:
        folder = self.work / self.question / f"{self.dataset}-{self.minutes}m"
        data = self.data_of(self.dataset, self.work)
        if not (folder / "auto.json").exists():
            command = [
                sys.executable,
                "-m",
                "hba",
                "auto",
                data,
                "--budget",
                f"{self.minutes}m",
                "--out",
                str(folder),
                *self.options,
            ]
            # A user does not set the threads of a benchmark.
            environment = {
                name: value
                for name, value in os.environ.items()
                if name != "OMP_NUM_THREADS"
            }
            began = time.monotonic()
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, check=False
            )
            if done.returncode:
                raise RunError(
                    f"{self.dataset}, {self.minutes} minutes:"
                    f" {done.stderr.strip().splitlines()[-1:]}"
                )
            (folder / "seconds").write_text(str(time.monotonic() - began))
            (folder / "console.txt").write_text(done.stdout)
        record = json.loads((folder / "auto.json").read_text("utf-8"))
        evaluation = folder / "evaluation"
        chosen = record["chosen"]
        composed = folder / ROWS_FOLDER / f"{chosen}.json"
        first = str(composed) if composed.exists() else chosen
        names = dict.fromkeys(["none", "randaugment", *self.rows])
        others = [
            self.policy(name, folder / "policies") for name in names if name != chosen
        ]
        seeds = max(self.seeds, int(record["test_seeds"]))
        options: dict[str, Any] = {
            "out": evaluation,
            "resume": True,
            "config": evaluation,
            "jobs": os.cpu_count(),
        }
        result = hba.evaluate(first, data, against=others, seeds=seeds, **options)
        balanced = self.dataset == BALANCED
        return {
            "seconds": float((folder / "seconds").read_text()),
            "errors": {
                row.name: errors_of(row, balanced=balanced) for row in result.rows
            },
            "settings": {name: result.settings[name] for name in SHOWN},
            "test_images": result.test_images,
            **{
                name: record[name]
                for name in ("chosen", "plan", "rows", "n_jobs", "candidates", "linear")
            },
        }


def errors_of(row: EvaluationRow, *, balanced: bool) -> list[float]:
    """The test error of each seed in per cent; if balanced, the mean over classes."""
    by_seed = row.by_seed("balanced_accuracy" if balanced else "test_error")
    return [100 - percent if balanced else percent for percent in by_seed.values()]


def auto_tasks(
    plan: AutoPlan, sets: Sequence[str], budgets: Iterable[int], work: Path
) -> list[AutoTask]:
    """The runs. Rows are trained beside those of the longest budget."""
    settings_by_budget = {
        minutes: (plan.rows, plan.seeds) if minutes == max(plan.budgets) else ((), 1)
        for minutes in budgets
    }
    return [
        AutoTask(AUTO, name, minutes, *settings, work)
        for minutes, settings in settings_by_budget.items()
        for name in sets
    ]


def auto_table(records: Sequence[Record], minutes: int) -> pd.DataFrame:
    """Return the network, the choice, and mean test errors in per cent of each set.

    Args:
        records: Records of the runs.
        minutes: The budget of the runs that are shown.

    Returns:
        A row for each set, and one for the means if no set is missing.
    """
    runs = {
        record.run.dataset: record.results
        for record in records
        if record.run.further["minutes"] == minutes
    }
    names = [name for name in AUTO_SETS if name in runs]
    errors = pd.DataFrame([errors_of_run(name, runs[name]) for name in names])
    if len(names) == len(AUTO_SETS):
        errors.loc[len(errors)] = errors.mean(skipna=False)
    shown = errors.map(lambda error: NOTHING if pd.isna(error) else f"{error:.1f}")
    minus = errors[AUTO_COLUMN] - errors[BEST]
    shown[f"{AUTO_COLUMN} minus {BEST}"] = minus.map(lambda points: f"{points:+.1f}")
    facts = pd.DataFrame([facts_of_run(name, runs[name]) for name in names])
    table = facts.join(shown, how="right")
    table["set"] = table["set"].fillna(f"mean of {len(names)}")
    return table.fillna(NOTHING)


def facts_of_run(name: str, results: Results) -> dict[str, str]:
    """What was trained on a set, and what was chosen."""
    settings = results["settings"]
    weights = "pretrained" if settings.get("pretrained") else "random weights"
    return {
        "set": name,
        "trained": (
            f"{settings['model']} ({weights}), {settings['image_size']} pixels,"
            f" {settings['epochs']} epochs"
        ),
        "seeds": str(len(results["errors"][results["chosen"]])),
        "minutes": f"{results['seconds'] / 60:.1f}",
        "chosen": results["chosen"],
    }


def errors_of_run(name: str, results: Results) -> dict[str, float]:
    """Mean test errors in per cent: of the choice, a linear layer, the references, and
    the recipe with the lowest one.
    """
    errors = mean_errors(results)
    measure = "balanced_percent" if name == BALANCED else "test_percent"
    linear = [
        layer[measure]
        for layer in results.get("linear", ())
        if layer["test_percent"] is not None
    ]
    return {
        AUTO_COLUMN: errors[results["chosen"]],
        LINEAR: linear[0] if linear else math.nan,
        **{row: errors[row] for row in (NONE, RANDAUGMENT)},
        BEST: min(error for row, error in errors.items() if row in RECIPES),
    }


def choice_table(records: Sequence[Record], plan: AutoPlan) -> pd.DataFrame:
    """Of the longest runs: the test error of the choice and of each row in per cent,
    and below it the difference to no augmentation, paired by seed, with its 95 %
    t-interval.
    """
    lines = []
    for record in records:
        errors = record.results["errors"]
        if record.run.further["minutes"] != max(plan.budgets):
            continue
        rows = [AUTO_COLUMN, *(row for row in plan.rows if row in errors)]
        of_choice = errors[record.results["chosen"]]
        by_seed = {
            row: dict(enumerate(of_choice if row == AUTO_COLUMN else errors[row]))
            for row in rows
        }
        line = {"set": record.run.dataset}
        for row in rows:
            line[row] = spread_text(by_seed[row].values(), 1)
            if row != "none":
                minus = PairedDifference.of(by_seed[row], minus=by_seed["none"])
                line[row] += f"<br>{difference_text(minus, 1)}"
        lines.append(line)
    return pd.DataFrame(lines).fillna(NOTHING)


def error_frames(records: Sequence[Record], minutes: int) -> dict[str, pd.DataFrame]:
    """By set, a row for each test of a run with so many minutes: its name, seed and
    error in per cent. The tests of the choice are there once more, as AUTO_COLUMN.
    """
    frames = {}
    for record in records:
        if record.run.further["minutes"] != minutes:
            continue
        errors = record.results["errors"]
        named = [*errors.items(), (AUTO_COLUMN, errors[record.results["chosen"]])]
        frames[record.run.dataset] = pd.DataFrame(
            {"name": name, "seed": seed, ERROR: error}
            for name, by_seed in named
            for seed, error in enumerate(by_seed)
        )
    return frames


def mean_errors(results: Results) -> dict[str, float]:
    return {row: sum(values) / len(values) for row, values in results["errors"].items()}
