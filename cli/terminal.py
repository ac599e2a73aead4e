"""Printing for all commands: the console, tables, JSON, and lines above a progress bar;
also run folders.
"""

import contextlib
import itertools
import json
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Literal

import click
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from hba.errors import DivergedError, HbaError, SettingsError
from hba.operations.operation import WALK
from hba.operations.registration import load_operations_file
from hba.utils.files import RUNS, new_folder
from hba.utils.text import counted, first_of

PLAIN_WIDTH = 110
UNLIMITED = 100_000
"""A width in columns that no table reaches."""
SHORTEST_NAME = 12
"""Columns of a terminal that the first column of a table gets at least."""
MOST_OF_NAME = 30
"""Columns of a terminal that the first column of a table gets before others are not
wrapped.
"""
OPERATIONS_FILES = "hba.operations_files"
"""The key in click's `meta` under which the files of --operations-file are stored."""


def console() -> Console:
    """A console for standard output, not for use beside a bar. Text is wrapped in a
    terminal only.
    """
    is_terminal = sys.stdout.isatty()
    width = None if is_terminal else PLAIN_WIDTH
    # Otherwise, variables of a notebook, such as FORCE_COLOR, would put escapes into
    # files and pipes.
    options: dict[str, Any] = {
        "force_terminal": is_terminal,
        "width": width,
        "soft_wrap": not is_terminal,
    }
    return Console(markup=False, emoji=False, highlight=False, **options)


def print_table(
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    title: str | None = None,
    *,
    numbers: bool = False,
) -> None:
    """Print a table, in which every row shows all of its columns.

    In a terminal, other columns are wrapped, and long names in the first column lose
    their beginning. Elsewhere, nothing is wrapped.

    Args:
        headings: Headings of the columns.
        rows: Cells of each row; an empty row draws a line.
        title: Title of the table.
        numbers: Whether the other columns hold numbers, which are right-aligned and not
            wrapped.
    """
    printer = console()
    table_rows = [tuple(row) for row in rows]
    room = printer.options.update(max_width=UNLIMITED)
    margin = 1 if printer.width >= PLAIN_WIDTH else 0

    def build_table(first: int) -> Table:
        table = Table(title=title, padding=(0, margin))
        for number, heading in enumerate(headings[first:], start=first):
            is_number = numbers and number > 0
            side: Literal["left", "right"] = "right" if is_number else "left"
            table.add_column(
                heading, justify=side, no_wrap=is_number or number == 0, overflow="fold"
            )
        for cells in table_rows:
            if cells:
                table.add_row(*cells[first:])
            else:
                table.add_section()
        return table

    if printer.is_terminal:
        measurement = Measurement.get(printer, room, build_table(1))
        fewest = max(
            SHORTEST_NAME, min(MOST_OF_NAME, printer.width - 3 - measurement.minimum)
        )
        most = max(fewest, printer.width - 3 - measurement.maximum)
        table_rows = [
            cells and (_without_beginning(cells[0], most), *cells[1:])
            for cells in table_rows
        ]
        longest = max(
            cell_len(cells[0]) for cells in [(headings[0],), *filter(None, table_rows)]
        )
        printer.width = max(printer.width, longest + 3 + measurement.minimum)
    else:
        printer.width = Measurement.get(printer, room, build_table(0)).maximum
    printer.print(build_table(0))


def _without_beginning(name: str, width: int) -> str:
    """The end of a name that takes more than `width` columns of a terminal."""
    return (
        name
        if cell_len(name) <= width
        else f"…{set_cell_size(name[::-1], width - 1)[::-1].lstrip()}"
    )


def by_stage(rows: Sequence[tuple[str, Sequence[str]]]) -> Iterator[Sequence[str]]:
    """Yield the cells of rows (stage, cells), with a heading for each stage unless all
    operations are in the walk.
    """
    for stage, group in itertools.groupby(rows, key=lambda row: row[0]):
        if any(row_stage != WALK for row_stage, _ in rows):
            yield from ((), (f"{stage}:",))
        yield from (cells for _, cells in group)


json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON instead, for programs."
)


