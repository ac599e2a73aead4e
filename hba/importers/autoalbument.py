"""Policies that AutoAlbument found, in the JSON of albumentations.

The OneOf of Sequentials in the file is the policy: an image gets one Sequential, by the weights p. Each OneOf in it
applies one of its transforms, by their weights, of which NoOp is one.

_ARGUMENTS has what becomes an operation by one argument. A Solarize stays one; CoarseDropout of one hole is Cutout of a
sixteenth of the side, which it has there. All others, and CoarseDropout of more holes, are left out.

Ref: github.com/albumentations-team/autoalbument, autoalbument/faster_autoaugment/policy.py (create_transform) and
operations.py (as_transform).
"""

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from hba.errors import ScheduleError
from hba.operations import OPERATIONS
from hba.schedule.fit import Choice, SubPolicy
from hba.utils.files import reason_of

_ARGUMENTS: Mapping[str, Mapping[str, tuple[str, Callable[[float], float]]]] = {
    "RandomBrightnessContrast": {
        # Adding a share v of white changes a level of a half as a factor of 1 + 2 v does.
        "brightness_limit": ("Brightness", lambda v: max(0.0, 1 + 2 * v)),
        "contrast_limit": ("Brightness", lambda v: max(0.0, 1 + v)),
    },
    # Without signs, which hba draws.
    "ShiftScaleRotate": {
        "shift_limit_x": ("TranslateX", abs),
        "shift_limit_y": ("TranslateY", abs),
        "rotate_limit": ("Rotate", abs),
        "scale_limit": ("Scale", abs),
    },
}
"""Of transforms that hba has if only one argument is not 0: hba's operation and its magnitude by that argument."""


def policy_of_autoalbument(text: str) -> tuple[SubPolicy, ...]:
    """The sub-policies of a file's text; one of MALFORMED for anything else."""
    try:
        parts = [node["transforms"] for node in json.loads(text)["transform"]["transforms"] if _kind(node) == "OneOf"]
        (found,) = (nodes for nodes in parts if {_kind(node) for node in nodes} == {"Sequential"})
        if not any(node["p"] > 0 for node in found):
            raise ValueError("no Sequential has p above 0")
        return tuple(SubPolicy(tuple(map(_step, node["transforms"])), node["p"]) for node in found)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        reason = reason_of(error)
        raise ScheduleError(f"it must be a Compose with one OneOf of Sequentials of OneOf: {reason}") from None


def _kind(node: Mapping[str, Any]) -> str:
    """The name of a transform or composition without its module, which older versions wrote before it."""
    return str(node["__class_fullname__"]).rpartition(".")[2]


def _value(leaf: Mapping[str, Any], name: str) -> float:
    """The only value of an argument, which is a number or a range of equal ends."""
    given = leaf[name]
    low, high = given if isinstance(given, list) else (given, given)
    if type(low) not in (int, float) or not math.isfinite(low) or low != high:
        raise ValueError(f"{name} of {_kind(leaf)} must have one value, got {given!r}")
    return low


def _step(node: Mapping[str, Any]) -> tuple[Choice, ...]:
    if _kind(node) != "OneOf":
        raise ValueError(f"a step of a Sequential is a {_kind(node)}")
    total = math.fsum(leaf["p"] for leaf in node["transforms"])
    found = ((_operation(leaf), leaf["p"] / total) for leaf in node["transforms"])
    return tuple(Choice(same[0], chance, same[1]) for same, chance in found if same is not None)


def _operation(leaf: Mapping[str, Any]) -> tuple[str, float | None] | None:
    """hba's operation for a transform and its magnitude; the transform's name if there is none; None for no change."""
    kind = _kind(leaf)
    if kind in _ARGUMENTS:
        changed = {name: value for name in _ARGUMENTS[kind] if (value := _value(leaf, name))}
        if len(changed) != 1:
            return (kind, None) if changed else None
        ((name, value),) = changed.items()
        operation, magnitude = _ARGUMENTS[kind][name]
        return operation, magnitude(value)
    if kind == "Solarize":
        threshold = _value(leaf, "threshold")
        # Float images have thresholds in [0, 1], which JSON writes with a point.
        return "Solarize", threshold * 255 if isinstance(threshold, float) and threshold <= 1 else float(threshold)
    if kind == "CoarseDropout" and leaf.get("max_holes") == 1:
        return "Cutout", 1 / 16
    # Left out, even if an operation of hba has the same name.
    return None if kind == "NoOp" else (f"albumentations.{kind}" if kind in OPERATIONS else kind, None)
