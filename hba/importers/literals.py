"""Values that other programs wrote as JSON or as Python, read without running anything."""

import ast
import contextlib
import itertools
import json
import re
import reprlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hba.errors import ScheduleError
from hba.schedule.file import text_of

MOST_BYTES = 5_000_000
"""A hundred times a long policy."""

_OPENING = re.compile(r"[\[(](?=\s*[\[(])")
"""Of a list of lists."""
_MOST_OPENINGS = 3
"""That are tried in a line: what begins no list is soon refused, but a long line has many."""

_NOT_A_LITERAL = (ValueError, SyntaxError, TypeError, MemoryError, RecursionError)


def limited_text(path: Path, kind: str) -> str:
    """The text of a file that should hold a policy of a kind; ScheduleError where it cannot be read or is too long."""
    if path.is_file() and (size := path.stat().st_size) > MOST_BYTES:
        raise ScheduleError(
            f"{path} has {size:,} bytes, too many for a {kind}; keep the part with the policy, at most {MOST_BYTES:,}"
        )
    return text_of(path, kind)


def literal(text: str) -> Any:
    """The value of JSON or of Python's literals; ScheduleError for anything else."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(text)
    except _NOT_A_LITERAL:
        raise ScheduleError(f"must be a list in JSON or Python, got {reprlib.repr(text)}") from None


def lists_in(text: str, is_wanted: Callable[[Any], bool]) -> dict[str, Any]:
    """The wanted lists in a text, by name; one that stands alone, or in a line of a log, is called by an empty text.

    A text is a list; or Python, where a list is what a name is set to, or what a function without decorator returns;
    or a log, of whose lines the last that ends with a wanted list is taken.
    """
    return {name: value for name, value in _all_lists(text.strip(), is_wanted) if is_wanted(value)}


def _all_lists(text: str, is_wanted: Callable[[Any], bool]) -> Iterator[tuple[str, Any]]:
    try:
        yield "", literal(text)
        return
    except ScheduleError:
        pass
    try:
        body = ast.parse(text).body
    except _NOT_A_LITERAL:
        yield from (("", value) for value in itertools.islice(filter(is_wanted, _ends_of_lines(text)), 1))
    else:
        yield from _named(body)


def _named(body: list[ast.stmt]) -> Iterator[tuple[str, Any]]:
    """Of a module."""
    for node in body:
        if isinstance(node, ast.FunctionDef) and not node.decorator_list:
            yield from _returned(node)
        else:
            yield from _assigned(node)


def _assigned(node: ast.stmt) -> Iterator[tuple[str, Any]]:
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.List | ast.Tuple):
        try:
            value = ast.literal_eval(node.value)
        except _NOT_A_LITERAL:
            return
        for target in node.targets:
            if isinstance(target, ast.Name):
                yield target.id, value


def _returned(function: ast.FunctionDef) -> Iterator[tuple[str, Any]]:
    """Of a function that ends with a list, or with the name of one that it sets."""
    *before, last = function.body
    if isinstance(last, ast.Return) and last.value is not None:
        own = dict(found for node in before for found in _assigned(node))
        if isinstance(last.value, ast.Name) and last.value.id in own:
            yield function.name, own[last.value.id]
        for _, value in _assigned(ast.Assign([ast.Name("_")], last.value)):
            yield function.name, value


def _ends_of_lines(text: str) -> Iterator[Any]:
    """Lists with which lines end, after whatever a log writes before them; the last line first."""
    for line in reversed(text.splitlines()):
        # A log's own brackets come first, as in "[2019-05-01] [INFO] [[...]]".
        for found in itertools.islice(_OPENING.finditer(line), _MOST_OPENINGS):
            with contextlib.suppress(ScheduleError):
                yield literal(line[found.start() :].strip())
                break
