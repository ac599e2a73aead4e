"""Policies that AutoAlbument found, in the JSON of albumentations.

Of the file, the OneOf of Sequentials is the policy: an image gets one Sequential, by the weights p. Each OneOf in it
does one of its transforms, by their weights, of which NoOp is one.

    in the file                                           here
    RandomBrightnessContrast, contrast v                  Brightness by the factor 1 + v, which it does to levels
    RandomBrightnessContrast, brightness v                Brightness by the factor 1 + 2 v, the same on mid-grey
    Solarize                                              Solarize
    ShiftScaleRotate with one rotation or shift           Rotate, TranslateX, TranslateY, to both sides
    CoarseDropout of one hole                             Cutout of a sixteenth of the side, which is what it has there
    all others, and CoarseDropout of more holes           left out

Ref: github.com/albumentations-team/autoalbument, autoalbument/faster_autoaugment/policy.py (create_transform) and
operations.py (as_transform).
"""

import math
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hba.errors import ScheduleError
from hba.importers.literals import limited_text, literal
from hba.importers.sub_policies import Choice, Step, SubPolicy
from hba.operations import OPERATIONS
from hba.schedule.file import explained

KIND = "policy of AutoAlbument"
DOES_NOTHING = "NoOp"
HOLE = 1 / 16
"""Of the side."""
SAME_ON_MID_GREY = 2.0
"""Adding a share v of white changes a level of a half as a factor of 1 + 2 v does."""

Node = Mapping[str, Any]


def read_autoalbument(path: Path) -> tuple[SubPolicy, ...]:
    """The sub-policies of a file; ScheduleError, which names the file and the place, for anything else."""
    text = limited_text(path, KIND)
    with explained(path, KIND):
        content = literal(text)
        if not isinstance(content, dict) or not isinstance(content.get("transform"), dict):
            raise ScheduleError('it must be a mapping with a pipeline as "transform", as albumentations writes it')
        return sub_policies(content["transform"])


def sub_policies(pipeline: Node) -> tuple[SubPolicy, ...]:
    """Of the pipeline that a file holds."""
    found = [node for node in _children(pipeline, "transform") if _is_policy(node)]
    if _kind(pipeline) != "Compose" or len(found) != 1:
        raise ScheduleError(
            f"it must be a Compose with one OneOf of Sequentials, which is the policy, got {len(found)}"
        )
    sequentials = _children(found[0], "the OneOf of Sequentials")
    if not any(_weight(one, "the OneOf of Sequentials") for one in sequentials):
        raise ScheduleError("the OneOf of Sequentials must have one with p above 0")
    return tuple(
        SubPolicy(
            tuple(
                _step(node, f"sub-policy {number}, step {position}")
                for position, node in enumerate(_children(sequential, f"sub-policy {number}"), start=1)
            ),
            _weight(sequential, f"sub-policy {number}"),
        )
        for number, sequential in enumerate(sequentials, start=1)
    )


def _is_policy(node: Node) -> bool:
    children = node.get("transforms") if _kind(node) == "OneOf" else None
    return (
        isinstance(children, list)
        and bool(children)
        and all(isinstance(one, dict) and _kind(one) == "Sequential" for one in children)
    )


def _step(node: Node, place: str) -> Step:
    if _kind(node) != "OneOf":
        raise ScheduleError(f"{place} must be a OneOf, got {reprlib.repr(_kind(node))}")
    leaves = _children(node, place)
    weights = [_weight(leaf, place) for leaf in leaves]
    total = math.fsum(weights)
    if not total > 0:
        raise ScheduleError(f"{place} must have a transform with p above 0")
    return tuple(
        choice for leaf, weight in zip(leaves, weights, strict=True) for choice in _choices(leaf, weight / total, place)
    )


def _choices(leaf: Node, chance: float, place: str) -> Iterator[Choice]:
    """What a transform does, by hba's name, or by its own where hba has no such operation; nothing for nothing."""
    kind = _kind(leaf)
    try:
        if kind == "RandomBrightnessContrast":
            found = _brightness(_value(leaf, "brightness_limit"), _value(leaf, "contrast_limit"))
        elif kind == "ShiftScaleRotate":
            found = _geometric({name: _value(leaf, name) for name in _GEOMETRIC})
        elif kind == "Solarize":
            found = ("Solarize", _level(_value(leaf, "threshold")))
        elif kind == "CoarseDropout" and leaf.get("max_holes") == 1:
            found = ("Cutout", HOLE)
        else:
            found = (_named(kind), None)
    except ScheduleError as error:
        raise ScheduleError(f"{place}: {error}") from None
    if found is not None and kind != DOES_NOTHING:
        yield Choice(found[0], chance, found[1])


Found = tuple[str, float | None] | None
"""An operation and its magnitude."""


def _named(kind: str) -> str:
    """Of a transform that is left out, also where an operation of hba is called so."""
    if not kind.isidentifier():
        raise ScheduleError(f"__class_fullname__ must name a transform, got {reprlib.repr(kind)}")
    return f"albumentations.{kind}" if kind in OPERATIONS else kind


def _brightness(added: float, contrast: float) -> Found:
    if added and contrast:
        return "RandomBrightnessContrast", None
    if not added and not contrast:
        return None
    return "Brightness", max(0.0, 1 + contrast + SAME_ON_MID_GREY * added)


_GEOMETRIC: Mapping[str, str] = {
    "shift_limit_x": "TranslateX",
    "shift_limit_y": "TranslateY",
    "rotate_limit": "Rotate",
    "scale_limit": "Scale",
}


def _geometric(values: Mapping[str, float]) -> Found:
    """Signs are hba's to draw."""
    moved = [(name, abs(value)) for name, value in values.items() if value]
    if not moved:
        return None
    if len(moved) > 1:
        return "ShiftScaleRotate", None
    name = _GEOMETRIC[moved[0][0]]
    return (name, None) if name == "Scale" else (name, moved[0][1])


def _level(threshold: float) -> float:
    """A grey level in [0, 255]; float images have thresholds in [0, 1], which JSON writes with a point."""
    level = threshold * 255 if isinstance(threshold, float) and threshold <= 1 else threshold
    if not 0 <= level <= 256:
        raise ScheduleError(f"threshold must lie in [0, 256], got {threshold:g}")
    return float(level)


def _value(leaf: Node, name: str) -> float:
    """The only value of a range."""
    given: Any = leaf.get(name)
    values = given if isinstance(given, list) else [given]
    if not values or any(type(one) not in (int, float) or not math.isfinite(one) for one in values):
        raise ScheduleError(f"{name} of {_kind(leaf)} must be numbers, got {reprlib.repr(given)}")
    if min(values) != max(values):
        raise ScheduleError(f"{name} of {_kind(leaf)} must have one value, as AutoAlbument writes it, got {given}")
    value: float = values[0]
    return value


def _weight(node: Node, place: str) -> float:
    p: Any = node.get("p")
    if type(p) not in (int, float) or not 0 <= p <= 1:
        raise ScheduleError(f"{place}: p of {_kind(node)} must be a number in [0, 1], got {reprlib.repr(p)}")
    return float(p)


def _kind(node: Node) -> str:
    """Without the module, which older versions wrote before it."""
    name = node.get("__class_fullname__")
    return name.rpartition(".")[2] if isinstance(name, str) else ""


def _children(node: Node, place: str) -> Sequence[Node]:
    children = node.get("transforms")
    if not isinstance(children, list) or not children or not all(isinstance(one, dict) for one in children):
        raise ScheduleError(f"{place} must have transforms, got {reprlib.repr(children)}")
    return children
