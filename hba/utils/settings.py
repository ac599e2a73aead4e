"""Settings classes, and messages of one line about the first wrong setting."""

import math
import numbers
import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import pydantic

from hba.errors import SettingsError
from hba.utils.text import did_you_mean

LONGEST_SHOWN = 80
"""Characters of a value that a message quotes."""


def first_problem(
    error: pydantic.ValidationError, setting_names: Iterable[str] = ()
) -> str:
    """The first problem in one line: its place, the rule, and the value received.

    A place is such as `space.operations[0].name`.

    Args:
        error: The error of pydantic.
        setting_names: Names of settings, from which one is suggested for an unknown
            name.
    """
    problem = error.errors(include_url=False)[0]
    received = problem["input"]
    problem_type = problem["type"]
    # pydantic also names the members of a union, such as constrained-int or
    # function-after[...].
    keys = [
        key
        for key in problem["loc"]
        if isinstance(key, int) or not set(key) & {"-", "["}
    ]
    place = "".join(
        f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys
    ).removeprefix(".")
    if problem_type == "extra_forbidden":
        return f"there is no setting {place}{did_you_mean(place, setting_names)}"
    if problem_type == "missing":
        return f"{place} is missing"
    rule = re.sub(
        r"^\w+ should ", "must ", problem["msg"].removeprefix("Value error, ")
    )
    if not place or rule.startswith((f"unknown {place}", f"{place} ")):
        return rule
    shown = (
        f", got {received!r}" if isinstance(received, str | int | float | None) else ""
    )
    if len(shown) > LONGEST_SHOWN or ", got " in rule:
        shown = ""
    return f"{place}{' ' if rule.startswith('must ') else ': '}{rule}{shown}"


def check_batch_size(settings: Mapping[str, Any], n_images: int) -> None:
    """Check a batch size, if one was given.

    Raises:
        SettingsError: If it is larger than the number of training images.
    """
    size = settings.get("batch_size")
    if size is not None and size > n_images:
        raise SettingsError(
            f"batch_size must be at most {n_images}, the number of training images, got"
            f" {size}"
        )


def words(value: Any) -> Any:
    """Split a text at commas into a list of words; return anything else unchanged."""
    return (
        [word.strip() for word in value.split(",") if word.strip()]
        if isinstance(value, str)
        else value
    )


def pairs(setting: Any, form: str = "NAME=VALUE") -> Any:
    """Parse a text such as `a=1:2,b=3:4` into a dictionary.

    Anything else than a text is returned unchanged.

    Args:
        setting: The text.
        form: Of each part. If it has colons, values become lists.

    Raises:
        SettingsError: For a part of another form, and a repeated name.
    """
    if not isinstance(setting, str):
        return setting
    values: dict[str, Any] = {}
    for pair in words(setting):
        name, is_pair, value = (piece.strip() for piece in pair.partition("="))
        if (
            not (name and is_pair and value)
            or pair.count(":") != form.count(":")
            or name in values
        ):
            raise SettingsError(
                f"must be {form}, separated by commas, each name once, got {pair}"
            )
        values[name] = value.split(":") if ":" in form else value
    return values


def whole_number(name: str, value: Any) -> int:
    """A Python, NumPy or torch integer as int.

    Raises:
        SettingsError: For anything else, also for True and 2.0.
    """
    try:
        if "bool" not in str(getattr(value, "dtype", type(value))):
            return operator.index(value)
    except TypeError:
        pass
    raise SettingsError(f"{name} must be a whole number, got {value!r}")


def number(name: str, value: Any) -> float:
    """A finite Python or NumPy number, as int if whole.

    Raises:
        SettingsError: For others.
    """
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not (is_number and math.isfinite(value)):
        raise SettingsError(f"{name} must be a finite number, got {value!r}")
    result = float(value)
    return int(result) if result.is_integer() else result


COLOR_RULE = "must be numbers in [0, 1], one for all channels or one for each"


def is_color(channels: Sequence[float]) -> bool:
    """Whether COLOR_RULE holds."""
    return len(channels) >= 1 and all(0 <= channel <= 1 for channel in channels)


def color(value: Any) -> tuple[float, ...]:
    """A colour from one number for all channels or one for each.

    Args:
        value: Numbers, or text with commas.

    Raises:
        SettingsError: For anything else.
    """
    try:
        channels = tuple(
            float(channel)
            for channel in (value.split(",") if isinstance(value, str) else value)
        )
    except (TypeError, ValueError):
        channels = ()
    if not is_color(channels):
        raise SettingsError(f"{COLOR_RULE}, separated by commas")
    return channels


class Settings(pydantic.BaseModel):
    """Immutable values that are checked when they are made.

    The docstring of a field is also its help text.
    """

    model_config = pydantic.ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True
    )

    def __init__(self, **settings: Any) -> None:
        """Check the settings; SettingsError says in one line what is wrong."""
        try:
            super().__init__(**settings)
        except pydantic.ValidationError as error:
            raise SettingsError(first_problem(error, type(self).model_fields)) from None

    @classmethod
    def make(cls, settings: Mapping[str, Any]) -> Self:
        return cls(**settings)

    @classmethod
    def __pydantic_init_subclass__(cls, **arguments: Any) -> None:
        """A field that is declared again, with another default, keeps its help text and
        the words of its default.
        """
        for name, field in cls.model_fields.items():
            for base in cls.__bases__:
                if (
                    field.description is None
                    and issubclass(base, Settings)
                    and name in base.model_fields
                ):
                    before = base.model_fields[name]
                    field.description = before.description
                    field.metadata += [
                        mark
                        for mark in before.metadata
                        if isinstance(mark, DefaultText)
                    ]


@dataclass(frozen=True)
class DefaultText:
    """In the annotation of a setting whose default is None: the text that the help
    shows as its default.
    """

    words: str
