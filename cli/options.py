"""Command-line options made from the fields of a settings class, so that each is written down once."""

import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click
import pydantic
from pydantic.fields import FieldInfo

from hba.data.named import DATASET_NAMES
from hba.hypernet.sharing import SHARING
from hba.policy.spaces import SPACES
from hba.runtime.unknown import did_you_mean

Command = Callable[..., Any]
TYPES = (bool, int, float, str)
WIDEST_CHOICES = 50
"""Characters; more do not stand in a line of a terminal beside the option."""


def settings_options(
    settings: type[pydantic.BaseModel], *, without: tuple[str, ...] = (), default_texts: Mapping[str, str]
) -> Callable[[Command], Command]:
    """An option --field-name for each field but those of `without`; what is not given stays None.

    default_texts: what the help says of a default that is not the field's own, for which {} may stand in it.
    """

    def decorate(command: Command) -> Command:
        for name, field in reversed(settings.model_fields.items()):
            if name not in without:
                command = _option(name, field, default_texts.get(name, "{}"))(command)
        return command

    return decorate


def algorithm_options(
    algorithms: Mapping[str, type[pydantic.BaseModel]], text: str, *, default_texts: Mapping[str, str]
) -> Callable[[Command], Command]:
    """--algorithm, whose help is the text, and an option for each setting that some algorithm has."""

    def decorate(command: Command) -> Command:
        fields: dict[str, FieldInfo] = {}
        for algorithm in algorithms.values():
            for name, field in algorithm.model_fields.items():
                fields.setdefault(name, field)
        for name, field in reversed(fields.items()):
            command = _option(name, field, default_texts.get(name, "{}"))(command)
        names = tuple(algorithms)
        text_and_default = f"{' '.join(text.split())} [default: {names[0]}]"
        return click.option("--algorithm", type=_Choice(names), metavar="NAME", help=text_and_default)(command)

    return decorate


def given(options: dict[str, Any]) -> dict[str, Any]:
    """The options that the user gave."""
    return {name: value for name, value in options.items() if value is not None}


DEFAULT_IN_WORDS = re.compile(r"; (?P<default>[^;]+?)\.(?P<rest> For [^;]*)?$", re.DOTALL)
"""At the end of a setting's text: what stands for None."""
SETTING_IN_WORDS = re.compile(r"[a-z]+(_[a-z]+)+")


def _option(name: str, field: FieldInfo, default_text: str) -> Callable[[Command], Command]:
    """default_text: what the help says of the default, in which {} stands for the field's own."""
    flag = "--" + name.replace("_", "-")
    kind = _plain_type(field.annotation)
    text, own = _text_and_default(field)
    default = default_text.format(own) if own is not None or "{}" not in default_text else None
    help_text = text if default is None else f"{text} [default: {default}]"
    if kind is bool:
        return click.option(f"{flag}/--no-{flag[2:]}", default=None, help=help_text)
    if choices := _choices(name, field.annotation):
        metavar = None if len("|".join(choices)) < WIDEST_CHOICES else "NAME"
        if metavar and not all(choice in text for choice in choices):
            help_text = f"{', '.join(choices)}. {help_text}"
        return click.option(flag, type=_Choice(choices), default=None, metavar=metavar, help=help_text)
    read = _whole(text) if kind is int else kind
    return click.option(flag, type=read, default=None, metavar=kind.__name__.upper(), help=help_text)


def _text_and_default(field: FieldInfo) -> tuple[str, str | None]:
    """A setting's text, and its default as it would be typed, or in words where it is None."""
    text = " ".join((field.description or "").split())
    if field.default is not None:
        return text, as_typed(field.default)
    if words := DEFAULT_IN_WORDS.search(text):
        default = SETTING_IN_WORDS.sub(lambda name: "--" + name[0].replace("_", "-"), words["default"])
        return f"{text[: words.start()]}.{words['rest'] or ''}", default
    return text, None


def as_typed(value: Any) -> str:
    """A setting's value as it would be given on the command line."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _whole(text: str) -> Callable[[str], int]:
    """Reads a whole number; where something else is given, the message says what it would count."""
    counts = re.split(r"[.,;:(]", text)[0]

    def read(given: str) -> int:
        try:
            return int(given)
        except ValueError:
            what = counts[:1].lower() + counts[1:]
            raise click.BadParameter(f"{given!r} is not a whole number ({what}).") from None

    return read


class _Choice(click.Choice[str]):
    """One of some words; a misspelt one is told what was probably meant."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        return super().get_invalid_choice_message(value, ctx).removesuffix(".") + (
            did_you_mean(value, self.choices) or "."
        )


CHOICES: Mapping[str, Sequence[str]] = {
    "space": tuple(SPACES),
    "sharing": tuple(SHARING),
    "baseline_like": DATASET_NAMES,
}
"""Of settings that are checked by a table of the library."""


def _choices(name: str, annotation: Any) -> Sequence[str]:
    """The words of a choice, none for other settings."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        annotation = next(part for part in typing.get_args(annotation) if part is not type(None))
    return typing.get_args(annotation) if typing.get_origin(annotation) is typing.Literal else CHOICES.get(name, ())


def _plain_type(annotation: Any) -> type:
    """int of `int`, `int | None` and `Annotated[int, ...] | None`; str of a choice, and of several words."""
    if annotation in TYPES:
        return typing.cast(type, annotation)
    if typing.get_origin(annotation) in (typing.Literal, tuple):
        return str
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return _plain_type(next(part for part in typing.get_args(annotation) if part is not type(None)))
    return _plain_type(typing.get_args(annotation)[0])
