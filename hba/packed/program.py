"""What kernels are told of the steps: numbers."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from hba.operations import Operation, enhance, geometric, point
from hba.operations.cutout import cutout
from hba.operations.enhance import Blend
from hba.operations.geometric import Warp
from hba.operations.kind import Own
from hba.operations.point import Curve, Stretch
from hba.operations.resample import ONE, Maps
from hba.packed import codes

One = tuple[Operation, float, tuple[float, float]]
"""An operation for an image, its magnitude with sign, and a place (x, y) in [0, 1)."""


class Program(NamedTuple):
    """For each of B images and S steps: codes int64, magnitudes float64 (B, S), positions float64 (B, S, 2), maps int64
    (B, S, 6) in fixed point, see hba/operations/resample.py."""

    codes: np.ndarray
    magnitudes: np.ndarray
    positions: np.ndarray
    maps: np.ndarray


_FUNCTIONS = {Warp: "coefficients", Curve: "formula", Stretch: "stretch", Blend: "poorer", Own: "function"}
"""By kind, the function that says which operation it is."""
_CODES: dict[int, int] = {
    id(geometric.shear_x): codes.WARP,
    id(geometric.shear_y): codes.WARP,
    id(geometric.translate_x): codes.WARP,
    id(geometric.translate_y): codes.WARP,
    id(geometric.rotate): codes.WARP,
    id(cutout): codes.CUTOUT,
    id(point.invert): codes.INVERT,
    id(point.solarize): codes.SOLARIZE,
    id(point.posterize): codes.POSTERIZE,
    id(point.auto_contrast): codes.AUTO_CONTRAST,
    id(point.equalize): codes.EQUALIZE,
    id(enhance.black): codes.BRIGHTNESS,
    id(enhance.mean_gray): codes.CONTRAST,
    id(enhance.gray): codes.COLOR,
    id(enhance.smooth): codes.SHARPNESS,
}
"""By identity: a user's callable need not be hashable."""


def code_of(operation: Operation) -> int | None:
    """None for an operation that kernels do not know: a user's own, or one that takes a mean of several pixels."""
    kind = operation.kind
    if type(kind) not in _FUNCTIONS or kind.interpolation not in (None, "nearest"):
        return None
    return _CODES.get(id(getattr(kind, _FUNCTIONS[type(kind)])))


def program_of_batch(
    known: Sequence[int | None], chosen: Tensor, magnitudes: Tensor, positions: Tensor, maps: Maps
) -> Program:
    """From what apply_steps takes; known: the code of each operation."""
    # The last entry is that of -1, no operation.
    of_operation = torch.tensor([*(codes.NOTHING if code is None else code for code in known), codes.NOTHING])
    steps = (of_operation[chosen], magnitudes.double(), positions.double(), maps.fixed_point)
    return Program(*(values.contiguous().numpy() for values in steps))


def program_of_one(drawn: Sequence[One], height: int, width: int) -> Program | None:
    """For one image; None where one of the operations has no code."""
    found = [code_of(operation) for operation, _, _ in drawn]
    if None in found:
        return None
    maps = np.zeros((1, len(drawn), 6), np.int64)
    for step, (operation, magnitude, _) in enumerate(drawn):
        if isinstance(operation.kind, Warp):
            maps[0, step] = fixed_point(**coefficients_of_one(operation.kind, magnitude, height, width))
    return Program(
        np.array([found], np.int64),
        np.array([[magnitude for _, magnitude, _ in drawn]], np.float64),
        np.array([[position for _, _, position in drawn]], np.float64).reshape(1, len(drawn), 2),
        maps,
    )


def coefficients_of_one(kind: Warp, magnitude: float, height: int, width: int) -> Mapping[str, Any]:
    """Those of a single image, as numbers: PyTorch's calls would cost more than the image."""
    if kind.coefficients is geometric.rotate:
        cos: Any = math.cos(math.radians(magnitude))
        sin: Any = math.sin(math.radians(magnitude))
        return geometric.turn(cos, sin, height, width)
    # The others multiply, which a number does as a tensor.
    number: Any = magnitude
    return kind.coefficients(number, height, width)


def fixed_point(
    a: float = 1.0, b: float = 0.0, c: float = 0.0, d: float = 0.0, e: float = 1.0, f: float = 0.0
) -> list[int]:
    """The same as resample.Maps, for one image."""
    x0, y0 = c + a / 2 + b / 2, f + d / 2 + e / 2
    if (a, b, d, e) == (1, 0, 0, 1):
        x0, y0 = math.floor(c + a / 2), math.floor(f + e / 2)
    return [math.floor(value * ONE + 0.5) for value in (a, b, x0, d, e, y0)]
