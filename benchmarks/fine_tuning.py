"""What a search costs that fine-tunes a network of timm: its steps, and whole runs, by what is frozen.

    python benchmarks/fine_tuning.py --data DIR [--classes cat,dog,horse] [--model timm:...] [--rounds 5] [--epochs 5]

Prints the tables of docs/pretrained.md in Markdown. DIR is a folder with one folder of images for each class, as the
folder train of the CIFAR-10 copy; the first 100 images of each class are taken, 224 pixels wide. Steps are timed on
batches of 16, by one thread, and runs are `hba search` and `hba evaluate` in processes of their own. The weights are a
new network's, in a file that is written for it: what a step costs does not depend on them, and nothing is said of what
is found. The defaults take about three minutes of a CPU.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import click
import timm
import torch
from common.records import made_by
from common.tables import hardware_of
from torch import nn

from hba.algorithms import Lookahead
from hba.algorithms.derivatives import RewardDerivative
from hba.algorithms.scores import AugmentedBatch
from hba.data import load_search_data
from hba.errors import HbaError, SettingsError
from hba.policy.spaces import as_markdown
from hba.policy_search.config import SearchConfig
from hba.policy_search.context import SearchContext

FROZEN = ("none", "3", "6", "all-but-head")
OF_RUNS = ("none", "all-but-head")
IMAGES_OF_A_CLASS = 100
BATCH_SIZE = 16
SEEDS = 2
Seconds = dict[str, float]


WATCHED = """
import json, os, subprocess, sys, tempfile
with tempfile.TemporaryFile() as said:
    process = subprocess.Popen(sys.argv[1:], stdout=said, stderr=subprocess.STDOUT)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    said.seek(0)
    text = said.read().decode(errors="replace")
