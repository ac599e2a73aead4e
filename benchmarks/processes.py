"""Do several processes find what one finds, how much faster, and what if one of them is killed?

    python benchmarks/processes.py alike [--algorithms lookahead,hba,hba-lookahead] [--processes 1,2,4] [--threads 2]
        [--image-size 16] [--model wrn-10-1] [--rounds 3]
    python benchmarks/processes.py kills [--kills 10]     # those that are kept are not repeated
    python benchmarks/processes.py page

`alike` starts searches of digits by torchrun, with a thread for each process, one after the other, and compares their
schedules with that of one process; beside them stands one process with several threads, which adds up its numbers in
another order too. Its seconds are those between the first and the last epoch that a search notes,
so neither imports nor the meeting of the processes are among them; run it on an idle machine. `kills` kills a random
process after a random number of epochs, lets torchrun start all of them again, and compares the schedule with one that
nobody disturbed. Results are kept in benchmarks/results/processes.jsonl. `page` writes the table of docs/searching.md.
"""

import itertools
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
import torch
from common.pages import fill_page
from common.records import DOCS, Record, Run, made_by, store_of
from common.tables import markdown, spread_text
from quality.options import KEPT_IN

from hba.schedule.library import load_policy

QUESTION, MARK = "processes", "processes"
ALIKE, KILL = "alike", "kill"
SETTINGS: Mapping[str, Any] = {"model": "wrn-10-1", "image-size": 16, "batch-size": 100, "device": "cpu", "seed": 0}
ENVIRONMENT = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
CPU = torch.device("cpu")


@click.group(help=__doc__)
def main() -> None:
    """Commands."""


@main.command(help="Compare schedules and seconds of several processes with those of one.")
@click.option("--algorithms", default="lookahead,hba,hba-lookahead", show_default=True)
@click.option("--processes", default="1,2,4", show_default=True)
@click.option("--threads", type=click.IntRange(2), default=2, show_default=True, help="Of one process, beside them.")
@click.option("--image-size", type=click.IntRange(8), default=SETTINGS["image-size"], show_default=True)
@click.option("--model", default=SETTINGS["model"], show_default=True)
@click.option("--epochs", type=click.IntRange(2), default=6, show_default=True)
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True)
@KEPT_IN
def alike(
    algorithms: str, processes: str, threads: int, image_size: int, model: str, epochs: int, rounds: int, results: Path
) -> None:
    store = store_of(results, QUESTION)
    places = [*((n, 1) for n in sorted({1, *map(int, processes.split(","))})), (1, threads)]
    for number, algorithm in itertools.product(range(rounds), algorithms.split(",")):
        settings = {**SETTINGS, "image-size": image_size, "model": model, "algorithm": algorithm, "epochs": epochs}
        alone: np.ndarray | None = None
        for n, n_threads in places:
            with tempfile.TemporaryDirectory() as folder:
                out = Path(folder, "run")
                _wait(begun(settings, n, out, n_threads))
                values, seconds = values_of(out), seconds_of(out)
            alone = values if alone is None else alone
            result = {"seconds": seconds, "difference": float(np.abs(values - alone).max())}
            click.echo(f"{algorithm}, processes {n}, threads of each {n_threads}, round {number + 1}: {result}")
            further = {"processes": n, "threads": n_threads}
            store.add(Record(Run(ALIKE, "digits", settings, number, further), result, made_by(CPU)))


@main.command(help="Kill processes at random.")
@click.option("--kills", type=click.IntRange(1), default=10, show_default=True)
@click.option("--epochs", type=click.IntRange(10), default=60, show_default=True)
@KEPT_IN
def kills(kills: int, epochs: int, results: Path) -> None:
    store, chance = store_of(results, QUESTION), random.Random(0)
    settings = {**SETTINGS, "image-size": 8, "algorithm": "lookahead", "epochs": epochs}
    with tempfile.TemporaryDirectory() as folder:
        undisturbed = Path(folder, "undisturbed")
        _wait(begun(settings, 2, undisturbed))
        for number in range(kills):
            out, rank, epoch = Path(folder, str(number)), chance.randrange(2), chance.randrange(1, epochs - 5)
            run = Run(KILL, "digits", settings, number, {"rank": rank, "epoch": epoch, "processes": 2})
            if run.key in store.by_key():
                continue
            found = _killed(settings, out, rank, epoch, undisturbed)
            click.echo(f"process {rank} killed after epoch {epoch}: {found}")
            store.add(Record(run, found, made_by(CPU)))


