"""What the commands share in printing: the console, tables, JSON, lines beside a progress bar, run folders."""

import contextlib
import itertools
import json
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Literal

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hba.distributed.process_info import is_first
from hba.errors import RunError
from hba.operations import registered_operations
from hba.operations.registration import load_operations_file
from hba.utils.files import RUNS
from hba.utils.progress import ProgressBar
from hba.utils.text import counted, first_of

PLAIN_WIDTH = 110
MOST_CLASSES = 10
N_LINES = 10
OPERATIONS_FILES = "hba.operations_files"
"""Key in click's `meta` of the files given by --operations-file."""


def console() -> Console:
    """Prints to standard output. Tables have a fixed width where it is not a terminal. Not for use beside a bar."""
    is_terminal = sys.stdout.isatty()
    width = None if is_terminal else PLAIN_WIDTH
    return Console(markup=False, emoji=False, highlight=False, width=width, soft_wrap=not is_terminal)


def table(
    headings: Iterable[str], rows: Iterable[Iterable[str]], title: str | None = None, *, numbers: bool = False
) -> Table:
    """A table whose first column, the names, is not wrapped; in a narrow terminal, cells have no margins.

    numbers: the other columns hold numbers, which are aligned to the right and not wrapped.
    """
    margin = 1 if console().width >= PLAIN_WIDTH else 0
    made = Table(title=None if title is None else Text(title), padding=(0, margin))
    cells = [[*row] for row in rows]
    for number, heading in enumerate(headings):
        widest = max((len(row[number]) for row in cells), default=0) if numbers and number else None
        justify: Literal["left", "right"] = "right" if numbers and number else "left"
        made.add_column(Text(heading, overflow="fold"), justify, min_width=widest, no_wrap=not number, overflow="fold")
    for row in cells:
        made.add_row(*map(Text, row))
    return made


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead, for programs.")


def print_json(content: Any) -> None:
    """Indented, with names as they are in Python."""
    click.echo(json.dumps(content, indent=2, default=dict))


def say(text: str, *, err: bool = False) -> None:
    """Print a line, above a progress bar where there is one.

    Where standard output is closed (`hba search | head`), the work continues. Only the first of several processes
    prints.
    """
    if not is_first():
        return
    try:
        # click.echo would bypass the progress bar, which replaces sys.stdout and sys.stderr.
        print(text, file=sys.stderr if err else sys.stdout, flush=True)
    except BrokenPipeError:
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 open until the process ends


def class_words(names: Sequence[str]) -> str:
    """`2 classes: cats, dogs`; only the first three of many."""
    names = [name if name.isprintable() else ascii(name)[1:-1] for name in names]
    return f"{len(names)} classes: {first_of(names, MOST_CLASSES if len(names) <= MOST_CLASSES else 3)}"


def left_out_words(n_files: int, folder: Path | None) -> str:
    """`; 2 files left out: runs/pets-1/left_out.csv`, empty for none."""
    # It imports PyTorch, which takes seconds.
    from hba.data.reading import LEFT_OUT_NAME

    names = "" if folder is None else f": {folder / LEFT_OUT_NAME}"
    return f"; {counted(n_files, 'file')} left out{names}" if n_files else ""


def kept_line(n_done: int, folder: Path, *, has_diverged: bool) -> str:
    """What is kept of an evaluation that stopped, and how to resume it."""
    kept = f"trainings that ended: {n_done}, in {folder / 'results.json'}" if n_done else "no training has ended yet"
    if has_diverged:
        return f"{kept}; resuming would fail again at the same training: start anew with another --out"
    return f"{kept}; the same command with --out {shlex.quote(str(folder))} --resume does the others"


def operations_file_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """--operations-file, which registers operations before the command starts."""

    def load(context: click.Context, parameter: click.Parameter, paths: tuple[Path, ...]) -> None:
        if not context.resilient_parsing:
            for path in paths:
                load_operations_file(path, _registered)
            context.meta[OPERATIONS_FILES] = paths

    return click.option(
        "--operations-file",
        type=click.Path(path_type=Path),
        multiple=True,
        expose_value=False,
        callback=load,
        help="Python file that registers your own operations or regularizers. It is executed.",
    )(command)


def _registered() -> tuple[Any, ...]:
    # Imported only where there is a file, because it takes long.
    from hba.regularization.groups import registered_regularizers

    return (*registered_operations(), *registered_regularizers())


def operations_file_arguments() -> str:
    """` --operations-file FILE` for each file that was given, for commands that are printed."""
    paths = click.get_current_context().meta.get(OPERATIONS_FILES, ())
    return "".join(f" --operations-file {shlex.quote(str(path))}" for path in paths)


class SearchTerminal:
    """Part of a search's callback with a bar: a few lines where there is no bar, and an end by Ctrl-C or SIGTERM.

    The first signal ends the search after its step, the second one at once.
    """

    bar: ProgressBar
    n_epochs: int
    text: str
    stop = False
    _before: dict[int, Any] | None = None

    def say_epoch(self, epoch: int) -> None:
        if not self.bar.visible and epoch % max(1, self.n_epochs // N_LINES) == 0:
            say(self.text)

    def catch_signals(self) -> None:
        # Of several searches, the first one finds the caller's handlers.
        self._before = self._before or {}
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before.setdefault(number, signal.signal(number, self._request_stop))

    def _request_stop(self, number: int, frame: FrameType | None) -> None:
        self.stop = True
        self.restore_signals()

    def restore_signals(self) -> None:
        for number, handler in (self._before or {}).items():
            signal.signal(number, handler)

    def stop_requested(self) -> bool:
        return self.stop


@contextlib.contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM, by which schedulers end a job, is a Ctrl-C."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def run_folder(out: Path | None, name: str) -> Iterator[Path]:
    """`out`, or else a new folder runs/<name>-<number> with the first free number, removed again if it stays empty.

    All processes of a torchrun launch get the same folder.
    """
    if out is not None:
        yield out
        return
    # It imports PyTorch, which takes seconds.
    from hba.distributed.collectives import broadcast_from_rank0

    path = broadcast_from_rank0(lambda: _new_folder(name))
    try:
        yield path
    finally:
        if is_first():
            with contextlib.suppress(OSError):
                path.rmdir()
                RUNS.rmdir()


def _new_folder(name: str) -> Path:
    for number in itertools.count(1):
        path = RUNS / f"{name}-{number}"
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise RunError(f"cannot make {path}: {error.strerror}; choose another folder with --out") from None
        return path
    raise AssertionError("numbers do not end")
