"""Reads what other programs wrote as JSON or as Python literals, without running anything."""

import ast
import contextlib
import itertools
import json
import re
import reprlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pydantic

from hba.errors import ScheduleError
from hba.schedule.file import text_of
from hba.utils.settings import first_problem

MOST_BYTES = 5_000_000
"""A hundred times a long policy."""
_OPENING = re.compile(r"[\[(](?=\s*[\[(])")
"""Of a list of lists."""
_MOST_OPENINGS = 3
"""Tried in a line, because each attempt reads the rest of the line."""
_NOT_A_LITERAL = (ValueError, SyntaxError, TypeError, MemoryError, RecursionError)

T = TypeVar("T")


def limited_text(path: Path, kind: str) -> str:
    """The text of a file with a policy of a kind; ScheduleError if it cannot be read or has more than MOST_BYTES."""
    if path.is_file() and (size := path.stat().st_size) > MOST_BYTES:
        raise ScheduleError(
            f"{path} has {size:,} bytes, too many for a {kind}; keep the part with the policy, at most {MOST_BYTES:,}"
        )
    return text_of(path, kind)


def literal(text: str) -> Any:
    """The value of JSON or of a Python literal; ScheduleError for anything else."""
    with contextlib.suppress(ValueError, RecursionError):
        return json.loads(text)
    try:
        return ast.literal_eval(text)
    except _NOT_A_LITERAL:
        raise ScheduleError(f"must be a list in JSON or Python, got {reprlib.repr(text)}") from None


def validated(adapter: pydantic.TypeAdapter[T], value: Any) -> T:
    """The value in the adapter's type; ScheduleError with the first place that does not fit."""
    try:
        return adapter.validate_python(value)
    except pydantic.ValidationError as error:
        raise ScheduleError(first_problem(error)) from None


def lists_in(text: str, is_wanted: Callable[[Any], bool]) -> dict[str, Any]:
    """The wanted lists in a text, by name; the name of a list that stands alone, or in a log, is empty.

    A text is a list; or a Python module, in which a list is assigned to a name or returned by a function without
    decorator; or a log, of which the last line that ends with a wanted list counts.
    """
    with contextlib.suppress(ScheduleError):
        value = literal(text.strip())
        return {"": value} if is_wanted(value) else {}
    try:
        body = ast.parse(text.strip()).body
    except _NOT_A_LITERAL:
        return dict(itertools.islice((("", value) for value in _ends_of_lines(text) if is_wanted(value)), 1))
    found = [
        one for node in body for one in (_returned(node) if isinstance(node, ast.FunctionDef) else _assigned(node))
    ]
    return {name: value for name, value in found if is_wanted(value)}


def _assigned(node: ast.stmt) -> Iterator[tuple[str, Any]]:
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.List | ast.Tuple):
        with contextlib.suppress(*_NOT_A_LITERAL):
            value = ast.literal_eval(node.value)
            yield from [(target.id, value) for target in node.targets if isinstance(target, ast.Name)]


def _returned(function: ast.FunctionDef) -> Iterator[tuple[str, Any]]:
    """The list that the last line returns, or the list assigned to the name that it returns."""
    *before, last = function.body
    if function.decorator_list or not isinstance(last, ast.Return) or last.value is None:
        return
    assigned = dict(one for node in before for one in _assigned(node))
    if isinstance(last.value, ast.Name) and last.value.id in assigned:
        yield function.name, assigned[last.value.id]
    for _, value in _assigned(ast.Assign([ast.Name("_")], last.value)):
        yield function.name, value


def _ends_of_lines(text: str) -> Iterator[Any]:
    """Lists at the ends of lines, after whatever a log writes before them; the last line first."""
    for line in reversed(text.strip().splitlines()):
        # A log's own brackets come first, as in "[2019-05-01] [INFO] [[...]]".
        for opening in itertools.islice(_OPENING.finditer(line), _MOST_OPENINGS):
            with contextlib.suppress(ScheduleError):
                yield literal(line[opening.start() :].strip())
                break
