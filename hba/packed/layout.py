"""How images lie in memory, compiled: as floats, with three channels first, with three channels last.

Each is one pass; PyTorch and NumPy, which take several, or jump from place to place, are many times as slow.
"""

from typing import Any

import numpy as np

from hba.packed.compiling import compiled

Array = Any
"""Of NumPy, uint8 where nothing else is said."""
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
