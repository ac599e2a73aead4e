"""Three channels first and three channels last, compiled: ten times as fast as a transposed copy by NumPy."""

from typing import Any

from hba.packed.compiling import compiled

Array = Any
"""uint8, of NumPy."""


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
