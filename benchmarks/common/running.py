"""Runs the missing tasks of a benchmark, several at a time."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

import click
import torch
from joblib import Parallel, delayed, parallel_config

from common.records import Record, Results, Run, Store, made_by
from hba.errors import HbaError
from hba.utils.devices import find_device

NOTHING_ELSE: Mapping[str, Any] = MappingProxyType({})
Outcome = Results | str
"""The results of a task, or one line that says why it failed."""


class Task(Protocol):
    """A run that is done once and then stored. It can be pickled."""

    @property
    def run(self) -> Run: ...

    def do(self) -> Results: ...


def carry_out(
    tasks: Sequence[Task],
    store: Store,
    device: str,
    jobs: int,
    dry_run: bool,
    noted: Mapping[str, Any] = NOTHING_ELSE,
) -> list[Record]:
    """Run the tasks that are not stored yet.

    Each record is stored as soon as its run ends. A task that fails is reported and
    does not stop the others.

    Args:
        tasks: Runs to do, unless their records are stored.
        store: Where the records are.
        device: The device that computes.
        jobs: Number of tasks at a time.
        dry_run: Only say how many runs are missing.
        noted: Entries that each new record keeps in addition to the machine that made
            it.

    Returns:
        All stored records of the tasks, in the order of the tasks.
    """
    stored = store.by_key()
    missing = [task for task in tasks if task.run.key not in stored]
    click.echo(f"{len(missing)} of {len(tasks)} runs to do")
    if dry_run:
        return []
    machine = made_by(find_device(device))
    for number, (task, outcome) in enumerate(run_in_parallel(missing, jobs), 1):
        name = f"[{number}/{len(missing)}] {_describe(task.run)}"
        if isinstance(outcome, str):
            click.echo(f"{name}: {outcome}", err=True)
            continue
        store.add(Record(task.run, outcome, {**machine, **noted}))
        rounded = {
            name: round(value, 3)
            for name, value in outcome.items()
            if isinstance(value, float)
        }
        click.echo(f"{name}: {rounded}")
    stored = store.by_key()
    return [stored[task.run.key] for task in tasks if task.run.key in stored]


def run_in_parallel(tasks: Sequence[Task], jobs: int) -> Iterator[tuple[Task, Outcome]]:
    """Yield each task with its outcome as it ends. Tasks have one thread each; a single
    job runs in this process.
    """
    with parallel_config(backend="loky" if jobs > 1 else "sequential"):
        pool = Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)
        for number, outcome in pool(
            delayed(_outcome)(number, task) for number, task in enumerate(tasks)
        ):
            yield tasks[number], outcome


def _outcome(number: int, task: Task) -> tuple[int, Outcome]:
    torch.set_num_threads(1)
    try:
        return number, task.do()
    except HbaError as error:
        return number, str(error)


def _describe(run: Run) -> str:
    details = (value for value in run.further.values() if isinstance(value, str))
    return ", ".join([run.name, *details, f"seed {run.seed}"])
