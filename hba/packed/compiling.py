"""What the compiled functions share: Numba's decorator, and the memory that they work in."""

from collections.abc import Callable
from typing import Any, NamedTuple

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
