"""Checks of settings and files, and putting what failed, or what there is, into one line."""

import operator
from collections.abc import Sequence
from typing import Any

import pydantic

from hba.errors import SettingsError

LONGEST_SHOWN = 80


def first_problem(error: pydantic.ValidationError) -> str:
    """Where and what the first problem is, with the value received, in one line."""
    problem = error.errors(include_url=False)[0]
    place = ""
    for part in problem["loc"]:
        place += f"[{part}]" if isinstance(part, int) else f".{part}" if place else str(part)
    message = problem["msg"].removeprefix("Value error, ")
    received = problem["input"]
    is_short = isinstance(received, str | int | float | bool | None) and len(repr(received)) <= LONGEST_SHOWN
    shown = f", got {received!r}" if is_short else ""
    return f"{place}: {message}{shown}" if place else f"{message}{shown}"


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


def first_of(things: Sequence[str], most: int = 3) -> str:
    """The first of them, and how many more there are."""
    shown = ", ".join(things[:most])
    return f"{shown} and {len(things) - most} more" if len(things) > most else shown


def checked_color(color: tuple[float, ...]) -> tuple[float, ...]:
    """The colour, if it is one; SettingsError otherwise."""
    if len(color) not in (1, 3) or not all(0 <= channel <= 1 for channel in color):
        raise SettingsError("must be 1 or 3 numbers in [0, 1], separated by commas")
    return color
