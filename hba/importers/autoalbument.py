"""Policies that AutoAlbument found, in the JSON of albumentations.

The OneOf of Sequentials in the file is the policy: an image gets one Sequential, by the weights p. Each OneOf in it
applies one of its transforms, by their weights, of which NoOp is one.

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
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import pydantic
from pydantic import Field

from hba.errors import ScheduleError
from hba.importers.fit import Choice, SubPolicy
from hba.operations import OPERATIONS

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


class Transform(pydantic.BaseModel):
    """A transform or composition, as albumentations writes it; its arguments are extra fields."""

    model_config = pydantic.ConfigDict(extra="allow")

    class_name: Annotated[str, Field(alias="__class_fullname__", pattern=r"^[\w.]+$")]
    p: Annotated[float, Field(ge=0, le=1)] = 1.0
    transforms: tuple["Transform", ...] = ()

    @property
    def kind(self) -> str:
        """The name without the module, which older versions wrote before it."""
        return self.class_name.rpartition(".")[2]

    def value(self, name: str) -> float:
        """The only value of an argument, which is a number or a range of equal ends."""
        given: Any = (self.model_extra or {})[name]
        low, high = given if isinstance(given, list) else (given, given)
        if type(low) not in (int, float) or not math.isfinite(low) or low != high:
            raise ScheduleError(f"{name} of {self.kind} must have one value, got {given!r}")
        return low


class _File(pydantic.BaseModel):
    transform: Transform


def policy_of_autoalbument(text: str) -> tuple[SubPolicy, ...]:
    """The sub-policies of a file's text; one of MALFORMED for anything else."""
    found = [
        node.transforms
        for node in _File.model_validate_json(text).transform.transforms
        if node.kind == "OneOf" and {one.kind for one in node.transforms} == {"Sequential"}
    ]
    if len(found) != 1 or not any(one.p for one in found[0]):
        raise ScheduleError("it must be a Compose with one OneOf of Sequentials, of which one has p above 0")
    return tuple(SubPolicy(tuple(_step(node) for node in one.transforms), one.p) for one in found[0])


def _step(node: Transform) -> tuple[Choice, ...]:
    total = math.fsum(leaf.p for leaf in node.transforms)
    if node.kind != "OneOf" or not total > 0:
        raise ScheduleError(f"steps of a Sequential must be a OneOf with a transform with p above 0, got {node.kind}")
    found = ((_operation(leaf), leaf.p / total) for leaf in node.transforms)
    return tuple(Choice(same[0], chance, same[1]) for same, chance in found if same is not None)


def _operation(leaf: Transform) -> tuple[str, float | None] | None:
    """hba's operation for a transform and its magnitude; the transform's name if there is none; None for no change."""
    if leaf.kind in _ARGUMENTS:
        changed = {name: value for name in _ARGUMENTS[leaf.kind] if (value := leaf.value(name))}
        if len(changed) != 1:
            return (leaf.kind, None) if changed else None
        ((name, value),) = changed.items()
        operation, magnitude = _ARGUMENTS[leaf.kind][name]
        return operation, magnitude(value)
    if leaf.kind == "Solarize":
        threshold = leaf.value("threshold")
        # Float images have thresholds in [0, 1], which JSON writes with a point.
        level = threshold * 255 if isinstance(threshold, float) and threshold <= 1 else float(threshold)
        if not 0 <= level <= 256:
            raise ScheduleError(f"threshold must lie in [0, 256], got {threshold:g}")
        return "Solarize", level
    if leaf.kind == "CoarseDropout" and (leaf.model_extra or {}).get("max_holes") == 1:
        return "Cutout", 1 / 16
    # Left out, even if an operation of hba has the same name.
    own = f"albumentations.{leaf.kind}" if leaf.kind in OPERATIONS else leaf.kind
    return None if leaf.kind == "NoOp" else (own, None)
