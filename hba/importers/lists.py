"""Policies of Fast AutoAugment (Lim et al. 2019) and DADA (Li et al. 2020): lists of sub-policies in text files.

A sub-policy is a list of (operation, probability, level), applied in this order, each with its probability. An image
gets one sub-policy, all equally likely. Lists of lists of sub-policies are one policy. DADA's search logs lists of its
best 5, 10, ... sub-policies after each epoch, last the one of 25 sub-policies that it trains with.

A level L is in [0, 1]. Of operations that move pixels, it reaches from one side to the other, and the side is drawn
anew for each image: so |2 L - 1| is the distance. A higher level inverts less in Solarize and keeps more in Posterize.
Sides in pixels are of images of 32 pixels.

Ref: github.com/kakaobrain/fast-autoaugment, FastAutoAugment/archive.py and augmentations.py (augment_list,
apply_augment), which DADA uses too; github.com/VDIGPKU/DADA, fast-autoaugment/FastAutoAugment/genotype.py and data.py
(Augmentation), search_relax/train_search_paper.py (print_genotype).
"""

import ast
import contextlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from hba.errors import ScheduleError
from hba.importers.fit import Choice, SubPolicy
from hba.policy.spaces import PBA_SIDE_PIXELS
from hba.schedule.file import MALFORMED
from hba.utils.text import first_of, unknown

MOST_NAMES = 8
"""In an error."""
_LIST_OF_LISTS = re.compile(r"[\[(]\s*[\[(].*")
"""In a line that ends with one, after a log's own brackets, as in "[2019-05-01] [INFO] [[...]]"."""

LEVELS: Mapping[str, tuple[str, Callable[[float], float] | None]] = MappingProxyType(
    {
        **{name: (name, lambda level: 0.3 * abs(2 * level - 1)) for name in ("ShearX", "ShearY")},
        **{name: (name, lambda level: 0.45 * abs(2 * level - 1)) for name in ("TranslateX", "TranslateY")},
        "Rotate": ("Rotate", lambda level: 30 * abs(2 * level - 1)),
        **{name: (name, None) for name in ("AutoContrast", "Invert", "Equalize")},
        "Solarize": ("Solarize", lambda level: 256 * level),
        "Posterize": ("Posterize", lambda level: float(int(4 + 4 * level))),
        **{name: (name, lambda level: 0.1 + 1.8 * level) for name in ("Contrast", "Color", "Brightness", "Sharpness")},
        "Cutout": ("Cutout", lambda level: 0.2 * level),
        "CutoutAbs": ("Cutout", lambda level: 20 / PBA_SIDE_PIXELS * level),
        # hba keeps one bit at least.
        "Posterize2": ("Posterize", lambda level: float(max(1, int(4 * level)))),
        "TranslateXAbs": ("TranslateX", lambda level: 10 / PBA_SIDE_PIXELS * level),
        "TranslateYAbs": ("TranslateY", lambda level: 10 / PBA_SIDE_PIXELS * level),
    }
)
"""By the name in a list, hba's operation and its magnitude by level; None for an operation without magnitude."""


def policy_of_list(text: str, name: str | None = None) -> tuple[SubPolicy, ...]:
    """The sub-policies of a text; ScheduleError for anything else. name: which list, if there are several."""
    lists = lists_in(text)
    if not lists:
        raise ScheduleError("it must hold a list of sub-policies, each a list of (operation, probability, level)")
    if name is None and len(lists) > 1:
        names = first_of(list(lists), MOST_NAMES)
        raise ScheduleError(f"it holds {len(lists)} lists of sub-policies ({names}); choose one with --name")
    if name is not None and name not in lists:
        raise ScheduleError(unknown("list", name, lists))
    entries = lists[next(iter(lists)) if name is None else name]
    return tuple(SubPolicy(tuple((_choice(*entry),) for entry in sub_policy)) for sub_policy in entries)


def literal(text: str) -> Any:
    """The value of JSON or of a Python literal. Nothing is run; raises one of MALFORMED for anything else."""
    with contextlib.suppress(ValueError, RecursionError):
        return json.loads(text)
    return ast.literal_eval(text.strip())


def lists_in(text: str) -> dict[str, list[Any]]:
    """The lists of sub-policies in a text, by name; the name of a list that stands alone, or in a log, is empty.

    A text is a list; or a Python module, in which a list is assigned to a name or returned by a function without
    decorator; or a log, of which the last line that ends with such a list counts. Nothing is run.
    """
    try:
        nodes: list[tuple[str, ast.expr | str]] = [*_named(ast.parse(text.strip()).body)]
    except MALFORMED:
        lines = [line for line in text.splitlines() if line.rstrip().endswith(("]", ")"))]
        nodes = [("", found[0]) for line in lines if (found := _LIST_OF_LISTS.search(line))]
    lists = {}
    for name, node in nodes:
        with contextlib.suppress(*MALFORMED):
            if policy := list(_sub_policies(ast.literal_eval(node))):
                lists[name] = policy
    return lists


def _named(body: Sequence[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    """Expressions by the name that they are assigned to, or of the function that returns them in its last line."""
    for node in body:
        if isinstance(node, ast.Expr):
            yield "", node.value
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, node.value
        elif isinstance(node, ast.FunctionDef) and not node.decorator_list:
            *before, last = node.body
            value = last.value if isinstance(last, ast.Return) else None
            if isinstance(value, ast.Name):
                value = dict(_named(before)).get(value.id)
            if value is not None:
                yield node.name, value


def _sub_policies(value: Any) -> Iterator[Any]:
    """The sub-policies in lists of lists."""
    if isinstance(value, list | tuple) and value:
        if all(isinstance(one, list | tuple) and one and isinstance(one[0], str) for one in value):
            yield value
        else:
            for one in value:
                yield from _sub_policies(one)


def _choice(name: str, probability: float, level: float) -> Choice:
    if name not in LEVELS:
        raise ScheduleError(unknown("operation", name, LEVELS))
    if not (0 <= probability <= 1 and 0 <= level <= 1):
        raise ScheduleError(f"probability and level of {name} must lie in [0, 1], got {probability} and {level}")
    operation, magnitude = LEVELS[name]
    return Choice(operation, probability, None if magnitude is None else magnitude(level))
