"""What the commands share in printing: a console, a progress bar that is only there in a terminal, run folders."""

import itertools
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

RUNS = Path("runs")
PLAIN_WIDTH = 110


def console() -> Console:
    """Prints to standard output; tables keep their width where it is not a terminal."""
    return Console(
        width=None if sys.stdout.isatty() else PLAIN_WIDTH, highlight=False, soft_wrap=not sys.stdout.isatty()
    )


class ProgressBar:
    """A bar with a text, a rate and the time left on standard error; nothing at all where that is not a terminal."""

    def __init__(self) -> None:
        self.visible = sys.stderr.isatty()
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            TaskProgressColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            disable=not self.visible,
            transient=True,
        )
        self._task = self._progress.add_task("", total=None, rate="")
        self._unit, self._per_step = "", 1

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._progress.stop()

    def begin(self, description: str, done: int, total: int, unit: str, per_step: int = 1) -> None:
        """A new piece of work of `total` steps; a step is `per_step` of the unit, which the rate counts."""
        self._progress.reset(self._task, description=description, completed=done, total=total, rate="")
        self._unit, self._per_step = unit, per_step

    def describe(self, description: str) -> None:
        self._progress.update(self._task, description=description)

    def advance_to(self, done: int) -> None:
        task = self._progress.tasks[0]
        rate = "" if task.speed is None else f"{task.speed * self._per_step:,.0f} {self._unit}/s"
        self._progress.update(self._task, completed=done, rate=rate)


def new_run_folder(name: str) -> Path:
    """runs/<name>-<number>, the first number that is free."""
    return next(path for number in itertools.count(1) if not (path := RUNS / f"{name}-{number}").exists())


def percent(value: float | None) -> str:
    """`3.20 %`, or a dash where nothing was measured."""
    return "-" if value is None else f"{value:.2f} %"
