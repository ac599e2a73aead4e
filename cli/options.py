"""Command-line options made from the fields of settings classes, so that each setting is written down once."""

import functools
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import click
import pydantic

from hba.data.arrays import DATASET_NAMES
from hba.errors import SettingsError
from hba.hypernet.sharing import SHARING
from hba.models.timm_networks import TIMM
from hba.policy.spaces import SPACES
from hba.utils.settings import DefaultText

from .completion import COMPLETIONS

Command = Callable[..., Any]
TYPES = (bool, int, float, str)
WIDEST_CHOICES = 50
"""Characters of a list of choices that still fit beside the option in a terminal."""
WITHOUT_VALUE: Mapping[str, str] = types.MappingProxyType({"pretrained": TIMM})
"""What an option stands for that is given without a value."""
CHOICES: Mapping[str, Sequence[str]] = types.MappingProxyType(
    {"space": tuple(SPACES), "sharing": tuple(SHARING), "baseline_like": DATASET_NAMES}
)
"""Of settings that the library checks against a table."""


path_option = functools.partial(click.option, type=click.Path(path_type=Path))
number_option = functools.partial(click.option, type=int, metavar="INT")


class AlgorithmOption(click.Option):
    """A setting of algorithms, which the help lists only after `--algorithm NAME`."""


class AlgorithmChoice(click.Option):
    """--algorithm. pages: by algorithm, its options with its own defaults, for the help."""

    def __init__(self, *arguments: Any, pages: Mapping[str, Sequence[click.Option]], **further: Any) -> None:
        super().__init__(*arguments, **further)
        self.pages = pages


class Picture(click.Path):
    """A PNG file to write, whose name ends in .png."""

    def __init__(self) -> None:
        super().__init__(path_type=Path, dir_okay=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = super().convert(value, param, ctx)
        if Path(str(path)).suffix.lower() != ".png":
            raise SettingsError(f"--out must end in .png, because a PNG file is written, got {value}")
        return path


def duration(given: str) -> float:
    """Seconds of `90s`, `20m` or `1h30m`; a number needs its unit."""
    number = r"(\d+(?:\.\d+)?)"
    found = re.fullmatch(f"(?:{number}h)?(?:{number}m)?(?:{number}s)?", given, re.ASCII)
    hours, minutes, seconds = (float(part or 0) for part in found.groups()) if found else (0.0, 0.0, 0.0)
    total = 3600 * hours + 60 * minutes + seconds
    if total <= 0:
        raise click.BadParameter(f"{given!r} is not a time with units, such as 90s, 20m or 1h30m.")
    return total


def given(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that the user gave."""
    return {name: value for name, value in options.items() if value is not None}


def settings_options(
    settings: type[pydantic.BaseModel], *, without: Iterable[str] = (), default_texts: Mapping[str, str]
) -> Callable[[Command], Command]:
    """An option --field-name for each field but those in `without`; what is not given stays None.

    default_texts: by field, the default that the help shows, where {} stands for the field's own.
    """
    shown = [_declaration(settings, name, default_texts) for name in settings.model_fields if name not in without]
    return lambda command: _decorated(command, shown, click.Option)


def algorithm_options(
    algorithms: Mapping[str, type[pydantic.BaseModel]],
    text: str,
    *,
    default_texts: Mapping[str, str],
    without: Sequence[str] = (),
) -> Callable[[Command], Command]:
    """--algorithm with the help `text`, and an option for each field that any algorithm has, but those in `without`.

    algorithms: settings by name, those of the default algorithm first. What is not given stays None.
    """
    pages = {
        key: [_declaration(settings, name, default_texts) for name in settings.model_fields if name not in without]
        for key, settings in algorithms.items()
    }
    # Of a field that several algorithms have, the type is that of the first of them.
    every = {declared[0]: declared for page in reversed(pages.values()) for declared in page}
    choice = click.option(
        "--algorithm",
        cls=AlgorithmChoice,
        pages={key: [AlgorithmOption([flag], **further) for flag, further in page] for key, page in pages.items()},
        type=click.Choice(list(algorithms)),
        metavar="NAME",
        help=f"{' '.join(text.split())} [default: {next(iter(algorithms))}]",
        # The help, which is eager too, depends on it.
        is_eager=True,
    )
    return lambda command: choice(_decorated(command, [*every.values()], AlgorithmOption))


def _decorated(
    command: Command, declarations: Sequence[tuple[str, dict[str, Any]]], kind: type[click.Option]
) -> Command:
    for flag, further in reversed(declarations):
        command = click.option(flag, cls=kind, **further)(command)
    return command


def _declaration(
    settings: type[pydantic.BaseModel], name: str, default_texts: Mapping[str, str]
) -> tuple[str, dict[str, Any]]:
    """The flag of a setting's option, and the arguments of click.Option."""
    annotation = settings.model_fields[name].annotation
    text = " ".join((settings.model_fields[name].description or "").split())
    default, shown = _default_of(settings, name), default_texts.get(name, "{}")
    if default is not None or "{}" not in shown:
        text = f"{text} [default: {shown.format(default)}]"
    flag = "--" + name.replace("_", "-")
    plain = _plain_type(annotation)
    if plain is bool:
        return f"{flag}/--no-{flag[2:]}", {"default": None, "help": text}
    if choices := typing.get_args(plain) or CHOICES.get(name, ()):
        metavar = None if len("|".join(choices)) < WIDEST_CHOICES else "NAME"
        if metavar and not all(choice in text for choice in choices):
            text = f"{', '.join(choices)}. {text}"
        return flag, {"type": click.Choice(choices), "metavar": metavar, "help": text}
    metavar, complete = COMPLETIONS.get(name, (plain.__name__.upper(), None))
    alone = {"is_flag": False, "flag_value": WITHOUT_VALUE[name]} if name in WITHOUT_VALUE else {}
    return flag, {"type": plain, "metavar": metavar, "help": text, "shell_complete": complete, **alone}


def _default_of(settings: type[pydantic.BaseModel], name: str) -> str | None:
    """A default as it would be typed, or in words where it is None; None where there is nothing to show."""
    default = settings.model_fields[name].default
    if default is not None:
        return as_typed(default)
    # A subclass may declare a field again without its words.
    fields = (
        parent.model_fields[name]
        for parent in settings.__mro__
        if issubclass(parent, pydantic.BaseModel) and name in parent.model_fields
    )
    marks = (mark.words for field in fields for mark in field.metadata if isinstance(mark, DefaultText))
    return next(marks, None)


def as_typed(value: Any) -> str:
    """A setting's value as it would be given on the command line."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _plain_type(annotation: Any) -> Any:
    """bool, int, float, or Literal[...] of `A`, `A | None` and `Annotated[A, ...]`; str of all that pydantic parses."""
    while typing.get_origin(annotation) is not None and typing.get_origin(annotation) is not Literal:
        parts = [part for part in typing.get_args(annotation) if part is not type(None)]
        is_union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
        if typing.get_origin(annotation) is tuple or (is_union and len(parts) > 1):
            return str
        annotation = parts[0]
    return annotation if annotation in TYPES or typing.get_origin(annotation) is Literal else str
