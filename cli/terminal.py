"""What the commands share in printing: a console, lines that stay clear of a progress bar, run folders."""

import contextlib
import glob
import itertools
import json
import math
import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hba.distributed.process_info import is_first
from hba.errors import RunError
from hba.utils.files import RUNS

PLAIN_WIDTH = 110


def console() -> Console:
    """Prints to standard output; tables keep their width where it is not a terminal. Not for while a bar is shown."""
    is_terminal = sys.stdout.isatty()
    width = None if is_terminal else PLAIN_WIDTH
    return Console(markup=False, emoji=False, highlight=False, width=width, soft_wrap=not is_terminal)


def table(headings: Iterable[str], title: str | None = None) -> Table:
    """An empty table whose first column, the names, is never broken; where lines are short, cells have no margins."""
    margin = 1 if console().width >= PLAIN_WIDTH else 0
    made = Table(title=None if title is None else Text(title), padding=(0, margin))
    for number, heading in enumerate(headings):
        made.add_column(heading, no_wrap=number == 0, overflow="fold")
    return made


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead, for programs.")


def print_json(content: Any) -> None:
    """As a program reads it: names and numbers, two spaces deep; null for a number that is not finite."""
    click.echo(json.dumps(_finite(content), indent=2, allow_nan=False))


def _finite(content: Any) -> Any:
    """A provenance may hold what JSON has no word for."""
    if isinstance(content, Mapping):
        return {name: _finite(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def say(text: str, *, err: bool = False) -> None:
    """Print a line, above a progress bar where one is shown.

    Where nobody reads any more (`hba search | head`), the work continues in silence. Of processes of one computation,
    the first alone speaks.
    """
    if not is_first():
        return
    try:
        # A bar replaces sys.stdout and sys.stderr; click.echo would look for the file that it wraps.
        print(text, file=sys.stderr if err else sys.stdout, flush=True)
    except BrokenPipeError:
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 open until the process ends


def kept_line(n_done: int, folder: Path, *, has_diverged: bool) -> str:
    """Of an evaluation that was stopped: what is kept of it, and how it goes on."""
    kept = f"trainings that ended: {n_done}, in {folder / 'results.json'}" if n_done else "no training has ended yet"
    if has_diverged:
        return f"{kept}; resuming would fail again at the same training: start anew with another --out"
    return f"{kept}; the same command with --out {shlex.quote(str(folder))} --resume does the others"


@contextlib.contextmanager
def run_folder(out: Path | None, name: str) -> Iterator[Path]:
    """`out`, or else runs/<name>-<number> with the first number that is free.

    The new folder is made at once, so two commands never share one. If nothing was put into it, it is removed again.
    Processes of one computation have the first one's; where torchrun starts them again, it is the one of before.
    """
    if out is not None:
        yield out
        return
    # It imports PyTorch, which takes seconds.
    from hba.distributed.collectives import broadcast_from_rank0

    path = broadcast_from_rank0(lambda: _begun_before(name) or _claim(name))
    try:
        yield path
    finally:
        if is_first():
            with contextlib.suppress(OSError):
                path.rmdir()
                RUNS.rmdir()


def _begun_before(name: str) -> Path | None:
    """The folder in which this launch of torchrun has begun already, where it starts the processes again."""
    from hba.distributed.collectives import is_restarted_in, n_restarts

    # A scheduler may give several launches one name.
    begun = [path for path in RUNS.glob(f"{glob.escape(name)}-*") if n_restarts() and is_restarted_in(path)]
    return max(begun, key=lambda path: path.stat().st_ctime, default=None)


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
