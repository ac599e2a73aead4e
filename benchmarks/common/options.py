"""Command-line options that several benchmarks share."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, TypeVar

import click

from common.records import RESULTS
from hba.errors import HbaError
from hba.utils.settings import words
from hba.utils.text import unknown

Command = TypeVar("Command", bound=Callable[..., None])
DATA_FOLDER = "HBA_DATA"
"""An environment variable that names the folder of data sets."""
CIFAR_FOLDER = "cifar10-jpeg"
"""The folder of the CIFAR-10 copy in the folder of data sets."""

DATA = click.option(
    "--data",
    help=(
        f"Folder of the CIFAR-10 copy, for beds of it. [default: {CIFAR_FOLDER} in the"
        f" folder {DATA_FOLDER}]"
    ),
)
JOBS = click.option(
    "--jobs",
    type=click.IntRange(1),
    default=2,
    show_default=True,
    help="At a time, one thread each.",
)
DEVICE = click.option("--device", default="cpu", show_default=True)
KEPT_IN = click.option(
    "--results",
    type=click.Path(path_type=Path),
    default=RESULTS,
    help="[default: benchmarks/results]",
)
DRY_RUN = click.option(
    "--dry-run", is_flag=True, help="Only say how many runs are missing."
)


def work(folder: str) -> Callable[[Command], Command]:
    """The folder of run folders, from which interrupted searches are resumed."""
    return click.option(
        "--work",
        type=click.Path(path_type=Path),
        default=Path(folder),
        show_default=True,
    )


def with_options(
    *options: Callable[[Command], Command],
) -> Callable[[Command], Command]:
    return lambda command: reduce(
        lambda wrapped, option: option(wrapped), reversed(options), command
    )


def names_option(option: str, known: Iterable[str]) -> Callable[[Command], Command]:
    """An option for names of a list, separated by commas, all by default."""
    names = tuple(known)

    def split(
        context: click.Context, parameter: click.Parameter, value: str
    ) -> tuple[str, ...]:
        chosen = tuple(words(value))
        for name in chosen:
            if name not in names:
                raise click.BadParameter(unknown("name", name, names))
        return chosen

    return click.option(
        option,
        callback=split,
        default=",".join(names),
        show_default=True,
        help="Names, by commas.",
    )


@dataclass(frozen=True)
class RunOptions:
    """The options of commands that run tasks."""

    jobs: int
    device: str
    work: Path
    results: Path
    dry_run: bool


class OneLineErrors(click.Group):
    """A group whose commands report an HbaError in one line."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except HbaError as error:
            raise click.ClickException(str(error)) from None
