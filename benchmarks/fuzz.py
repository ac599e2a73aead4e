"""Input that nobody should give: is it read, or refused in one clear line?

    python benchmarks/fuzz.py [--quick | --inputs 5000] [--only images] [--jobs 2]

Files of every kind that hba reads are made nearly right and then damaged: values, characters and bytes are exchanged,
cut out and doubled, and heads say what is not so. Command lines are made of words that are no values. For each kind,
the table has how many inputs were read and how many refused, and how often something else came of one: a traceback,
a hang (10 s), more than 1 GiB of memory, more or other words than one line, or the end of the process. Searches and
evaluations end where they would begin to compute. Results go to benchmarks/results; --quick keeps none.
"""

import dataclasses
import multiprocessing
import os
import shutil
import tempfile
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

# Before PyTorch is loaded, by the processes that are started here too.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import click
import torch
from common.records import RESULTS, Record, Run, made_by, store_of
from fuzzing.kinds import KINDS, prepare
from fuzzing.tally import MEBIBYTES, SECONDS, WRONG, Tally, died, tried

from hba.policy.spaces import as_markdown

QUICK, WHOLE = 150, 20_000
"""Inputs."""
FROM_MEMORY = Path("/dev/shm")
"""Where there is such a folder, files are kept there: on a disk, most of the time goes into waiting for it."""


@click.command(help=__doc__)
@click.option("--quick", is_flag=True, help=f"{QUICK} inputs, in some twenty seconds.")
@click.option("--inputs", type=click.IntRange(1), default=WHOLE, show_default=True, help="How many, of all kinds.")
@click.option("--only", default="", help="Kinds with this in their name.")
@click.option("--jobs", type=click.IntRange(1), default=2, show_default=True, help="Kinds at a time.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of what is drawn.")
@click.option("--results", type=click.Path(path_type=Path), default=RESULTS, help="[default: benchmarks/results]")
def main(quick: bool, inputs: int, only: str, jobs: int, seed: int, results: Path) -> None:
    chosen = [name for name in KINDS if only in name]
    amount = (QUICK if quick else inputs) / sum(kind.share for kind in KINDS.values())
    torch.set_num_threads(1)
    place = Path(tempfile.mkdtemp(prefix="hba-fuzz-", dir=FROM_MEMORY if FROM_MEMORY.is_dir() else None))
    found: dict[str, Tally] = {}
    try:
        prepare(place)
        # Forked, it would have locks of threads that it has not.
        with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
            futures = {name: pool.submit(tried, name, place, amount, seed) for name in chosen}
            for name, future in futures.items():
                try:
                    found[name] = future.result()
                except BrokenProcessPool as error:
                    found[name] = died(error)
                click.echo(f"{name}: {found[name].tried} tried, {found[name].wrong} wrong", err=True)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    if not quick and not only:
        _keep(found, seed, results)
    headings = ["inputs", "tried", "read", "refused", *WRONG, "slowest", "most memory"]
    click.echo(as_markdown(headings, [*(_row(*one) for one in found.items()), _sum(found)]))
    for name, one in found.items():
        for example in one.examples:
            click.echo(f"{name}: {example}", err=True)
    if any(one.wrong for one in found.values()):
        raise SystemExit(1)


def _row(name: str, found: Tally) -> list[str]:
    counts = [str(found.counts[what]) for what in ("read", "refused", *WRONG)]
    return [name, str(found.tried), *counts, f"{found.slowest:.2f} s", f"{found.most_mebibytes} MiB"]


def _sum(found: Mapping[str, Tally]) -> list[str]:
    whole = Tally(
        tried=sum(one.tried for one in found.values()),
        counts=sum((one.counts for one in found.values()), start=Tally().counts),
        slowest=max((one.slowest for one in found.values()), default=0.0),
        most_mebibytes=max((one.most_mebibytes for one in found.values()), default=0),
    )
    return _row("all", whole)


def _keep(found: Mapping[str, Tally], seed: int, results: Path) -> None:
    """In the place of what was kept before: other versions read other things."""
    store, machine = store_of(results, "fuzz"), made_by(torch.device("cpu"))
    limits = {"seconds": SECONDS, "mebibytes": MEBIBYTES}
    store.path.unlink(missing_ok=True)
    store.add(*(Record(Run(name, "fuzz", limits, seed), _results(one), machine) for name, one in found.items()))


def _results(found: Tally) -> dict[str, Any]:
    return {**dataclasses.asdict(found), "counts": dict(found.counts), "wrong": found.wrong}


if __name__ == "__main__":
    main()
