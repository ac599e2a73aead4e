"""Policies of Fast AutoAugment (Lim et al. 2019) and DADA (Li et al. 2020): lists of
sub-policies in text files.

A sub-policy is a list of (operation, probability, level), applied in this order. Each
image gets one, all equally likely. A level L is in [0, 1]. For operations that move
pixels, it ranges from one side to the other, and the side is drawn again for each
image: |2 L - 1| is the distance. Higher levels solarize and posterize less. Pixels are
those of images with a side of 32.

Ref: github.com/kakaobrain/fast-autoaugment, FastAutoAugment/archive.py and
augmentations.py (augment_list, apply_augment), which DADA uses too;
github.com/VDIGPKU/DADA, fast-autoaugment/FastAutoAugment/genotype.py and data.py
(Augmentation), search_relax/train_search_paper.py (print_genotype).
"""

import ast
import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any

import pydantic

from hba.errors import ScheduleError
from hba.operations.table import PBA_SIDE_PIXELS
from hba.schedule.file import MALFORMED
from hba.schedule.fit import Choice, SubPolicy
from hba.utils.text import first_of, unknown

Share = Annotated[float, pydantic.Field(ge=0, le=1)]
_POLICY = pydantic.TypeAdapter(list[list[tuple[str, Share, Share]]])

LEVELS: Mapping[str, tuple[str, Callable[[float], float] | None]] = {
    **{
        name: (name, lambda level: 0.3 * abs(2 * level - 1))
        for name in ("ShearX", "ShearY")
    },
    **{
        name: (name, lambda level: 0.45 * abs(2 * level - 1))
        for name in ("TranslateX", "TranslateY")
    },
    "Rotate": ("Rotate", lambda level: 30 * abs(2 * level - 1)),
    **{name: (name, None) for name in ("AutoContrast", "Invert", "Equalize")},
    "Solarize": ("Solarize", lambda level: 256 * level),
    "Posterize": ("Posterize", lambda level: float(int(4 + 4 * level))),
    **{
        name: (name, lambda level: 0.1 + 1.8 * level)
        for name in ("Contrast", "Color", "Brightness", "Sharpness")
    },
    "Cutout": ("Cutout", lambda level: 0.2 * level),
    "CutoutAbs": ("Cutout", lambda level: 20 / PBA_SIDE_PIXELS * level),
    # hba keeps one bit at least.
    "Posterize2": ("Posterize", lambda level: float(max(1, int(4 * level)))),
    "TranslateXAbs": ("TranslateX", lambda level: 10 / PBA_SIDE_PIXELS * level),
    "TranslateYAbs": ("TranslateY", lambda level: 10 / PBA_SIDE_PIXELS * level),
}
"""For each name in a list, hba's operation and the function from level to magnitude;
None without magnitude.
"""


def policy_of_list(text: str, name: str | None = None) -> tuple[SubPolicy, ...]:
    """The sub-policies of a text.

    Args:
        text: The text.
        name: Name of the list, if there are several.

    Raises:
        ScheduleError: For anything else, or one of MALFORMED.
    """
    lists = lists_in(text)
    if not lists:
        rule = (
            "a list of sub-policies, each a list of (operation, probability, level), as"
            " JSON or Python"
        )
        raise ScheduleError(f"it must hold {rule}; from a log, give only the list")
    if name is None and len(lists) > 1:
        raise ScheduleError(
            f"it holds {len(lists)} lists ({first_of(list(lists), 8)}); choose one with"
            " --name"
        )
    if name is not None and name not in lists:
        raise ScheduleError(unknown("list", name, lists))
    policy = _POLICY.validate_python(lists[next(iter(lists)) if name is None else name])
    return tuple(
        SubPolicy(tuple((_choice(*entry),) for entry in sub_policy))
        for sub_policy in policy
    )


def lists_in(text: str) -> dict[str, Any]:
    """Lists of lists in JSON or Python, by the name of their variable or function, or
    "". No code is run.
    """
    lists = {}
    with contextlib.suppress(*MALFORMED):
        for name, node in _named(ast.parse(text.strip()).body):
            with contextlib.suppress(*MALFORMED):
                value = ast.literal_eval(node)
                if (
                    isinstance(value, list | tuple)
                    and value
                    and isinstance(value[0], list | tuple)
                ):
                    lists[name] = value
    return lists


def _named(body: Sequence[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    """Expressions by the name that they are assigned to, or of the function that
    returns them in its last line.
    """
    for node in body:
        match node:
            case ast.Expr(value=value):
                yield "", value
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value
            case ast.FunctionDef(
                name=name, body=[*before, ast.Return(value=ast.expr() as value)]
            ):
                yield (
                    name,
                    (
                        dict(_named(before)).get(value.id, value)
                        if isinstance(value, ast.Name)
                        else value
                    ),
                )


def _choice(name: str, probability: float, level: float) -> Choice:
    if name not in LEVELS:
        raise ScheduleError(unknown("operation", name, LEVELS))
    operation, magnitude = LEVELS[name]
    return Choice(
        operation, probability, None if magnitude is None else magnitude(level)
    )
