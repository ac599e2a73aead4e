"""What kernels.py works in, and what it knows of an image while it does."""

from typing import Any, NamedTuple

Array = Any
"""Of NumPy; Numba finds the types by itself."""


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
