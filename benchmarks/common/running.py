"""Runs the missing tasks of a benchmark, several at a time."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import click
import torch
from joblib import Parallel, delayed, parallel_config

from common.options import RunOptions
from common.records import Record, Results, Run, made_by, plan_noted, store_of
from hba.errors import HbaError
from hba.utils.devices import find_device
from hba.utils.settings import Settings

Outcome = Results | str
"""The results of a task, or one line that says why it failed."""


class Task(Protocol):
    """A run that is done once and then stored. It can be pickled."""

    @property
    def run(self) -> Run: ...

    def do(self) -> Results: ...


def carry_out(
    tasks: Sequence[Task],
    question: str,
    options: RunOptions,
    plan: Settings | None = None,
    plan_file: Path | None = None,
) -> list[Record]:
    """Run the tasks that are not stored yet.

    Each record is stored as soon as its run ends. A task that fails is reported and
    does not stop the others.

    Args:
        tasks: Runs to do, unless their records are stored.
        question: The name of the records.
        options: Where and how tasks are run.
        plan: The plan of the tasks, which each new record keeps.
        plan_file: The file of the plan, which has to be committed.

    Returns:
        All stored records of the tasks, in the order of the tasks.
    """
    store = store_of(options.results, question)
    stored = store.by_key()
    missing = [task for task in tasks if task.run.key not in stored]
    click.echo(f"{len(missing)} of {len(tasks)} runs to do")
    if options.dry_run:
        return []
    about = made_by(find_device(options.device))
    if plan is not None and plan_file is not None:
        about |= plan_noted(plan.model_dump(mode="json"), plan_file)
    outcomes = run_in_parallel(missing, options.jobs)
    for number, (task, outcome) in enumerate(outcomes, 1):
        name = f"[{number}/{len(missing)}] {_describe(task.run)}"
        if isinstance(outcome, str):
            click.echo(f"{name}: {outcome}", err=True)
            continue
        store.add(Record(task.run, outcome, about))
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
