"""Callbacks of searches and evaluations: a progress bar in a terminal or a notebook,
and TensorBoard event files.
"""

import functools
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Self, TextIO, TypeVar, cast

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from hba.utils.imports import import_extra

READING = "reading images"
Function = TypeVar("Function", bound=Callable[..., Any])


class ProgressBar:
    """A description, a bar, a rate and the time left.

    It is shown on standard error if that is a terminal, or in a notebook. A base class
    of callbacks, shown from __enter__ to __exit__. Lines that are printed meanwhile
    appear above it.
    """

    def __init__(self) -> None:
        console = Console(stderr=True)
        self.visible = console.is_jupyter or (
            _is_terminal(sys.stderr) and not console.is_dumb_terminal
        )
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=None),
            TaskProgressColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
        )
        # What is printed into a file must not appear beside the bar instead.
        redirects = _is_terminal(sys.stdout)
        self._progress = Progress(
            *columns, console=console, transient=True, redirect_stdout=redirects
        )
        self._task = self._progress.add_task("", total=None, rate="", visible=False)
        self._unit = ""
        self._per_step = 1

    def __enter__(self) -> Self:
        if self.visible:
            self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.visible:
            self._progress.stop()

    def show_work(
        self, description: str, done: int, total: int, unit: str, per_step: int = 1
    ) -> None:
        """Show work of several steps.

        Args:
            description: What is done.
            done: Number of finished steps.
            total: Number of steps.
            unit: What the rate counts.
            per_step: How many of the unit a step is.
        """
        self._progress.reset(
            self._task,
            description=description,
            completed=done,
            total=total,
            rate="",
            visible=True,
        )
        self._unit = unit
        self._per_step = per_step

    def say(self, sentence: str) -> None:
        if self.visible:
            self._progress.console.print(
                sentence, markup=False, highlight=False, soft_wrap=True
            )

    def describe(self, description: str) -> None:
        self._progress.update(self._task, description=description)

    def advance_to(self, done: int) -> None:
        speed = self._progress.tasks[0].speed
        rate = "" if speed is None else f"{speed * self._per_step:,.0f} {self._unit}/s"
        self._progress.update(self._task, completed=done, rate=rate)

    def images_read(self, done: int, total: int) -> None:
        """Report that `done` images of a split are read.

        After the last, the bar is hidden until other work begins.
        """
        task = self._progress.tasks[0]
        if task.description != READING or not task.visible:
            self.show_work(READING, 0, total, "images")
        self.advance_to(done)
        if done == total:
            self._progress.update(self._task, visible=False)


def _is_terminal(stream: TextIO | None) -> bool:
    """Whether a standard stream is a terminal; it is None where a program has none."""
    return stream is not None and stream.isatty()


def shows_progress(
    bar_of: Callable[[], AbstractContextManager[Any]],
) -> Callable[[Function], Function]:
    """Let a function show a progress bar if it is called with progress=True.

    Args:
        bar_of: Makes the bar, which is called beside `callback`. The function has the
            arguments `callback` and `progress`.
    """

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def run(*arguments: Any, **keywords: Any) -> Any:
            if not keywords.get("progress"):
                return function(*arguments, **keywords)
            with bar_of() as bar:
                callback = keywords.get("callback")
                keywords["callback"] = (
                    bar if callback is None else CallbackList(callback, bar)
                )
                return function(*arguments, **keywords)

        return cast(Function, run)

    return decorate


class CallbackList:
    """Calls several callbacks in turn; True if one of them returns True."""

    def __init__(self, *callbacks: object) -> None:
        self._callbacks = callbacks

    def __getattr__(self, name: str) -> Callable[..., bool]:
        hooks = [getattr(callback, name) for callback in self._callbacks]
        return lambda *arguments: any([hook(*arguments) for hook in hooks])


FOLDER_NAME = "tensorboard"


def event_writer_class() -> Any:
    """SummaryWriter, which writes TensorBoard events.

    Raises:
        SettingsError: If tensorboard is not installed.
    """
    import_extra("tensorboard", "tensorboard", "writing TensorBoard events")
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter
