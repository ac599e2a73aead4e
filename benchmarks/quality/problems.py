"""Problems with a known answer: operations are applied to validation images but not to
training images.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import torch
from torch import Tensor

from hba.data import LabelledImages, SearchData
from hba.data.loader import as_floats
from hba.errors import SettingsError
from hba.operations import find_operation
from hba.operations.drawing import SIGN
from hba.utils.seeding import generator_for


@dataclass(frozen=True)
class Planted:
    """An operation that is applied to every validation image."""

    operation: str
    magnitude: tuple[float, float] | None = None
    """Ends of the range from which each image's magnitude is drawn uniformly, in the
    operation's unit; an operation that draws a sign negates half of them. None for an
    operation without magnitude.
    """


Problem = tuple[Planted, ...]
"""The planted operations, in the order of their application; empty for the control."""

_ROTATED = Planted("Rotate", (5.0, 30.0))
_SHIFTED = Planted("TranslateX", (0.05, 0.35))
_INVERTED = Planted("Invert")
_DARKENED = Planted("Brightness", (0.2, 0.6))

CONTROL = "none"
PROBLEMS: Mapping[str, Problem] = MappingProxyType(
    {
        CONTROL: (),
        "rotated": (_ROTATED,),
        "shifted-x": (_SHIFTED,),
        "sheared": (Planted("ShearX", (0.1, 0.3)),),
        "inverted": (_INVERTED,),
        "darkened": (_DARKENED,),
        "low-contrast": (Planted("Contrast", (0.15, 0.5)),),
        "rotated+inverted": (_ROTATED, _INVERTED),
        "shifted-x+darkened": (_SHIFTED, _DARKENED),
    }
)


def plant(data: SearchData, problem: Problem, seed: int) -> SearchData:
    """Return the same data with other validation images; the seed decides each image's
    magnitudes.

    Uncovered pixels get the colour that they get in a search, so that the right policy
    makes exactly such images.
    """
    if not isinstance(data.val, LabelledImages):
        raise SettingsError(
            "a problem can be planted only in images that are in memory"
        )
    generator = generator_for(seed, "planted", data.val.device)
    fill = torch.tensor(data.train.mean_color(), device=data.val.device)
    images = as_floats(data.val.images)
    for planted in problem:
        images = _through(planted, images, fill, generator)
    return replace(
        data, val=replace(data.val, images=images.mul(255).round().to(torch.uint8))
    )


def _through(
    planted: Planted, images: Tensor, fill: Tensor, generator: torch.Generator
) -> Tensor:
    """images (N, C, H, W) in [0, 1]; fill (C,)."""
    operation = find_operation(planted.operation)

    def uniform(*shape: int) -> Tensor:
        return torch.rand(shape, generator=generator, device=images.device)

    magnitude = None
    position = None
    if planted.magnitude is not None:
        low, high = planted.magnitude
        magnitude = low + (high - low) * uniform(len(images))
        if operation.drawing == SIGN:
            magnitude = torch.where(uniform(len(images)) < 0.5, -magnitude, magnitude)
    if operation.n_uniforms:
        position = uniform(len(images), 2)
    return operation(
        images, magnitude, fill=fill if operation.uses_fill else None, position=position
    )
