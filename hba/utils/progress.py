"""A progress bar in a terminal or a notebook, and how a function that tells a callback shows one."""

import functools
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Self, TypeVar, cast

from rich.console import Console
from rich.progress import BarColumn, Progress, Task, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

READING = "reading images"
SECONDS_BETWEEN_UPDATES = 0.25
Function = TypeVar("Function", bound=Callable[..., Any])


class _OneLine(Progress):
    """Leaves room for the ^C that a terminal writes after the bar: on a new line, it would keep the bar there."""

    def make_tasks_table(self, tasks: Iterable[Task]) -> Table:
        table = super().make_tasks_table(tasks)
        # rich asks for a first table before it has the console.
        if hasattr(self, "live") and not self.console.is_jupyter:
            table.width = max(1, self.console.width - len("^C"))
        return table


class ProgressBar:
    """A text, a bar, a rate and the time left: on standard error where that is a terminal, under a notebook's cell, and
    nowhere else.

    What is printed to a terminal meanwhile appears above the bar.
    """

    def __init__(self) -> None:
        console = Console(stderr=True)
        is_terminal = sys.stderr.isatty() and not console.is_dumb_terminal
        self.visible = is_terminal or console.is_jupyter
        self._progress = _OneLine(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=None),
            TaskProgressColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            console=console,
            disable=not is_terminal,
            transient=True,
            # What goes into a file must not be shown beside the bar instead.
            redirect_stdout=sys.stdout.isatty(),
        )
        self._is_terminal = is_terminal
        self._cell = _Cell(self._progress) if self.visible and not is_terminal else None
        self._task = self._progress.add_task("", total=None, rate="", visible=False)
        self._unit, self._per_step = "", 1

    def __enter__(self) -> Self:
        # Some versions of rich print an empty line even for a bar that is disabled.
        if self._is_terminal:
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._is_terminal:
            self._progress.stop()
        self._hide()

    def begin(self, description: str, done: int, total: int, unit: str, per_step: int = 1) -> None:
        """A new piece of work of `total` steps; a step is `per_step` of the unit, which the rate counts."""
        self._progress.reset(self._task, description=description, completed=done, total=total, rate="", visible=True)
        self._unit, self._per_step = unit, per_step
        self._show()

    def say(self, sentence: str) -> None:
        """Print a line where the bar is shown, nothing elsewhere."""
        if self.visible:
            self._progress.console.print(sentence, markup=False, highlight=False, soft_wrap=True)

    def describe(self, description: str) -> None:
        """Another text before the bar."""
        self._progress.update(self._task, description=description)
        self._show()

    def images_read(self, done: int, total: int) -> None:
        """So many images have been read. After the last one the bar disappears until other work begins."""
        if self._progress.tasks[0].description != READING:
            self.begin(READING, 0, total, "images")
        self.advance_to(done)
        if done == total:
            self._hide()

    def advance_to(self, done: int) -> None:
        """So many steps of the work are done."""
        task = self._progress.tasks[0]
        rate = "" if task.speed is None else f"{task.speed * self._per_step:,.0f} {self._unit}/s"
        self._progress.update(self._task, completed=done, rate=rate)
        self._show()

    def _show(self) -> None:
        if self._cell is not None:
            self._cell.update()

    def _hide(self) -> None:
        self._progress.update(self._task, visible=False)
        if self._cell is not None:
            self._cell.update(at_once=True)


class ShowsBar:
    """What callbacks that show a bar have in common. As a context: the bar is there from __enter__ to __exit__."""

    def __init__(self) -> None:
        self.bar = ProgressBar()

    def __enter__(self) -> Self:
        self.bar.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.bar.__exit__(kind, error, traceback)

    def images_read(self, done: int, total: int) -> None:
        """So many of the images have been read."""
        self.bar.images_read(done, total)


class _Cell:
    """A bar under a notebook's cell, without the widgets that rich would ask for."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._handle: Any = None
        self._last = 0.0

    def update(self, *, at_once: bool = False) -> None:
        now = time.monotonic()
        if not at_once and now - self._last < SECONDS_BETWEEN_UPDATES:
            return
        self._last = now
        if self._handle is not None:
            self._handle.update(self._progress)
        elif not at_once:
            from IPython.display import display

            self._handle = display(self._progress, display_id=True)


def shows_progress(bar_of: Callable[[], AbstractContextManager[Any]]) -> Callable[[Function], Function]:
    """Give a function with the keyword arguments `callback` and `progress` a bar for progress=True.

    bar_of: makes a callback that shows a bar from its __enter__ to its __exit__. It is told what the caller's own
    callback is told.
    """

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def run(*arguments: Any, **named: Any) -> Any:
            if not named.get("progress"):
                return function(*arguments, **named)
            with bar_of() as bar:
                own = named.get("callback")
                return function(*arguments, **{**named, "callback": bar if own is None else CallbackList(own, bar)})

        return cast(Function, run)

    return decorate


class CallbackList:
    """Stands for several callbacks: each is told everything, and a yes of one is a yes."""

    def __init__(self, *callbacks: object) -> None:
        self._observers = callbacks

    def __getattr__(self, name: str) -> Callable[..., bool]:
        hooks = [getattr(callback, name) for callback in self._observers]
        return lambda *told: any([hook(*told) for hook in hooks])
