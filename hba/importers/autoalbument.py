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
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pydantic
from pydantic import Field

from hba.errors import ScheduleError
from hba.importers.files import limited_text, literal, validated
from hba.importers.sub_policies import Choice, Step, SubPolicy
from hba.operations import OPERATIONS
from hba.schedule.file import explained

KIND = "policy of AutoAlbument"
HOLE = 1 / 16
"""Of the side."""
SAME_ON_MID_GREY = 2.0
"""Adding a share v of white changes a level of a half as a factor of 1 + 2 v does."""
_GEOMETRIC = {"shift_limit_x": "TranslateX", "shift_limit_y": "TranslateY", "rotate_limit": "Rotate", "scale_limit": ""}
"""Arguments of ShiftScaleRotate, and the operation of each."""

Found = tuple[str, float | None] | None
"""An operation and its magnitude; None for no change."""


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


def read_autoalbument(path: Path) -> tuple[SubPolicy, ...]:
    """The sub-policies of a file; ScheduleError, which names the file and the place, for anything else."""
    text = limited_text(path, KIND)
    with explained(path, KIND):
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
                tuple(
                    _step(node, f"sub-policy {number}, step {position}")
                    for position, node in enumerate(sequential.transforms, start=1)
                ),
                sequential.p,
            )
            for number, sequential in enumerate(found[0], start=1)
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
    found: Found
    if leaf.kind == "RandomBrightnessContrast":
        found = _brightness(leaf.value("brightness_limit"), leaf.value("contrast_limit"))
    elif leaf.kind == "ShiftScaleRotate":
        found = _geometric({name: leaf.value(name) for name in _GEOMETRIC})
    elif leaf.kind == "Solarize":
        found = ("Solarize", _level(leaf.value("threshold")))
    elif leaf.kind == "CoarseDropout" and leaf.model_extra and leaf.model_extra.get("max_holes") == 1:
        found = ("Cutout", HOLE)
    else:
        # Left out, even if an operation of hba has the same name.
        found = (f"albumentations.{leaf.kind}" if leaf.kind in OPERATIONS else leaf.kind, None)
    if found is not None:
        yield Choice(found[0], chance, found[1])


def _brightness(added: float, contrast: float) -> Found:
    if added and contrast:
        return "RandomBrightnessContrast", None
    if not added and not contrast:
        return None
    return "Brightness", max(0.0, 1 + contrast + SAME_ON_MID_GREY * added)


def _geometric(values: dict[str, float]) -> Found:
    """Without signs, which hba draws."""
    moved = [(name, abs(value)) for name, value in values.items() if value]
    if not moved:
        return None
    if len(moved) > 1:
        return "ShiftScaleRotate", None
    name = _GEOMETRIC[moved[0][0]]
    return (name, moved[0][1]) if name else ("Scale", None)


def _level(threshold: float) -> float:
    """A grey level in [0, 255]; float images have thresholds in [0, 1], which JSON writes with a point."""
    level = threshold * 255 if isinstance(threshold, float) and threshold <= 1 else threshold
    if not 0 <= level <= 256:
        raise ScheduleError(f"threshold must lie in [0, 256], got {threshold:g}")
    return float(level)
