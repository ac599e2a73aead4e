"""Running kernels: over the images of a batch by several threads, and on one image with its channels last."""

import functools
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch import Tensor

from hba.operations.resample import LARGE_SIDE_PIXELS
from hba.packed.compiling import kernels
from hba.packed.program import Program

THREAD_VALUES = 1 << 20
"""What a thread is worth starting for: with fewer numbers, one alone is done sooner."""


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
    """A process that was forked has none of the threads that it remembers, so each has its own."""
    return ThreadPoolExecutor(count, thread_name_prefix="hba-packed")
