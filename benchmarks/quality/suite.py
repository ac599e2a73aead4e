"""Doing what is missing of a set of runs, and saying how long it will take."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import click
from reproduction.timing import search_seconds_per_step

from hba.config.search import SearchConfig
from hba.runtime.devices import find_device
from quality.beds import IMAGES
from quality.pool import Results, run_side_by_side
from quality.records import Book, Kept, made_by

STEPS_MEASURED = 16


class Task(Protocol):
    """One run by a candidate's settings; config has them and the seed."""

    @property
    def candidate(self) -> str: ...

    @property
    def config(self) -> SearchConfig: ...

    @property
    def settings(self) -> Mapping[str, Any]:
        """What decides its results, as JSON values, for all seeds and on any machine."""
        ...

    @property
    def run(self) -> Mapping[str, Any]:
        """What tells the run from others of the same settings, as JSON values."""
        ...

    def estimated_seconds(self) -> float:
        """From a few steps that are done now."""
        ...


AnyTask = TypeVar("AnyTask", bound=Task)


@dataclass(frozen=True)
class Suite(Generic[AnyTask]):
    """Runs in their order. dataset: what records call the images. results: the folder of the candidates' files."""

    dataset: str
    device: str
    results: Path
    tasks: tuple[AnyTask, ...]
    do: Callable[[AnyTask], Results]

    def book(self, task: AnyTask) -> Book:
        return Book(self.results / f"{task.candidate}.json")

    def find(self, task: AnyTask) -> Kept | None:
        return self.book(task).find(self.dataset, task.settings, task.run)

    def missing(self) -> list[AnyTask]:
        return [task for task in self.tasks if self.find(task) is None]

    def kept(self) -> list[tuple[str, Kept]]:
        """Candidate and record of all runs that are there."""
        found = [(task.candidate, self.find(task)) for task in self.tasks]
        return [(candidate, kept) for candidate, kept in found if kept is not None]


def carry_out(suite: Suite[AnyTask], jobs: int, only_estimate: bool) -> None:
    """Do what is missing, or say how long that would take."""
    missing = suite.missing()
    click.echo(f"{len(missing)} of {len(suite.tasks)} runs to do")
    if only_estimate:
        _print_estimate(missing, jobs)
    elif missing:
        _run(suite, missing, jobs)


def _print_estimate(missing: list[AnyTask], jobs: int) -> None:
    total = 0.0
    for candidate in dict.fromkeys(task.candidate for task in missing):
        own = [task for task in missing if task.candidate == candidate]
        seconds = own[0].estimated_seconds()
        click.echo(f"{len(own)} x {candidate}: {seconds:.0f} s each")
        total += len(own) * seconds
    click.echo(f"in all {total / 60 / jobs:.1f} minutes, {jobs} at a time, without measuring on whole splits")


def seconds_of_search(config: SearchConfig) -> float:
    """Of all steps, from a few that are done now."""
    data = IMAGES.of_search(config, None)
    return n_steps(config.epochs, config.batch_size, len(data.train)) * search_seconds_per_step(
        config, data, STEPS_MEASURED
    )


def n_steps(epochs: int, batch_size: int, n_images: int) -> int:
    return epochs * (n_images // min(batch_size, n_images))


def _run(suite: Suite[AnyTask], missing: list[AnyTask], jobs: int) -> None:
    """Keep each run as soon as it ended. One that fails is named and leaves the others alone."""
    shared = made_by(find_device(suite.device))
    for number, (task, outcome) in enumerate(run_side_by_side(suite.do, missing, jobs), 1):
        name = f"[{number}/{len(missing)}] {task.candidate}, {_in_words(task.run)}"
        if isinstance(outcome, str):
            click.echo(f"{name}: {outcome}", err=True)
            continue
        suite.book(task).add(suite.dataset, task.settings, task.run, outcome, shared)
        numbers = {key: round(value, 3) for key, value in outcome.items() if isinstance(value, float)}
        click.echo(f"{name}: {numbers}")


def _in_words(run: Mapping[str, Any]) -> str:
    words = [value if isinstance(value, str) else f"{name} {value}" for name, value in run.items() if name != "planted"]
    return ", ".join(words)
