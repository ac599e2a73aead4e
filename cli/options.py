"""Command-line options made from the fields of settings classes, and the shell
completion of their values.
"""

import functools
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import click
import pydantic
from click.shell_completion import CompletionItem

from hba.algorithms import Algorithm
from hba.data.arrays import DATASET_NAMES
from hba.data.splits import shipped_class_lists
from hba.errors import SettingsError
from hba.hypernet.sharing import SHARING
from hba.models import MODELS
from hba.models.timm_networks import ALL_BUT_HEAD, NOTHING, TIMM
from hba.operations import OPERATIONS, STAGED
from hba.policy.spaces import SPACES
from hba.schedule.library import policy_names
from hba.schedule.recipes import RECIPES
from hba.utils.settings import DefaultText

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
WIDEST_CHOICES = 50
"""A list of choices with fewer characters fits beside the option in a terminal."""
CHOICES: Mapping[str, Sequence[str]] = types.MappingProxyType(
    {"space": tuple(SPACES), "sharing": tuple(SHARING), "baseline_like": DATASET_NAMES}
)
"""The choices of settings that the library checks against a table."""


def complete(
    names: Iterable[str] = (),
    paths: Literal["file", "dir"] | None = None,
    *,
    several: bool = False,
) -> Complete:
    """Complete names, and also files or folders.

    Args:
        names: The names.
        paths: Whether files or folders are completed too.
        several: Whether the value is a list of names separated by commas.
    """

    def completed(
        ctx: click.Context, parameter: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        before, comma, last = (
            incomplete.rpartition(",") if several else ("", "", incomplete)
        )
        begun = [
            CompletionItem(f"{before}{comma}{name}")
            for name in names
            if name.startswith(last)
        ]
        return [*begun, *([CompletionItem(incomplete, type=paths)] if paths else [])]

    return completed


DATA = complete(DATASET_NAMES, "file")
SCHEDULE = complete((*RECIPES, *policy_names()), "file")
VALUES: Mapping[str, tuple[str, Complete | None]] = types.MappingProxyType(
    {
        "model": ("NAME", complete(MODELS)),
        "pretrained": ("[FILE]", complete((TIMM, "none"), "file")),
        "freeze": ("PART", complete((NOTHING, ALL_BUT_HEAD))),
        "device": ("NAME", complete(("auto", "cpu", "cuda", "mps"))),
        "operations": ("NAMES", complete(("all", *OPERATIONS, *STAGED), several=True)),
        "ranges": ("NAME=FIRST:LAST", None),
        "start": (
            "NAME=VALUE",
            complete([f"{name}=" for name in (*OPERATIONS, *STAGED)], several=True),
        ),
        "data_root": ("FOLDER", complete(paths="dir")),
        "init_from": ("SCHEDULE", SCHEDULE),
        "masks": ("PATH", complete(paths="file")),
        "mask_colors": ("FILE", complete(paths="file")),
        "group": ("PATTERN", None),
        "target": ("COLUMN", None),
        "classes": ("FILE", complete(shipped_class_lists(), "file")),
        "val_batch_size": ("INT", complete(("half",))),
        "tune": ("NAMES", None),
        "fill": ("R,G,B", None),
        "levels": ("LOW,HIGH", None),
        "lambda_betas": ("B1,B2", None),
    }
)
"""For each setting, the placeholder of its value in the help, and its completion."""
FLAGS: Mapping[str, str] = types.MappingProxyType({"ranges": "range"})
"""Options whose name differs from the name of their setting."""

path_option = functools.partial(click.option, type=click.Path(path_type=Path))
file_option = functools.partial(
    click.option, type=click.Path(path_type=Path, dir_okay=False)
)
number_option = functools.partial(click.option, type=int, metavar="INT")
schedule_argument = click.argument("schedule", shell_complete=SCHEDULE)


class AlgorithmOption(click.Option):
    """A setting of algorithms, which the help lists only after `--algorithm NAME`."""


class AlgorithmChoice(click.Option):
    """The option --algorithm.

    Args:
        text: The help.
        pages: For each algorithm, its options with its own defaults, for the help.
    """

    def __init__(self, text: str, pages: Mapping[str, Sequence[click.Option]]) -> None:
        super().__init__(
            ["--algorithm"],
            type=click.Choice(list(pages)),
            metavar="NAME",
            help=f"{' '.join(text.split())} [default: {next(iter(pages))}]",
            # The help, which is eager too, depends on it.
            is_eager=True,
        )
        self.pages = pages


def picture(
    context: click.Context, parameter: click.Parameter, path: Path | None
) -> Path | None:
    """Raise SettingsError for a picture whose name does not end in .png."""
    if path is not None and path.suffix.lower() != ".png":
        raise SettingsError(
            f"--out must end in .png, because a PNG file is written, got {path}"
        )
    return path


def duration(text: str) -> float:
    """Convert `90s`, `20m` or `1h30m` into seconds. Every number needs its unit."""
    number = r"(\d+(?:\.\d+)?)"
    match = re.fullmatch(f"(?:{number}h)?(?:{number}m)?(?:{number}s)?", text, re.ASCII)
    hours, minutes, seconds = (
        (float(amount or 0) for amount in match.groups()) if match else (0.0, 0.0, 0.0)
    )
    total = 3600 * hours + 60 * minutes + seconds
    if total <= 0:
        raise click.BadParameter(
            f"{text!r} is not a time with units, such as 90s, 20m or 1h30m."
        )
    return total


def given(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that the user gave."""
    return {name: value for name, value in options.items() if value is not None}


def settings_options(
    settings: type[pydantic.BaseModel],
    *,
    without: Iterable[str] = (),
    default_texts: Mapping[str, str] = types.MappingProxyType({}),
    option_class: type[click.Option] = click.Option,
) -> list[click.Parameter]:
    """Make an option --field-name for each field of a settings class.

    An option that is not given is None.

    Args:
        settings: The class.
        without: Fields without an option.
        default_texts: The default that the help shows for a field, where {} stands for
            the field's own default.
        option_class: The class of the options.
    """
    names = [name for name in settings.model_fields if name not in without]
    return [
        _option(
            settings.model_fields[name],
            name,
            default_texts.get(name, "{}"),
            option_class,
        )
        for name in names
    ]


def algorithm_options(
    algorithms: Mapping[str, type[Algorithm]],
    text: str,
    without: Iterable[str] = (),
    **arguments: Any,
) -> list[click.Parameter]:
    """Make --algorithm, and an option for each field that any algorithm has.

    Args:
        algorithms: Settings classes by name, the default algorithm first.
        text: The help of --algorithm.
        without: Fields without an option.
        arguments: Other arguments of settings_options.
    """
    pages: dict[str, Any] = {
        name: settings_options(
            algorithm,
            option_class=AlgorithmOption,
            without=(*without, *algorithm.idle),
            **arguments,
        )
        for name, algorithm in algorithms.items()
    }
    # If several algorithms have a field, the option has the type of the first one.
    every = {
        option.name: option for page in reversed(pages.values()) for option in page
    }
    return [AlgorithmChoice(text, pages), *every.values()]


def _option(
    field: pydantic.fields.FieldInfo,
    name: str,
    default_text: str,
    option_class: type[click.Option],
) -> click.Option:
    text = " ".join((field.description or "").split())
    default = _default_of(field)
    if default is not None or "{}" not in default_text:
        text = f"{text} [default: {default_text.format(default)}]"
    flag = "--" + FLAGS.get(name, name).replace("_", "-")
    plain = _plain_type(field.annotation)
    if plain is bool:
        return option_class([f"{flag}/--no-{flag[2:]}"], default=None, help=text)
    if choices := typing.get_args(plain) or CHOICES.get(name, ()):
        metavar = None if len("|".join(choices)) < WIDEST_CHOICES else "NAME"
        if metavar and not all(choice in text for choice in choices):
            text = f"{', '.join(choices)}. {text}"
        return option_class(
            [flag], type=click.Choice(choices), metavar=metavar, help=text
        )
    metavar, completion = VALUES.get(name, (plain.__name__.upper(), None))
    # Without a value, --pretrained means timm's weights.
    alone: dict[str, Any] = (
        {"is_flag": False, "flag_value": TIMM} if name == "pretrained" else {}
    )
    return option_class(
        [flag, name],
        type=plain,
        metavar=metavar,
        help=text,
        shell_complete=completion,
        **alone,
    )


def _default_of(field: pydantic.fields.FieldInfo) -> str | None:
    """A default as you would type it, or in words if it is None; None if there is
    nothing to show.
    """
    value = field.default
    if value is None:
        return next(
            (mark.words for mark in field.metadata if isinstance(mark, DefaultText)),
            None,
        )
    if isinstance(value, bool):
        return "on" if value else "off"
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _plain_type(annotation: Any) -> Any:
    """bool, int, float or Literal[...] for `A`, `A | None` and `Annotated[A, ...]`; str
    for what pydantic parses.
    """
    origin = typing.get_origin(annotation)
    parts = [
        argument
        for argument in typing.get_args(annotation)
        if argument is not type(None)
    ]
    if origin is typing.Annotated or (
        origin in (typing.Union, types.UnionType) and len(parts) == 1
    ):
        return _plain_type(parts[0])
    return annotation if annotation in (bool, int, float) or origin is Literal else str
