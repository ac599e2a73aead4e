"""Turning a failed check of a file or of settings into one line."""

import pydantic

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