def print_json(content: Any) -> None:
    """Print indented JSON. Objects are printed as their attributes, under the names
    that they have in Python.
    """
    click.echo(
        json.dumps(
            content,
            indent=2,
            default=lambda value: (
                dict(value) if isinstance(value, Mapping) else vars(value)
            ),
        )
    )


def say(text: str, *, err: bool = False) -> None:
    """Print a line, above the progress bar if one is shown.

    If the reader of the output has ended (`hba search | head`), the work continues.
    """
    name = "stderr" if err else "stdout"
    try:
        # click.echo would bypass the progress bar, which replaces sys.stdout and
        # sys.stderr.
        print(text, file=getattr(sys, name), flush=True)
    except BrokenPipeError:
        setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 open until the process ends


def classes_line(names: Sequence[str], n_left_out: int, folder: Path | None) -> str:
    """`2 classes: cats, dogs; 2 files left out: runs/pets-1/left_out.csv`; only three
    classes are named. One name is that of numbers.
    """
    # It imports PyTorch, which takes seconds.
    from hba.data.reading import LEFT_OUT_NAME

    names = [name if name.isprintable() else ascii(name)[1:-1] for name in names]
    # Numbers have one name.
    is_one = len(names) == 1
    classes = f"{names[0]!r}" if is_one else f"{len(names)} classes: {first_of(names)}"
    listed = "" if folder is None else f": {folder / LEFT_OUT_NAME}"
    return (
        f"{classes}; {counted(n_left_out, 'file')} left out{listed}"
        if n_left_out
        else classes
    )


def operations_file_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option --operations-file, which registers operations before the command
    starts.
    """

    def load(
        context: click.Context, parameter: click.Parameter, paths: tuple[Path, ...]
    ) -> None:
        if not context.resilient_parsing:
            for path in paths:
                load_operations_file(path)
            context.meta[OPERATIONS_FILES] = paths

    return click.option(
        "--operations-file",
        type=click.Path(path_type=Path),
        multiple=True,
        expose_value=False,
        callback=load,
        help=(
            "Python file that registers your own operations or regularizers. It is"
            " executed."
        ),
    )(command)


def operations_file_arguments() -> str:
    """` --operations-file FILE` for each file that was given, to append to a printed
    command.
    """
    paths = click.get_current_context().meta.get(OPERATIONS_FILES, ())
    return "".join(f" --operations-file {shlex.quote(str(path))}" for path in paths)


def resume_line(command: str, folder: Path) -> str:
    """Say how to resume a run."""
    return (
        f"Resume with:\n  hba {command} --out {shlex.quote(str(folder))}"
        f" --resume{operations_file_arguments()}"
    )


@contextlib.contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """Treat SIGTERM, which job schedulers send to end a job, like Ctrl-C."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def trainings_kept(folder: Path, n_done: Callable[[], int]) -> Iterator[None]:
    """Use around an evaluation: if it stops early, print how many trainings are kept,
    and how to resume it.
    """
    with terminated_as_interrupted():
        try:
            yield
        except (KeyboardInterrupt, HbaError) as error:
            is_begun = (
                isinstance(error, KeyboardInterrupt)
                and folder.is_dir()
                and any(folder.iterdir())
            )
            if n_done() or is_begun:
                advice = (
                    "; to do the others, repeat the command with --out"
                    f" {shlex.quote(str(folder))} --resume"
                )
                # A training that diverged would diverge again.
                say(
                    "finished trainings:"
                    f" {n_done()}{'' if isinstance(error, DivergedError) else advice}",
                    err=True,
                )
            raise


@contextlib.contextmanager
def run_folder(out: Path | None, name: str, *, resume: bool = False) -> Iterator[Path]:
    """Yield `out`, or a new folder runs/<name>-<number> with the first free number.

    A new folder is removed if it stays empty.

    Args:
        out: The folder, if the user named one.
        name: Name of the run.
        resume: Whether a run is resumed.

    Raises:
        SettingsError: For `resume` without `out`.
    """
    if out is not None:
        yield out
        return
    if resume:
        raise SettingsError("--resume needs --out, the folder of the run to resume")
    path = new_folder(RUNS, name)
    try:
        yield path
    finally:
        with contextlib.suppress(OSError):
            path.rmdir()
            RUNS.rmdir()
