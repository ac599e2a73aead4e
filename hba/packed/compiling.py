"""What compiled functions share: Numba's decorator, and how images lie in memory.

Conversions between floats, channels first and channels last are one pass each; PyTorch and NumPy, which take several
passes or jump from place to place, are many times as slow.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Array = Any
"""Of NumPy; Numba finds the types by itself."""


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function when it is first called. The result is cached on disk, where a file can be written."""
    import numba

    try:
        return numba.njit(nogil=True, cache=True)(function)
    except RuntimeError:  # There is no folder for it.
        return numba.njit(nogil=True)(function)


class Scratch(NamedTuple):
    """Memory in which images take turns; C channels, N pixels, S steps.

    levels, shown uint8 (C, N); places uint32 (2, N); table float32, table_levels uint8 (C, 256 + S); free float32
    (C, N + S); plane float32 (N,).
    """

    levels: Array
    shown: Array
    places: Array
    table: Array
    table_levels: Array
    free: Array
    plane: Array


class State(NamedTuple):
    """is_moved: places say something, those of `now`. is_plain: levels are worth themselves. is_free: see kernels."""

    is_moved: bool
    now: int
    is_plain: bool
    is_free: bool


PART = 4096
"""How many numbers are looked at before it is asked whether one was no 255th."""
TOP = np.float32(255)


@compiled
def to_levels(values: Array, levels: Array) -> bool:
    """From float32 (N,) to levels (N,). False as soon as a value is not exactly a level / 255."""
    for start in range(0, len(values), PART):
        own, own_levels = values[start : start + PART], levels[start : start + PART]
        n_others = 0
        for index in range(len(own)):
            level = np.uint8(np.int32(min(max(np.rint(own[index] * TOP), np.float32(0)), TOP)))
            own_levels[index] = level
            n_others += np.float32(level) / TOP != own[index]
        if n_others:
            return False
    return True


@compiled
def to_planes(pixels: Array, planes: Array) -> None:
    """From (3 N,), the channels of a pixel side by side, to (3, N)."""
    red, green, blue = planes[0], planes[1], planes[2]
    for pixel in range(len(red)):
        red[pixel] = pixels[3 * pixel]
        green[pixel] = pixels[3 * pixel + 1]
        blue[pixel] = pixels[3 * pixel + 2]


@compiled
def from_planes(planes: Array, pixels: Array) -> None:
    """From (3, N) to (3 N,)."""
    red, green, blue = planes[0], planes[1], planes[2]
    for pixel in range(len(red)):
        pixels[3 * pixel] = red[pixel]
        pixels[3 * pixel + 1] = green[pixel]
        pixels[3 * pixel + 2] = blue[pixel]
