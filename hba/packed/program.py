"""The steps of a batch as arrays of numbers, which kernels.py reads."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from hba.operations import Operation, geometric
from hba.operations.geometric import ONE, Maps

NOTHING = -1
"""Code of no step; the others are in hba/operations/codes.py."""

Array = Any
"""A NumPy array; Numba infers the type."""


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function when it is first called. The result is cached on disk if a
    file can be written.
    """
    import numba

    try:
        return numba.njit(nogil=True, cache=True)(function)
    except RuntimeError:  # There is no folder for the cache.
        return numba.njit(nogil=True)(function)


class Scratch(NamedTuple):
    """Memory that all images use in turn; C channels, N pixels, S steps.

    levels, shown uint8 (C, N); places uint32 (2, N); table float32, table_levels uint8
    (C, 256 + S); free float32 (C, N + S); plane float32 (N,).
    """

    levels: Array
    shown: Array
    places: Array
    table: Array
    table_levels: Array
    free: Array
    plane: Array


class State(NamedTuple):
    """is_moved: whether places[now] is used. is_plain: whether the table is unchanged.
    is_free: see kernels.py.
    """

    is_moved: bool
    now: int
    is_plain: bool
    is_free: bool


One = tuple[Operation, float, tuple[float, ...]]
"""An operation for an image, its magnitude with sign, and its random numbers in [0, 1),
such as a place (x, y).
"""


class Program(NamedTuple):
    """S steps for each of B images: codes int64, magnitudes float64 (B, S), positions
    float64 (B, S, P), maps int64 (B, S, 6) in fixed point, see
    hba/operations/geometric.py.
    """

    codes: np.ndarray
    magnitudes: np.ndarray
    positions: np.ndarray
    maps: np.ndarray


def code_of(operation: Operation) -> int | None:
    """The operation's code; None for one that is not compiled: a user's, or one with
    bilinear interpolation.
    """
    return None if operation.interpolation == "bilinear" else operation.code


def program_of_batch(
    known: Sequence[int | None],
    chosen: Tensor,
    magnitudes: Tensor,
    positions: Tensor,
    maps: Maps,
) -> Program:
    """Make a program from the arguments of apply_steps. known: the code of each
    operation.
    """
    # The last entry is for an index of -1, no operation.
    of_operation = torch.tensor(
        [*(NOTHING if code is None else code for code in known), NOTHING]
    )
    steps = (
        of_operation[chosen],
        magnitudes.double(),
        positions.double(),
        maps.fixed_point,
    )
    return Program(*(values.contiguous().numpy() for values in steps))


def program_of_one(drawn: Sequence[One], height: int, width: int) -> Program | None:
    """Make a program for one image; None if one of the operations has no code."""
    found = [code_of(operation) for operation, _, _ in drawn]
    if None in found:
        return None
    maps = np.zeros((1, len(drawn), 6), np.int64)
    for step, one in enumerate(drawn):
        if one[0].interpolation:
            maps[0, step] = fixed_point(**coefficients_of_one(one, height, width))
    # Steps may have different numbers of random numbers; kernels read two of them.
    positions = [(*position, 0.5, 0.5)[:2] for _, _, position in drawn]
    return Program(
        np.array([found], np.int64),
        np.array([[magnitude for _, magnitude, _ in drawn]], np.float64),
        np.array([positions], np.float64).reshape(1, len(drawn), 2),
        maps,
    )


def coefficients_of_one(one: One, height: int, width: int) -> Mapping[str, Any]:
    """Coefficients for a single image, as plain numbers: calls into PyTorch would cost
    more than the image.
    """
    operation, magnitude, position = one
    if operation.n_uniforms:
        numbers = (
            torch.tensor(magnitude, dtype=torch.float64),
            torch.tensor(position, dtype=torch.float64),
        )
        found = geometric.coefficients_of(operation, *numbers, height, width)
        return {name: float(value) for name, value in found.items()}
    if operation.function is geometric.rotate:
        cos: Any = math.cos(math.radians(magnitude))
        sin: Any = math.sin(math.radians(magnitude))
        return geometric.turn(cos, sin, height, width)
    # The others only multiply, which works for numbers as for tensors.
    return operation.function(magnitude, height, width)


def fixed_point(
    a: float = 1.0,
    b: float = 0.0,
    c: float = 0.0,
    d: float = 0.0,
    e: float = 1.0,
    f: float = 0.0,
) -> list[int]:
    """Fixed-point coefficients for one image, as in geometric.Maps."""
    x0, y0 = c + a / 2 + b / 2, f + d / 2 + e / 2
    if (a, b, d, e) == (1, 0, 0, 1):
        x0, y0 = math.floor(c + a / 2), math.floor(f + e / 2)
    return [math.floor(value * ONE + 0.5) for value in (a, b, x0, d, e, y0)]
