"""What a run survives: each fault is made on purpose, many times, and the run must lose nothing by it.

    python benchmarks/faults.py [--quick] [--only kill] [--jobs 2]

Small searches and evaluations by the command line are killed, find the disk full, their images gone or their checkpoint
broken. Then they are resumed, and must find exactly what they find undisturbed, with no file half written and nothing
printed but one line that says what to do. The table has how often each was tried, how often something was lost, and the
last line that was seen. Results go to benchmarks/results; --quick keeps none.
"""

import dataclasses
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

# Before PyTorch is loaded, by the processes that are started here too.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import click
import torch
from common.records import RESULTS, Record, Run, made_by, store_of
from fault import disks, files, processes
from fault.trial import Bed, Fault

from hba.errors import HbaError
from hba.policy.spaces import as_markdown

FAULTS: Mapping[str, Fault] = {**processes.FAULTS, **disks.FAULTS, **files.FAULTS}
QUICK, WHOLE = 1, 3
"""How much is tried."""

IN_MEMORY = Path("/dev/shm")
"""Where there is such a folder, runs are kept there: on a disk, most of the time goes into waiting for it."""


@dataclasses.dataclass(frozen=True)
class Tried:
    """losses: what went wrong, each in words. message: the last that was seen."""

    tried: int
    losses: tuple[str, ...]
    message: str
    seconds: float


def tried(fault: Fault, bed: Bed) -> Tried:
    begun, trials = time.monotonic(), list(fault(bed))
    messages = [trial.message for trial in trials if trial.message]
    losses = tuple(trial.lost for trial in trials if trial.lost)
    return Tried(len(trials), losses, messages[-1] if messages else "", round(time.monotonic() - begun, 1))


@click.command(help=__doc__)
@click.option("--quick", is_flag=True, help="A few of each, in about a minute or two.")
@click.option("--only", default="", help="Faults with this in their name.")
@click.option("--jobs", type=click.IntRange(1), default=2, show_default=True, help="Faults at a time.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of random moments and places.")
@click.option("--results", type=click.Path(path_type=Path), default=RESULTS, help="[default: benchmarks/results]")
def main(quick: bool, only: str, jobs: int, seed: int, results: Path) -> None:
    chosen = {name: fault for name, fault in FAULTS.items() if only in name}
    torch.set_num_threads(1)
    place = Path(tempfile.mkdtemp(prefix="hba-faults-", dir=IN_MEMORY if IN_MEMORY.is_dir() else None))
    try:
        bed = Bed.made(place, QUICK if quick else WHOLE, seed)
        with ThreadPoolExecutor(jobs) as pool:
            futures = {name: pool.submit(tried, fault, bed) for name, fault in chosen.items()}
            found: dict[str, Tried] = {}
            for name, future in futures.items():
                found[name] = future.result()
                if not quick and not only:
                    _keep(found, seed, results)
                click.echo(f"{name}: {found[name].tried} tried, {len(found[name].losses)} lost", err=True)
    except HbaError as error:
        raise click.ClickException(str(error)) from None
    finally:
        shutil.rmtree(place, ignore_errors=True)
    click.echo(as_markdown(["fault", "tried", "lost", "what the user saw"], [_row(*one) for one in found.items()]))
    for name, one in found.items():
        for loss in one.losses:
            click.echo(f"{name}: {loss}", err=True)
    if any(one.losses for one in found.values()):
        raise SystemExit(1)


def _row(name: str, found: Tried) -> list[str]:
    return [name, str(found.tried), str(len(found.losses)), found.message.splitlines()[-1] if found.message else "-"]


def _keep(found: Mapping[str, Tried], seed: int, results: Path) -> None:
    """In the place of what was kept before: other versions lose other things."""
    store, machine = store_of(results, "faults"), made_by(torch.device("cpu"))
    store.path.unlink(missing_ok=True)
    store.add(*(Record(Run(name, "faults", {}, seed), _results(one), machine) for name, one in found.items()))


def _results(found: Tried) -> dict[str, Any]:
    return {**dataclasses.asdict(found), "losses": list(found.losses), "lost": len(found.losses)}


if __name__ == "__main__":
    main()