def _killed(settings: Mapping[str, Any], out: Path, rank: int, epoch: int, undisturbed: Path) -> Mapping[str, Any]:
    """Whether a search of two processes, one of which is killed, finds the same; and what it said where it failed."""
    process = begun(settings, 2, out, restarts=1)
    while epochs_of(out) < epoch and process.poll() is None:
        time.sleep(0.05)
    try:
        os.kill(process_of(process.pid, rank), signal.SIGKILL)
        _wait(process)
        return {"same": bool(np.array_equal(values_of(out), values_of(undisturbed)))}
    except click.ClickException as error:
        process.kill()
        return {"same": False, "failed": error.message}


@main.command(help="Write the table of docs/searching.md.")
@KEPT_IN
def page(results: Path) -> None:
    fill_page("searching", MARK, DOCS, table_of(list(store_of(results, QUESTION).by_key().values())))


def table_of(records: list[Record]) -> str:
    """Markdown: of each algorithm and number of processes how much the schedule differs, and how fast it was found."""
    rows: dict[tuple[Any, ...], dict[int, Mapping[str, Any]]] = {}
    for record in records:
        if record.run.name == ALIKE:
            what = tuple(record.run.settings[one] for one in ("algorithm", "image-size", "model"))
            place = record.run.further["processes"], record.run.further["threads"]
            rows.setdefault((what, place), {})[record.run.seed] = record.results
    lines = []
    for (what, place), found in sorted(rows.items(), key=lambda item: (item[0][0][1], item[0][0][0], item[0][1])):
        if place == (1, 1):
            continue
        alone = rows[what, (1, 1)]
        ratios = [alone[number]["seconds"] / one["seconds"] for number, one in found.items()]
        algorithm, image_size, model = what
        lines.append(
            {
                "algorithm": f"`{algorithm}`",
                "images, network": f"{image_size}x{image_size}, {model}",
                "processes": str(place[0]),
                "threads of each": str(place[1]),
                "largest difference": f"{max(one['difference'] for one in found.values()):.3f}",
                "times as fast as one of each": spread_text(ratios),
                "rounds": str(len(found)),
            }
        )
    killed = [record.results["same"] for record in records if record.run.name == KILL]
    text = markdown(pd.DataFrame(lines)) if lines else "Nothing was run."
    if killed:
        text += f"\n\nKilled: {len(killed)} searches of two processes; {sum(killed)} found the same."
    return text


def begun(settings: Mapping[str, Any], n: int, out: Path, threads: int = 1, restarts: int = 0) -> subprocess.Popen[str]:
    """A search by n processes."""
    launcher = ["--standalone", "--nproc-per-node", str(n), "--max-restarts", str(restarts), "-m", "hba", "search"]
    # Four can share a batch of digits, but not half of one, which look-ahead takes of validation images by default.
    settings = {**settings, "val-batch-size": settings["batch-size"]}
    options = [part for name, value in settings.items() for part in (f"--{name}", str(value))]
    return subprocess.Popen(
        [sys.executable, "-m", "torch.distributed.run", *launcher, "digits", *options, "--out", str(out)],
        env={**os.environ, **ENVIRONMENT, "OMP_NUM_THREADS": str(threads)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def _wait(process: subprocess.Popen[str]) -> None:
    _, errors = process.communicate()
    if process.returncode:
        raise click.ClickException(f"a search ended with {process.returncode}: {errors.strip().splitlines()[-1:]}")


def values_of(out: Path) -> np.ndarray:
    """The schedule, each value as a share of its range."""
    schedule = load_policy(out)
    low, high = np.asarray(schedule.space.ranges).T
    return (schedule.values - low) / (high - low)


def seconds_of(out: Path) -> float:
    """From the end of the first epoch to that of the last."""
    seconds = pd.read_csv(out / "metrics.csv")["seconds"]
    return float(seconds.iloc[-1] - seconds.iloc[0])


def epochs_of(out: Path) -> int:
    """Noted so far."""
    metrics = out / "metrics.csv"
    return len(metrics.read_text(encoding="utf-8").splitlines()) - 1 if metrics.exists() else 0


def process_of(launcher: int, rank: int) -> int:
    """The process of that rank, among a launcher's children."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
            if parent == launcher and f"RANK={rank}" in (folder / "environ").read_text(encoding="utf-8").split("\0"):
                return int(folder.name)
        except OSError:
            continue
    raise click.ClickException(f"there is no process {rank}")


if __name__ == "__main__":
    main()
