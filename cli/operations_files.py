"""--operations-file: operations of your own for a command, and for the commands that it prints."""

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from hba.operations import registered_operations
from hba.operations.registration import load_operations_file

OPERATIONS_FILES = "hba.operations_files"


def operations_file_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """--operations-file, which registers operations before the command begins."""

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
        help="Python file that registers your own operations, or regularizers. It is run.",
    )(command)


def _registered() -> tuple[Any, ...]:
    """Operations and regularizers, which are only imported where there is a file: that takes long."""
    from hba.regularization.groups import registered_regularizers

    return (*registered_operations(), *registered_regularizers())


def operations_file_arguments() -> str:
    """` --operations-file FILE` for each file that was given, for commands that are printed."""
    paths = click.get_current_context().meta.get(OPERATIONS_FILES, ())
    return "".join(f" --operations-file {shlex.quote(str(path))}" for path in paths)
