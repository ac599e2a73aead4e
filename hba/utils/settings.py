"""Checks of settings and files, and one line that says what failed."""

import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Self

import pydantic

from hba.errors import SettingsError
from hba.utils.text import did_you_mean

LONGEST_SHOWN = 80

RULES: Mapping[str, str] = MappingProxyType(
    {
        "greater_than_equal": "must be at least {ge}",
        "greater_than": "must be above {gt}",
        "less_than_equal": "must be at most {le}",
        "less_than": "must be below {lt}",
        "literal_error": "must be {expected}",
        "int_type": "must be a whole number",
        "int_parsing": "must be a whole number",
        "int_from_float": "must be a whole number",
        "float_type": "must be a number",
        "float_parsing": "must be a number",
        "finite_number": "must be a finite number",
        "bool_type": "must be true or false",
        "bool_parsing": "must be true or false",
        "string_type": "must be a text",
        "list_type": "must be a list",
        "tuple_type": "must be a list",
        "dict_type": "must be a mapping",
        "too_short": "must have more entries (at least {min_length})",
        "too_long": "must have fewer entries (at most {max_length})",
        "missing": "is missing",
        "extra_forbidden": "is not known here",
    }
)
"""What must hold, by pydantic's name of what does not."""


def first_problem(error: pydantic.ValidationError, known: Iterable[str] = ()) -> str:
    """Where and what the first problem is, with the value received, in one line.

    known: the settings that there are, of which a misspelt one was probably meant.
    """
    problem, *others = error.errors(include_url=False)
    place, received = _place(problem["loc"]), problem["input"]
    if problem["type"] == "extra_forbidden" and known:
        return f"there is no setting {place}{did_you_mean(place, known)}"
    if problem["type"] in RULES:
        rule = RULES[problem["type"]].format(**problem.get("ctx", {}))
        # What else the setting may be.
        words = [one["ctx"]["expected"] for one in others if _is_word_for(one, place)]
        rule = " or ".join([rule, *words])
    else:
        rule = problem["msg"].removeprefix("Value error, ")
    is_short = isinstance(received, str | int | float | bool | None) and len(repr(received)) <= LONGEST_SHOWN
    is_told = not is_short or problem["type"] == "missing" or repr(received) in rule.partition(", got ")[2]
    if rule.startswith(("must ", "is ")):
        message = f"{place} {rule}".lstrip() + ("" if is_told else f", got {received!r}")
    elif not place or rule.startswith((f"unknown {place}", f"{place} ")):
        message = rule
    else:
        message = f"{place}{'' if is_told or repr(received) in rule else f' {received!r}'}: {rule}"
    if problem["type"] == "literal_error" and isinstance(received, str):
        message += did_you_mean(received, re.findall("'([^']*)'", problem["ctx"]["expected"]))
    return message


def _place(location: Sequence[int | str]) -> str:
    """`space.operations[0].name`."""
    place = ""
    for part in location:
        if isinstance(part, str) and set(part) & {"-", "["}:
            # pydantic's name of one of the kinds that the setting may be, such as constrained-int.
            continue
        place += f"[{part}]" if isinstance(part, int) else f".{part}" if place else part
    return place


def _is_word_for(problem: Any, place: str) -> bool:
    return problem["type"] == "literal_error" and _place(problem["loc"]) == place


def check_batch_size(given: Mapping[str, Any], n_images: int) -> None:
    """SettingsError for a batch size that was asked for and that the training images do not fill."""
    size = given.get("batch_size")
    if size is not None and size > n_images:
        raise SettingsError(f"batch_size must be at most {n_images}, the number of training images, got {size}")


TEXT_RULE = "must be text that UTF-8 can hold, without null characters"


def is_text(given: str) -> bool:
    """Whether TEXT_RULE holds. Lone surrogates that stand for bytes of a file's name are text."""
    try:
        return b"\0" not in given.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False


def words(given: Any) -> Any:
    """Words separated by commas, as on the command line, as a list; anything else stays."""
    return [word.strip() for word in given.split(",") if word.strip()] if isinstance(given, str) else given


def whole_number(name: str, given: Any) -> int:
    """A Python, NumPy or torch integer as int; SettingsError for anything else, also for True and 2.0."""
    is_truth = isinstance(given, bool) or "bool" in str(getattr(given, "dtype", ""))
    try:
        if not is_truth:
            return operator.index(given)
    except TypeError:
        pass
    raise SettingsError(f"{name} must be a whole number, got {given!r}")


COLOR_RULE = "must be numbers in [0, 1], one for all channels or one for each"


def is_color(channels: Sequence[float]) -> bool:
    """Whether COLOR_RULE holds."""
    return len(channels) >= 1 and all(0 <= channel <= 1 for channel in channels)


def color(given: Any) -> tuple[float, ...]:
    """A colour, a number for all channels or for each, also as text separated by commas; SettingsError otherwise."""
    try:
        # An empty place is a number that was forgotten.
        channels = tuple(float(channel) for channel in (given.split(",") if isinstance(given, str) else given))
    except (TypeError, ValueError):
        channels = ()
    if not is_color(channels):
        raise SettingsError(f"{COLOR_RULE}, separated by commas")
    return channels


class Settings(pydantic.BaseModel):
    """Values that are checked when they are made, and never change. The text under a field is also its help."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    def __init__(self, **settings: Any) -> None:
        """Check the settings; SettingsError says in one line what is wrong."""
        try:
            super().__init__(**settings)
        except pydantic.ValidationError as error:
            raise SettingsError(first_problem(error, type(self).model_fields)) from None

    @pydantic.field_validator("*", mode="before")
    @classmethod
    def _text(cls, given: Any) -> Any:
        """Before a setting is looked for on the disk, where other text is refused in words of the system."""
        if isinstance(given, str) and not is_text(given):
            raise SettingsError(f"{TEXT_RULE}, got {given!r}")
        return given

    @classmethod
    def make(cls, settings: Mapping[str, Any]) -> Self:
        """From settings by name."""
        return cls(**settings)

    @classmethod
    def __pydantic_init_subclass__(cls, **arguments: Any) -> None:
        """A field that only gets another default keeps its text."""
        for name, field in cls.model_fields.items():
            for base in cls.__bases__:
                if field.description is None and issubclass(base, Settings) and name in base.model_fields:
                    field.description = base.model_fields[name].description


@dataclass(frozen=True)
class DefaultText:
    """In the annotation of a setting: `stream: Annotated[bool | None, DefaultText("by size")] = None`.

    Words for the help of the command line, which shows them as `[default: by size]`. A setting in them is written with
    its name in Python.
    """

    words: str
