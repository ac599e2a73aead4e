"""Finds the compiled kernels, and runs them on a batch in several threads."""

import functools
import importlib
import os
import warnings
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from types import ModuleType

import numpy as np
import torch
from torch import Tensor

from hba.operations.resample import LARGE_SIDE_PIXELS
from hba.packed.program import Program

THREAD_VALUES = 1 << 20
"""Numbers per thread: with fewer, a single thread is faster."""


@functools.cache
def kernels() -> ModuleType | None:
    """The module of that name beside this file; None without Numba.

    Numba works only with the versions of NumPy that it knows. If it does not start, a warning says so.
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


def can_run(images: Tensor) -> bool:
    """Whether there is Numba, and kernels can take these images (B, C, H, W)."""
    if torch.compiler.is_compiling() or images.device.type != "cpu" or not images.numel():
        return False
    return max(images.shape[2:]) < LARGE_SIDE_PIXELS and kernels() is not None


def run(images: Tensor, program: Program, fill: Tensor, dtype: torch.dtype = torch.uint8) -> Tensor:
    """New images (B, C, H, W) of the type, uint8 or float32 in [0, 1], from uint8 ones; fill (C,) in [0, 1]."""
    compiled = kernels()
    assert compiled is not None
    n_images, channels, height, width = images.shape
    color, is_rounded = fill.float().numpy(), dtype == torch.uint8
    # NumPy's views take a fraction of the time of PyTorch's, which would be a part of that of a single image.
    pixels = np.ascontiguousarray(images.numpy()).reshape(n_images, channels, height * width)
    result = np.empty(images.shape, np.uint8 if is_rounded else np.float32)
    new_pixels = result.reshape(pixels.shape)

    def run_part(part: slice) -> None:
        steps = (values[part] for values in program)
        compiled.augment_all(pixels[part], new_pixels[part], width, *steps, color, False, is_rounded)

    n_threads = min(torch.get_num_threads(), n_images, -(-pixels.size // THREAD_VALUES))
    if n_threads == 1:
        run_part(slice(None))
    else:
        ends = np.linspace(0, n_images, n_threads + 1).astype(int).tolist()
        # All are waited for, and an error in one is raised here.
        list(_threads(os.getpid(), n_threads).map(run_part, map(slice, ends[:-1], ends[1:])))
    return torch.from_numpy(result)


@functools.cache
def _threads(process: int, count: int) -> ThreadPoolExecutor:
    """A pool for each process, because a forked process has none of its parent's threads."""
    return ThreadPoolExecutor(count, thread_name_prefix="hba-packed")
