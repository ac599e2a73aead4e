"""What the commands share in printing: a console, a progress bar that is only there in a terminal, run folders."""

import contextlib
import itertools
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from hba.errors import RunError

RUNS = Path("runs")
PLAIN_WIDTH = 110


def console() -> Console:
    """Prints to standard output; tables keep their width where it is not a terminal."""
    is_terminal = sys.stdout.isatty()
    width = None if is_terminal else PLAIN_WIDTH
    return Console(markup=False, emoji=False, highlight=False, width=width, soft_wrap=not is_terminal)


def say(text: str) -> None:
    """Print a line; where nobody reads any more (`hba search | head`), go on in silence rather than end the work."""
    try:
        click.echo(text)
    except BrokenPipeError:
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 open until the process ends


class ProgressBar:
    """A bar with a text, a rate and the time left on standard error; nothing at all where that is not a terminal."""

    def __init__(self) -> None:
        self.visible = sys.stderr.isatty()
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
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
        # Some versions of rich print an empty line even for a bar that is disabled.
        if self.visible:
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.visible:
            self._progress.stop()

    def begin(self, description: str, done: int, total: int, unit: str, per_step: int = 1) -> None:
        """A new piece of work of `total` steps; a step is `per_step` of the unit, which the rate counts."""
        self._progress.reset(self._task, description=description, completed=done, total=total, rate="")
        self._unit, self._per_step = unit, per_step

    def describe(self, description: str) -> None:
        self._progress.update(self._task, description=description)

    def images_read(self, done: int, total: int) -> None:
        if done == 1:
            self.begin("reading images", 0, total, "images")
        self.advance_to(done)

    def advance_to(self, done: int) -> None:
        task = self._progress.tasks[0]
        rate = "" if task.speed is None else f"{task.speed * self._per_step:,.0f} {self._unit}/s"
        self._progress.update(self._task, completed=done, rate=rate)


@contextlib.contextmanager
def run_folder(out: Path | None, name: str) -> Iterator[Path]:
    """`out`, or else runs/<name>-<number> with the first number that is free.

    The new folder is made at once, so that two commands never share one; if nothing came to lie in it, it goes again.
    """
    if out is not None:
        yield out
        return
    path = _claim(name)
    try:
        yield path
    finally:
        with contextlib.suppress(OSError):
            path.rmdir()
            RUNS.rmdir()


def _claim(name: str) -> Path:
    for number in itertools.count(1):
        path = RUNS / f"{name}-{number}"
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise RunError(f"cannot make {path}: {error.strerror}; choose another place with --out") from None
        return path
    raise AssertionError("numbers do not end")


def data_line(counts: Mapping[str, int], n_classes: int, skipped_images: int) -> str:
    """`200 training and 500 validation images of 10 classes`, and how many files could not be read, if any."""
    parts = " and ".join(f"{count} {part}" for part, count in counts.items())
    skipped = f"; {skipped_images} could not be read and were left out" if skipped_images else ""
    return f"{parts} images of {n_classes} classes{skipped}"


def percent(value: float | None) -> str:
    """`3.20 %`, or a dash where nothing was measured."""
    return "-" if value is None else f"{value:.2f} %"
