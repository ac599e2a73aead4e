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
import reprlib
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any

import pydantic
from pydantic import Field

from hba.errors import ScheduleError
from hba.importers.files import literal, validated
from hba.importers.fit import Choice, Step, SubPolicy
from hba.operations import OPERATIONS

HOLE = 1 / 16
"""Of the side."""
SAME_ON_MID_GREY = 2.0
"""Adding a share v of white changes a level of a half as a factor of 1 + 2 v does."""
_ARGUMENTS: Mapping[str, Mapping[str, Callable[[float, float], Choice]]] = {
    "RandomBrightnessContrast": {
        "brightness_limit": lambda chance, v: Choice("Brightness", chance, max(0.0, 1 + SAME_ON_MID_GREY * v)),
        "contrast_limit": lambda chance, v: Choice("Brightness", chance, max(0.0, 1 + v)),
    },
    # Without signs, which hba draws.
    "ShiftScaleRotate": {
        "shift_limit_x": lambda chance, v: Choice("TranslateX", chance, abs(v)),
        "shift_limit_y": lambda chance, v: Choice("TranslateY", chance, abs(v)),
        "rotate_limit": lambda chance, v: Choice("Rotate", chance, abs(v)),
        "scale_limit": lambda chance, v: Choice("Scale", chance),
    },
}
"""Of transforms that hba has if only one argument is not 0: what it does by that argument and its chance."""


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
        given: Any = (self.model_extra or {}).get(name)
        values = given if isinstance(given, list) else [given]
        is_number = values and all(type(one) in (int, float) and math.isfinite(one) for one in values)
        if not is_number or min(values) != max(values):
            raise ScheduleError(f"{name} of {self.kind} must have one value, got {reprlib.repr(given)}")
        value: float = values[0]
        return value


_PIPELINE = pydantic.TypeAdapter(Transform)


def policy_of_autoalbument(text: str) -> tuple[SubPolicy, ...]:
    """The sub-policies of a file's text; ScheduleError, which names the place, for anything else."""
    content = literal(text)
    if not isinstance(content, dict) or not isinstance(content.get("transform"), dict):
        raise ScheduleError('it must be a mapping with a pipeline as "transform", as albumentations writes it')
    pipeline = validated(_PIPELINE, content["transform"])
    found = [
        node.transforms
        for node in pipeline.transforms
        if node.kind == "OneOf" and node.transforms and all(one.kind == "Sequential" for one in node.transforms)
    ]
    if pipeline.kind != "Compose" or len(found) != 1 or not any(one.p for one in found[0]):
        raise ScheduleError(
            "it must be a Compose with one OneOf of Sequentials, which is the policy, of which one has p above 0"
        )
    return tuple(
        SubPolicy(
            tuple(_step(node, f"sub-policy {number}, step {at}") for at, node in enumerate(one.transforms, start=1)),
            one.p,
        )
        for number, one in enumerate(found[0], start=1)
    )


def _step(node: Transform, place: str) -> Step:
    total = math.fsum(leaf.p for leaf in node.transforms)
    if node.kind != "OneOf" or not total > 0:
        raise ScheduleError(f"{place} must be a OneOf with a transform with p above 0, got {node.kind}")
    try:
        return tuple(choice for leaf in node.transforms for choice in _choices(leaf, leaf.p / total))
    except ScheduleError as error:
        raise ScheduleError(f"{place}: {error}") from None


def _choices(leaf: Transform, chance: float) -> Iterator[Choice]:
    """hba's operation for a transform, or the transform's own name if there is none; nothing for no change."""
    if leaf.kind == "NoOp":
        return
    if leaf.kind in _ARGUMENTS:
        changed = {name: value for name in _ARGUMENTS[leaf.kind] if (value := leaf.value(name))}
        if len(changed) > 1:
            yield Choice(leaf.kind, chance)
        for name, value in changed.items() if len(changed) == 1 else ():
            yield _ARGUMENTS[leaf.kind][name](chance, value)
    elif leaf.kind == "Solarize":
        yield Choice("Solarize", chance, _level(leaf.value("threshold")))
    elif leaf.kind == "CoarseDropout" and leaf.model_extra and leaf.model_extra.get("max_holes") == 1:
        yield Choice("Cutout", chance, HOLE)
    else:
        # Left out, even if an operation of hba has the same name.
        yield Choice(f"albumentations.{leaf.kind}" if leaf.kind in OPERATIONS else leaf.kind, chance)


def _level(threshold: float) -> float:
    """A grey level in [0, 255]; float images have thresholds in [0, 1], which JSON writes with a point."""
    level = threshold * 255 if isinstance(threshold, float) and threshold <= 1 else threshold
    if not 0 <= level <= 256:
        raise ScheduleError(f"threshold must lie in [0, 256], got {threshold:g}")
    return float(level)