print(json.dumps([process.returncode, usage.ru_utime + usage.ru_stime, usage.ru_maxrss, text]))
"""
"""Runs a program from a small process: the peak of a new process is at first that of the one that started it."""


@dataclass(frozen=True)
class Used:
    """cpu_seconds: of all threads. peak_bytes: of memory, of the largest process."""

    cpu_seconds: float
    peak_bytes: int

    def __str__(self) -> str:
        return f"{self.cpu_seconds:.0f} s, {self.peak_bytes / 1e9:.1f} GB"


def used_by(command: Sequence[str]) -> Used:
    """By a program and all that it starts and waits for. SettingsError with its last line where it fails."""
    done = subprocess.run([sys.executable, "-c", WATCHED, *command], capture_output=True, text=True, check=True)
    code, seconds, peak, said = json.loads(done.stdout)
    if code:
        raise SettingsError(f"{' '.join(command)} failed: {' '.join(said.strip().splitlines()[-1:])}")
    # Linux counts the peak in kibibytes, macOS in bytes.
    return Used(seconds, peak * (1 if sys.platform == "darwin" else 1024))


def copy_first_images(source: Path, classes: Sequence[str], folder: Path) -> None:
    """The first of each class by name, into folders of the same names. SettingsError where a class has fewer."""
    for name in classes:
        found = sorted(path for path in (source / name).glob("*") if path.is_file())[:IMAGES_OF_A_CLASS]
        if len(found) < IMAGES_OF_A_CLASS:
            raise SettingsError(
                f"{source / name} must have at least {IMAGES_OF_A_CLASS} images, got {len(found)}; name other --classes"
            )
        (folder / name).mkdir(parents=True)
        for path in found:
            shutil.copy(path, folder / name)


def write_weights(model: str, file: Path) -> None:
    """Of a new network with the 1,000 classes of ImageNet."""
    torch.manual_seed(0)
    torch.save(timm.create_model(model.removeprefix("timm:"), num_classes=1000).state_dict(), file)


def settings_of(images: Path, model: str, weights: Path, freeze: str, epochs: int) -> dict[str, Any]:
    return {
        **{"data": str(images), "model": model, "pretrained": str(weights), "freeze": freeze, "epochs": epochs},
        **{"batch_size": BATCH_SIZE, "learning_rate": 0.01, "device": "cpu"},
    }


def step_seconds(settings: dict[str, Any], rounds: int) -> Seconds:
    """CPU seconds of a training step, of a policy step by each derivative, and of its draws forward alone: the median.

    All on what was drawn before. A first round is not counted.
    """
    config = SearchConfig.from_preset(settings).resolved()
    start = config.network_start()
    setup = SearchContext.of(config, load_search_data(config), None, None, start)
    task = setup.task
    derivatives: tuple[RewardDerivative, ...] = ("exact", "difference")
    algorithms = {by: Lookahead(reward_derivative=by) for by in derivatives}
    algorithm = algorithms["exact"]
    state = algorithm.begin(task, setup.networks)
    found: dict[str, list[float]] = {}
    for _ in range(rounds + 1):
        images, labels = state.train_stream.next()
        trained = algorithm.augmented(task, state, images, labels)
        judged = algorithm.augmented(task, state, images, labels, algorithm.reward_draws)
        parts: dict[str, Callable[[], object]] = {
            "training step": partial(state.learner.learn, trained.images, trained.labels),
            **{
                f"policy step, `{by}`": partial(one.update_lambda, task, state, judged)
                for by, one in algorithms.items()
            },
            "the same draws forward alone": partial(_forward, state.learner.network, judged),
        }
        for name, part in parts.items():
            begun = time.process_time()
            part()
            found.setdefault(name, []).append(time.process_time() - begun)
    return {name: statistics.median(seconds[1:]) for name, seconds in found.items()}


@torch.no_grad()
def _forward(network: nn.Module, batch: AugmentedBatch) -> None:
    network.eval()
    for images in batch.images.chunk(batch.draws):
        network(images)


def run_costs(settings: dict[str, Any], folder: Path) -> tuple[Used, Used]:
    """Of the search, and of the evaluation of its schedule, one training after the other."""
    options = [word for name, value in settings.items() if name != "data" for word in _option(name, value)]
    hba, out = [sys.executable, "-m", "hba"], folder / "search"
    searched = used_by([*hba, "search", settings["data"], *options, "--out", str(out)])
    evaluation = ["--seeds", str(SEEDS), "--jobs", "1", "--device", "cpu", "--out", str(folder / "evaluation")]
    return searched, used_by([*hba, "evaluate", str(out), *evaluation])


def _option(name: str, value: object) -> Iterator[str]:
    yield f"--{name.replace('_', '-')}"
    yield str(value)


def step_table(by_frozen: dict[str, Seconds]) -> str:
    headings = ["`--freeze`", *next(iter(by_frozen.values()))]
    rows = [[f"`{frozen}`", *(f"{one:.2f}" for one in found.values())] for frozen, found in by_frozen.items()]
    return as_markdown(headings, rows)


def run_table(by_frozen: dict[str, tuple[Used, Used]]) -> str:
    rows = [[f"`{frozen}`", *map(str, found)] for frozen, found in by_frozen.items()]
    return as_markdown(["`--freeze`", "search", f"evaluation, {2 * SEEDS} trainings"], rows)


@click.command(help=__doc__)
@click.option("--data", type=click.Path(path_type=Path, exists=True, file_okay=False), required=True)
@click.option("--classes", default="cat,dog,horse", show_default=True)
@click.option("--model", default="timm:mobilenetv3_small_050", show_default=True)
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True, help="Steps of each kind.")
@click.option("--epochs", type=click.IntRange(1), default=5, show_default=True, help="Of searches and trainings.")
def main(data: Path, classes: str, model: str, rounds: int, epochs: int) -> None:
    torch.set_num_threads(1)
    try:
        with tempfile.TemporaryDirectory() as place:
            measure(Path(place), data, classes.split(","), model, rounds, epochs)
    except HbaError as error:
        raise click.ClickException(str(error)) from None


def measure(place: Path, data: Path, classes: Sequence[str], model: str, rounds: int, epochs: int) -> None:
    images, weights = place / "images", place / "weights.pth"
    copy_first_images(data, classes, images)
    write_weights(model, weights)

    def settings(freeze: str) -> dict[str, Any]:
        return settings_of(images, model, weights, freeze, epochs)

    click.echo(f"CPU seconds of a step of `{model}`, {BATCH_SIZE} images, the median of {rounds}:\n")
    click.echo(step_table({freeze: step_seconds(settings(freeze), rounds) for freeze in FROZEN}) + "\n")
    click.echo(f"CPU seconds and peak memory, {IMAGES_OF_A_CLASS * len(classes)} images, {epochs} epochs:\n")
    runs = {}
    for freeze in OF_RUNS:
        (place / freeze).mkdir()
        runs[freeze] = run_costs(settings(freeze), place / freeze)
    click.echo(run_table(runs) + "\n")
    load = ", ".join(f"{one:.1f}" for one in islice(os.getloadavg(), 2))
    click.echo(f"{hardware_of(made_by(torch.device('cpu')))}; load of the last minute and five at the end: {load}")


if __name__ == "__main__":
    main()
