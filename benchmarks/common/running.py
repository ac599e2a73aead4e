"""Doing what is missing of a set of tasks, a few at a time, and saying beforehand how long it will take."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

import click
import torch
from joblib import Parallel, delayed, parallel_config

from common.records import Record, Results, Run, Store, made_by
from hba.errors import HbaError
from hba.executors.cluster import connected
from hba.executors.executor import Shared
from hba.executors.ray_executor import RayExecutor
from hba.utils.devices import explained_memory_errors, find_device

NOTHING_ELSE: Mapping[str, Any] = MappingProxyType({})
CLUSTER = "HBA_CLUSTER"
"""In the environment: the address of a Ray cluster, or auto, on which all tasks are then done."""
Outcome = Results | str
"""What a task found, or in one line why it could not be done."""


class Task(Protocol):
    """Something to be run once and kept. It can be pickled."""

    @property
    def run(self) -> Run: ...

    def do(self) -> Results: ...

    def estimated_seconds(self) -> float:
        """From a few steps that are done now."""
        ...


def carry_out(
    tasks: Sequence[Task],
    store: Store,
    device: str,
    jobs: int,
    only_estimate: bool,
    noted: Mapping[str, Any] = NOTHING_ELSE,
) -> list[Record]:
    """Do what is missing, or only say how long that would take; then all records that there are, in the tasks' order.

    noted: what each record keeps beside the machine that made it.
    Each record is kept as soon as its run ended. A task that fails is named and leaves the others alone.
    """
    known = store.by_key()
    missing = [task for task in tasks if task.run.key not in known]
    click.echo(f"{len(missing)} of {len(tasks)} runs to do")
    if only_estimate:
        _print_estimate(missing, jobs)
        return []
    cluster = os.environ.get(CLUSTER)
    outcomes = over_machines(missing, cluster, device) if cluster else _here(missing, jobs, device)
    for number, (task, outcome, made) in enumerate(outcomes, 1):
        name = f"[{number}/{len(missing)}] {_in_words(task.run)}"
        if isinstance(outcome, str):
            click.echo(f"{name}: {outcome}", err=True)
            continue
        store.add(Record(task.run, outcome, {**made, **noted}))
        click.echo(f"{name}: {_rounded(outcome)}")
    known = store.by_key()
    return [known[task.run.key] for task in tasks if task.run.key in known]


def side_by_side(tasks: Sequence[Task], jobs: int) -> Iterator[tuple[Task, Outcome]]:
    """Every task with its outcome, as they end; each in a process of one thread, a single job in this one."""
    with parallel_config(backend="loky" if jobs > 1 else "sequential"):
        pool = Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)
        for number, outcome in pool(delayed(_outcome)(number, task) for number, task in enumerate(tasks)):
            yield tasks[number], outcome


def _here(tasks: Sequence[Task], jobs: int, device: str) -> Iterator[tuple[Task, Outcome, Mapping[str, Any]]]:
    """With what made each."""
    made = made_by(find_device(device))
    return ((task, outcome, made) for task, outcome in side_by_side(tasks, jobs))


def over_machines(
    tasks: Sequence[Task], address: str, device: str
) -> Iterator[tuple[Task, Outcome, Mapping[str, Any]]]:
    """The same on the machines of a Ray cluster, each task with a GPU of its own, or a CPU. Benchmarks and data must be
    under the same paths there.
    """
    with connected(address) as cluster:
        assert cluster is not None
        executor = RayExecutor(cluster, cluster.needs(device))
        for number, (outcome, made) in executor.run(_outcome_there, tasks, Shared((device, sys.path))):
            yield tasks[number], outcome, {**made, "cluster": address}


def _outcome_there(
    task: Task, shared: tuple[str, list[str]], step_done: Callable[[], None]
) -> tuple[Outcome, Mapping[str, Any]]:
    """With what made it, on a machine of a cluster."""
    device, paths = shared
    sys.path += [path for path in paths if path not in sys.path]
    return _outcome(0, task)[1], made_by(find_device(device))


def _outcome(number: int, task: Task) -> tuple[int, Outcome]:
    torch.set_num_threads(1)
    try:
        with explained_memory_errors():
            return number, task.do()
    except HbaError as error:
        return number, str(error)


def _print_estimate(missing: Sequence[Task], jobs: int) -> None:
    """One line for each name, by the first of its tasks."""
    total = 0.0
    for name in dict.fromkeys(task.run.name for task in missing):
        own = [task for task in missing if task.run.name == name]
        try:
            seconds = own[0].estimated_seconds()
        except HbaError as error:
            click.echo(f"{len(own)} x {name}: cannot run: {error}")
            continue
        click.echo(f"{len(own)} x {name}: {seconds:.0f} s each")
        total += len(own) * seconds
    click.echo(f"in all {total / 60 / jobs:.1f} minutes, {jobs} at a time, without measuring on whole splits")


def _in_words(run: Run) -> str:
    further = (value for value in run.further.values() if isinstance(value, str))
    return ", ".join([run.name, *further, f"seed {run.seed}"])


def _rounded(results: Mapping[str, Any]) -> dict[str, float]:
    return {name: round(value, 3) for name, value in results.items() if isinstance(value, float)}
