"""Command-line options made from the fields of settings classes, so that each is written down once."""

import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import click
import pydantic
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from hba.data.named import DATASET_NAMES
from hba.errors import SettingsError
from hba.hypernet.sharing import SHARING
from hba.models.pretrained import TIMM
from hba.policy.spaces import SPACES
from hba.utils.settings import DefaultText
from hba.utils.text import did_you_mean

from .completion import COMPLETIONS

Command = Callable[..., Any]
TYPES = (bool, int, float, str)
WIDEST_CHOICES = 50
"""Characters; more do not stand in a line of a terminal beside the option."""


class AlgorithmOption(click.Option):
    """A setting of algorithms; help lists these together. readers: the algorithms that have it."""

    def __init__(self, *arguments: Any, readers: Sequence[str], **further: Any) -> None:
        super().__init__(*arguments, **further)
        self.readers = readers


@dataclass(frozen=True)
class _Setting:
    """A field as the command line shows it; default is what is said of it, None where there is none."""

    name: str
    annotation: Any
    text: str
    default: str | None
    readers: Sequence[str] = ()


class Picture(click.Path):
    """A PNG file to write, whose name says so."""

    def __init__(self) -> None:
        super().__init__(path_type=Path, dir_okay=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = super().convert(value, param, ctx)
        if Path(str(path)).suffix.lower() != ".png":
            raise SettingsError(f"--out must end in .png, which is what is written, got {value}")
        return path


def settings_options(
    settings: type[pydantic.BaseModel], *, without: tuple[str, ...] = (), default_texts: Mapping[str, str]
) -> Callable[[Command], Command]:
    """An option --field-name for each field but those of `without`; what is not given stays None.

    default_texts: what the help says of a default that is not the field's own, for which {} may stand in it.
    """

    def shown(name: str) -> _Setting:
        default = _with_own(default_texts.get(name, "{}"), _default_of(settings, name))
        return _Setting(name, settings.model_fields[name].annotation, _text_of(settings, name), default)

    return _options([shown(name) for name in settings.model_fields if name not in without])


def algorithm_options(
    algorithms: Mapping[str, type[pydantic.BaseModel]],
    text: str,
    *,
    default_texts: Mapping[str, str],
    without: Sequence[str] = (),
) -> Callable[[Command], Command]:
    """--algorithm, whose help is the text, and an option --field-name for each field that any of the algorithms has,
    but those of `without`.

    algorithms: settings by name, those of the default algorithm first. Of a field that several have, text and type are
    those of the first of them. The help names the algorithms that read it, unless all do, and the defaults that differ
    from the first one's. default_texts: as in settings_options. What is not given stays None.
    """
    every_name = dict.fromkeys(name for settings in algorithms.values() for name in settings.model_fields)
    names = [name for name in every_name if name not in without]

    def shown(name: str) -> _Setting:
        readers = {key: settings for key, settings in algorithms.items() if name in settings.model_fields}
        first = next(iter(readers.values()))
        text = _text_of(first, name)
        if len(readers) < len(algorithms):
            text = f"{text} For {', '.join(readers)}."
        default = _with_own(default_texts.get(name, "{}"), _defaults_of(readers, name))
        return _Setting(name, first.model_fields[name].annotation, text, default, tuple(readers))

    every = tuple(algorithms)
    choice = _Setting("algorithm", Literal[*algorithms], " ".join(text.split()), every[0], every)
    return _options([choice, *map(shown, names)])


def given(options: dict[str, Any]) -> dict[str, Any]:
    """The options that the user gave."""
    return {name: value for name, value in options.items() if value is not None}


def _options(settings: Sequence[_Setting]) -> Callable[[Command], Command]:
    def decorate(command: Command) -> Command:
        for setting in reversed(settings):
            command = _option(setting)(command)
        return command

    return decorate


def _option(setting: _Setting) -> Callable[[Command], Command]:
    name, text = setting.name, setting.text
    kind: dict[str, Any] = {"cls": AlgorithmOption, "readers": setting.readers} if setting.readers else {}
    flag = "--" + name.replace("_", "-")
    plain = _plain_type(setting.annotation)
    help_text = text if setting.default is None else f"{text} [default: {setting.default}]"
    if plain is bool:
        return click.option(f"{flag}/--no-{flag[2:]}", default=None, help=help_text, **kind)
    if choices := _choices(name, setting.annotation):
        metavar = None if len("|".join(choices)) < WIDEST_CHOICES else "NAME"
        if metavar and not all(choice in text for choice in choices):
            help_text = f"{', '.join(choices)}. {help_text}"
        # Help that is asked for after the algorithm is that of the algorithm.
        first = name == "algorithm"
        choice = _Choice(choices)
        return click.option(flag, type=choice, default=None, metavar=metavar, help=help_text, is_eager=first, **kind)
    metavar, complete = COMPLETIONS.get(name, (plain.__name__.upper(), None))
    if name in ALONE:
        kind |= {"is_flag": False, "flag_value": ALONE[name]}
    return click.option(
        flag,
        type=_whole(text, _words_of(setting.annotation)) if plain is int else plain,
        default=None,
        metavar=metavar,
        help=help_text,
        shell_complete=complete,
        **kind,
    )


def _with_own(text: str, own: str | None) -> str | None:
    """The text with the field's own default in the place of {}; None where there is nothing to say."""
    return text.format(own) if own is not None or "{}" not in text else None


def _fields(settings: type[pydantic.BaseModel], name: str) -> Iterator[FieldInfo]:
    """The field of a class, then as the classes declare it from which it is derived."""
    for parent in settings.__mro__:
        if issubclass(parent, pydantic.BaseModel) and name in parent.model_fields:
            yield parent.model_fields[name]


def _text_of(settings: type[pydantic.BaseModel], name: str) -> str:
    """What the nearest class says that says anything: a field may be declared again only for another default."""
    texts = (field.description for field in _fields(settings, name) if field.description)
    return " ".join(next(texts, "").split())


def _default_of(settings: type[pydantic.BaseModel], name: str) -> str | None:
    """A default as it would be typed, or in words where it is None; None where there is nothing to say."""
    default = settings.model_fields[name].default
    if default is PydanticUndefined:
        return None
    if default is not None:
        return as_typed(default)
    words = (
        mark.words for field in _fields(settings, name) for mark in field.metadata if isinstance(mark, DefaultText)
    )
    found = next(words, None)
    return None if found is None else SETTING_IN_WORDS.sub(lambda name: "--" + name[0].replace("_", "-"), found)


SETTING_IN_WORDS = re.compile(r"[a-z]+(_[a-z]+)+")


def _defaults_of(readers: Mapping[str, type[pydantic.BaseModel]], name: str) -> str | None:
    """`0.5; hba, fixed-noise: 0.05`: the default of the first, and those that differ from it."""
    by_default: dict[str | None, list[str]] = {}
    for key, settings in readers.items():
        by_default.setdefault(_default_of(settings, name), []).append(key)
    (first, _), *others = by_default.items()
    shown = [
        *([] if first is None else [first]),
        *(f"{', '.join(keys)}: {default or 'none'}" for default, keys in others),
    ]
    return "; ".join(shown) or None


def as_typed(value: Any) -> str:
    """A setting's value as it would be given on the command line."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _whole(text: str, instead: Sequence[str]) -> Callable[[str], int | str]:
    """Reads a whole number, or a word that may stand instead; of another word, the message says what it would count."""
    counts = re.split(r"[.,;:(]", text)[0]

    def read(given: str) -> int | str:
        if given in instead:
            return given
        try:
            return int(given)
        except ValueError:
            what = counts[:1].lower() + counts[1:]
            nor = "".join(f", nor {word}" for word in instead)
            raise click.BadParameter(f"{given!r} is not a whole number{nor} ({what}).") from None

    return read


class _Choice(click.Choice[str]):
    """One of some words; a misspelt one is told what was probably meant."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        return super().get_invalid_choice_message(value, ctx).removesuffix(".") + (
            did_you_mean(value, self.choices) or "."
        )


