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

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Annotated, Any

import pydantic
from pydantic import Field

from hba.errors import ScheduleError
from hba.importers.files import lists_in, validated
from hba.importers.fit import Choice, SubPolicy
from hba.policy.spaces import PBA_SIDE_PIXELS
from hba.utils.text import first_of, unknown

MOST_NAMES = 8
"""In an error."""

_Unit = Annotated[float, Field(ge=0, le=1, strict=True)]
_SUB_POLICY = pydantic.TypeAdapter(list[tuple[str, _Unit, _Unit]])

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
    """The sub-policies of a text; ScheduleError, which names the sub-policy, for anything else.

    name: which list, if there are several.
    """
    return tuple(_sub_policy(entry, number) for number, entry in enumerate(_entries(_chosen(text, name)), start=1))


def _chosen(text: str, name: str | None) -> Any:
    """The list of that name, or the only one; several names of one list count once."""
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


def _entries(value: Any) -> Iterator[Any]:
    """The sub-policies in lists of lists."""
    if isinstance(value, list | tuple) and value:
        if all(isinstance(one, list | tuple) and one and isinstance(one[0], str) for one in value):
            yield value
        else:
            for one in value:
                yield from _entries(one)


def _sub_policy(entries: Any, number: int) -> SubPolicy:
    try:
        return SubPolicy(tuple((_choice(*entry),) for entry in validated(_SUB_POLICY, entries)))
    except ScheduleError as error:
        raise ScheduleError(f"sub-policy {number}: {error}") from None


def _choice(name: str, probability: float, level: float) -> Choice:
    if name not in LEVELS:
        raise ScheduleError(unknown("operation", name, LEVELS))
    operation, magnitude = LEVELS[name]
    return Choice(operation, probability, None if magnitude is None else magnitude(level))
