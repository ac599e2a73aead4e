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

    See kernels.py for what they describe.
    """

    levels: Array
    """uint8 (C, N)."""
    shown: Array
    """The image as levels, uint8 (C, N)."""
    places: Array
    """Those of this step and of the next, uint32 (2, N)."""
    table: Array
    """float32 (C, 256 + S)."""
    table_levels: Array
    """The table rounded to levels, uint8 (C, 256 + S)."""
    free: Array
    """The values of a free image, float32 (C, N + S)."""
    plane: Array
    """A copy of one channel, float32 (N,)."""


class State(NamedTuple):
    """How the scratch memory describes an image after a step."""

    is_moved: bool
    """Whether places are used."""
    now: int
    """Which of the two places holds, 0 or 1."""
    is_plain: bool
    """Whether the table is unchanged."""
    is_free: bool
    """Whether values hold instead of levels and table."""


DrawnStep = tuple[Any, float, tuple[float, ...]]
"""An Operation for an image, its magnitude with sign, and its random numbers in [0, 1),
such as a place (x, y). The player knows it as an ImageOperation.
"""


class Program(NamedTuple):
    """S steps for each of B images."""

    codes: np.ndarray
    """int64 (B, S)."""
    magnitudes: np.ndarray
    """float64 (B, S)."""
    positions: np.ndarray
    """float64 (B, S, P)."""
    maps: np.ndarray
    """In fixed point, int64 (B, S, 6), see hba/operations/geometric.py."""


def code_of(operation: Operation) -> int | None:
    """The operation's code; None for one that is not compiled: a user's, or one with
    bilinear interpolation.
    """
    return None if operation.interpolation == "bilinear" else operation.code


def program_of_batch(
    codes: Sequence[int | None],
    chosen: Tensor,
    magnitudes: Tensor,
    positions: Tensor,
    maps: Maps,
) -> Program:
    """Make a program from the arguments of apply_steps.

    Args:
        codes: Of each operation; None for one that is not compiled.
        chosen: Index of the operation (B, S), -1 for none.
        magnitudes: Of that operation (B, S).
        positions: Its random numbers in [0, 1), (B, S, P).
        maps: Of maps_of_steps.
    """
    # The last entry is for an index of -1, no operation.
    by_index = torch.tensor(
        [*(NOTHING if code is None else code for code in codes), NOTHING]
    )
    steps = (
        by_index[chosen],
        magnitudes.double(),
        positions.double(),
        maps.fixed_point,
    )
    return Program(*(values.contiguous().numpy() for values in steps))


def program_of_one(
    drawn: Sequence[DrawnStep], height: int, width: int
) -> Program | None:
    """Make a program for an image of this size.

    Returns:
        The program; None if one of the operations has no code.
    """
    codes = [code_of(operation) for operation, _, _ in drawn]
    if None in codes:
        return None
    maps = np.zeros((1, len(drawn), 6), np.int64)
    for step, drawn_step in enumerate(drawn):
        operation, _, _ = drawn_step
        if operation.interpolation:
            coefficients = coefficients_of_one(drawn_step, height, width)
            maps[0, step] = fixed_point(**coefficients)
    # Steps may have different numbers of random numbers; kernels read two of them.
    positions = [(*position, 0.5, 0.5)[:2] for _, _, position in drawn]
    return Program(
        np.array([codes], np.int64),
        np.array([[magnitude for _, magnitude, _ in drawn]], np.float64),
        np.array([positions], np.float64).reshape(1, len(drawn), 2),
        maps,
    )


def coefficients_of_one(
    drawn_step: DrawnStep, height: int, width: int
) -> Mapping[str, Any]:
    """Coefficients for a single image, as plain numbers.

    Calls into PyTorch would cost more than the image.
    """
    operation, magnitude, position = drawn_step
    if operation.n_uniforms or operation.function is geometric.shear:
        coefficients = geometric.coefficients_of(
            operation,
            torch.tensor(magnitude, dtype=torch.float64),
            torch.tensor(position, dtype=torch.float64),
            height,
            width,
        )
        return {name: float(value) for name, value in coefficients.items()}
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
    x0 = c + a / 2 + b / 2
    y0 = f + d / 2 + e / 2
    if (a, b, d, e) == (1, 0, 0, 1):
        x0 = math.floor(x0)
        y0 = math.floor(y0)
    return [math.floor(value * ONE + 0.5) for value in (a, b, x0, d, e, y0)]