ALONE: Mapping[str, str] = {"pretrained": TIMM}
"""What an option without a value stands for."""
CHOICES: Mapping[str, Sequence[str]] = {
    "space": tuple(SPACES),
    "sharing": tuple(SHARING),
    "baseline_like": DATASET_NAMES,
}
"""Of settings that are checked by a table of the library."""


def _choices(name: str, annotation: Any) -> Sequence[str]:
    """The words of a choice, none for other settings."""
    plain = _without_none(annotation)
    return typing.get_args(plain) if typing.get_origin(plain) is typing.Literal else CHOICES.get(name, ())


def _words_of(annotation: Any) -> tuple[str, ...]:
    """Those of `int | Literal["half"] | None` that can stand instead of a number."""
    if typing.get_origin(annotation) is typing.Annotated:
        return _words_of(typing.get_args(annotation)[0])
    literals = [part for part in typing.get_args(annotation) if typing.get_origin(part) is typing.Literal]
    return tuple(word for part in literals for word in typing.get_args(part))


def _plain_type(annotation: Any) -> type:
    """int of `int`, `int | None` and `Annotated[int, ...] | None`; str of a choice, of several words, and of what is
    read from a file.
    """
    plain = _without_none(annotation)
    if plain in TYPES:
        return typing.cast(type, plain)
    if isinstance(plain, type) and issubclass(plain, pydantic.BaseModel):
        return str
    return str if typing.get_origin(plain) in (typing.Literal, tuple) else _plain_type(typing.get_args(plain)[0])


def _without_none(annotation: Any) -> Any:
    """A or Annotated[A, ...] of `A | None`; another annotation as it is."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return next(part for part in typing.get_args(annotation) if part is not type(None))
    return annotation
