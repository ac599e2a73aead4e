"""Policies of Fast AutoAugment (Lim et al. 2019) and DADA (Li et al. 2020): lists of sub-policies in text files.

A sub-policy is a list of (operation, probability, level), done in this order, each with its probability. An image gets
one sub-policy, each as likely. Lists of lists of sub-policies are taken as one. DADA's search logs lists of its best 5,
10, ... sub-policies after each epoch, that of the 25 with which it trains last.

Ref: github.com/kakaobrain/fast-autoaugment, FastAutoAugment/archive.py; github.com/VDIGPKU/DADA,
fast-autoaugment/FastAutoAugment/genotype.py and data.py (Augmentation), search_relax/train_search_paper.py
(print_genotype).
"""

import reprlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hba.errors import ScheduleError
from hba.importers.levels import LEVELS
from hba.importers.literals import limited_text, lists_in
from hba.importers.sub_policies import Choice, SubPolicy
from hba.schedule.file import explained
from hba.utils.text import first_of, unknown

MOST_SUB_POLICIES = 10_000
MOST_OPERATIONS = 10
"""Of a sub-policy."""
MOST_LEVELS = 8
"""Of lists in lists."""
MOST_NAMES = 8
"""That an error shows."""


def read_list(path: Path, kind: str, name: str | None = None) -> tuple[SubPolicy, ...]:
    """The sub-policies of a file. kind: what it is called in errors. name: which list, where there are several.

    Raises ScheduleError, which names the file and the sub-policy, for anything else.
    """
    text = limited_text(path, kind)
    with explained(path, kind):
        entries = _entries(chosen(text, name))
        return tuple(_sub_policy(entry, number) for number, entry in enumerate(entries, start=1))


def chosen(text: str, name: str | None) -> Any:
    """The list of that name, or the only one; names for the same list count once."""
    lists = lists_in(text, lambda value: any(True for _ in _entries(value)))
    if not lists:
        raise ScheduleError("it must hold a list of sub-policies, each a list of (operation, probability, level)")
    if name is not None:
        if name not in lists:
            raise ScheduleError(unknown("list", name, [key for key in lists if key]))
        return lists[name]
    by_list: dict[int, str] = {}
    for key, value in lists.items():
        by_list.setdefault(id(value), key)
    if len(by_list) > 1:
        names = first_of(list(by_list.values()), MOST_NAMES)
        raise ScheduleError(f"it holds {len(by_list)} lists of sub-policies ({names}); choose one with --name")
    return next(iter(lists.values()))


def _entries(value: Any, level: int = 1) -> Iterator[Any]:
    """The sub-policies in lists of lists."""
    if not isinstance(value, list | tuple) or level > MOST_LEVELS:
        return
    if value and all(_is_entry(one) for one in value):
        yield value
        return
    for one in value:
        yield from _entries(one, level + 1)


def _is_entry(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and isinstance(value[0], str)


def _sub_policy(entries: Any, number: int) -> SubPolicy:
    """number: counted from 1."""
    if number > MOST_SUB_POLICIES:
        raise ScheduleError(f"it must have at most {MOST_SUB_POLICIES:,} sub-policies")
    if len(entries) > MOST_OPERATIONS:
        raise ScheduleError(f"sub-policy {number} must have at most {MOST_OPERATIONS} operations, got {len(entries)}")
    try:
        return SubPolicy(tuple((_choice(entry),) for entry in entries))
    except ScheduleError as error:
        raise ScheduleError(f"sub-policy {number}: {error}") from None


def _choice(entry: Any) -> Choice:
    if len(entry) != 3:
        raise ScheduleError(f"must be lists of (operation, probability, level), got {reprlib.repr(entry)}")
    name, probability, level = entry[0], _in_unit("probability", entry[1]), _in_unit("level", entry[2])
    if name not in LEVELS:
        raise ScheduleError(unknown("operation", name, LEVELS))
    meaning = LEVELS[name]
    return Choice(meaning.operation, probability, None if meaning.magnitude is None else meaning.magnitude(level))


def _in_unit(what: str, number: Any) -> float:
    if type(number) not in (int, float) or not 0 <= number <= 1:
        raise ScheduleError(f"a {what} must be a number in [0, 1], got {reprlib.repr(number)}")
    return float(number)
