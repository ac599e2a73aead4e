"""Command-line options made from the fields of a settings class, so that each is written down once."""

import shlex
import types
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
import pydantic
from pydantic.fields import FieldInfo

from hba.operations_file import load_operations_file

Command = Callable[..., Any]
TYPES = (bool, int, float, str)
OPERATIONS_FILES = "hba.operations_files"


def settings_options(
    settings: type[pydantic.BaseModel], *, without: tuple[str, ...] = (), default_texts: Mapping[str, str]
) -> Callable[[Command], Command]:
    """An option --field-name for each field but those of `without`; what is not given stays None.

    default_texts: what the help says of a default that is not the field's own.
    """

    def decorate(command: Command) -> Command:
        for name, field in reversed(settings.model_fields.items()):
            if name not in without:
                command = _option(name, field, default_texts.get(name, field.default))(command)
        return command

    return decorate


def operations_file_option(command: Command) -> Command:
    """--operations-file, which registers operations before the command begins."""

    def load(context: click.Context, parameter: click.Parameter, paths: tuple[Path, ...]) -> None:
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
        help="Python file that registers operations of your own; it is run.",
    )(command)


def operations_file_arguments() -> str:
    """` --operations-file FILE` for each file that was given, for commands that are printed."""
    paths = click.get_current_context().meta.get(OPERATIONS_FILES, ())
    return "".join(f" --operations-file {shlex.quote(str(path))}" for path in paths)


def given(options: dict[str, Any]) -> dict[str, Any]:
    """The options that the user gave."""
    return {name: value for name, value in options.items() if value is not None}


def _option(name: str, field: FieldInfo, default: Any) -> Callable[[Command], Command]:
    flag = "--" + name.replace("_", "-")
    kind = _plain_type(field.annotation)
    help_text = (field.description or "").rstrip(".")
    if kind is bool:
        shown = "" if default is None else f" [default: {'on' if default else 'off'}]"
        return click.option(f"{flag}/--no-{flag[2:]}", default=None, help=f"{help_text}.{shown}")
    shown = f" [default: {default}]" if default is not None else ""
    return click.option(flag, type=kind, default=None, metavar=kind.__name__.upper(), help=f"{help_text}.{shown}")


def _plain_type(annotation: Any) -> type:
    """int of `int`, `int | None` and `Annotated[int, ...] | None`; str of a choice, and of several words."""
    if annotation in TYPES:
        return typing.cast(type, annotation)
    if typing.get_origin(annotation) in (typing.Literal, tuple):
        return str
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return _plain_type(next(part for part in typing.get_args(annotation) if part is not type(None)))
    return _plain_type(typing.get_args(annotation)[0])
