"""Numba, where it is there: an optional extra, which makes the same bytes faster."""

import functools
import importlib
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from types import ModuleType
from typing import Any


@functools.cache
def kernels() -> ModuleType | None:
    """The module of that name beside this file; None without Numba.

    Numba goes only with the versions of NumPy that it knows. Where it does not start, a warning says so.
    """
    if find_spec("numba") is None:
        return None
    try:
        return importlib.import_module("hba.packed.kernels")
    except ImportError as error:
        warnings.warn(
            f"numba is installed, but cannot be used ({error}); 8-bit images are augmented by PyTorch and PIL, to the "
            "same levels, but slower",
            RuntimeWarning,
            stacklevel=2,
        )
        return None


def compiled(function: Callable[..., Any]) -> Any:
    """Compiled when it is first called. The result is kept for the next process, where a file can be written."""
    import numba

    try:
        return numba.njit(nogil=True, cache=True)(function)
    except RuntimeError:  # There is no folder for it.
        return numba.njit(nogil=True)(function)
