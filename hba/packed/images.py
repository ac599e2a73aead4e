"""Applies operations to batches of 8-bit images, as bytes or as floats."""

import functools
import importlib
import os
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from types import ModuleType

import numpy as np
import torch
from torch import Tensor
from torchvision.transforms.v2 import functional as TF

from hba.operations import Operation
from hba.operations.apply import Candidates, Steps, apply_steps, maps_of_steps
from hba.operations.geometric import LARGE_SIDE_PIXELS
from hba.operations.on_pil import apply_to_pil
from hba.operations.operation import COMMON_CHANNELS
from hba.packed.program import (
    DrawnStep,
    Program,
    code_of,
    program_of_batch,
    program_of_one,
)

THREAD_VALUES = 1 << 20
"""Values per thread. With fewer, a single thread is faster."""


@functools.cache
def kernels() -> ModuleType | None:
    """The module hba.packed.kernels; None without Numba.

    Numba works only with some versions of NumPy. If it cannot be imported, a warning
    says why.
    """
    if find_spec("numba") is None:
        return None
    try:
        return importlib.import_module("hba.packed.kernels")
    except ImportError as error:
        warnings.warn(
            f"numba is installed, but cannot be used ({error}); PyTorch and PIL augment"
            " 8-bit images, with the same results, but slower",
            RuntimeWarning,
            stacklevel=2,
        )
        return None


def can_run(images: Tensor) -> bool:
    """Whether Numba is installed and its kernels can process images (B, C, H, W)."""
    if (
        torch.compiler.is_compiling()
        or images.device.type != "cpu"
        or not images.numel()
    ):
        return False
    return max(images.shape[2:]) < LARGE_SIDE_PIXELS and kernels() is not None


def run(
    images: Tensor, program: Program, fill: Tensor, dtype: torch.dtype = torch.uint8
) -> Tensor:
    """Run a program.

    Args:
        images: uint8 (B, C, H, W).
        program: A row for each image.
        fill: The colour of uncovered pixels (C,), in [0, 1].
        dtype: uint8 for PIL's results, or float32.

    Returns:
        New images (B, C, H, W).
    """
    compiled = kernels()
    assert compiled is not None
    n_images, channels, height, width = images.shape
    color = fill.float().numpy()
    as_pil = dtype == torch.uint8
    # NumPy's views are much faster than PyTorch's, whose time would matter for a single
    # image.
    pixels = np.ascontiguousarray(images.numpy()).reshape(
        n_images, channels, height * width
    )
    result = np.empty(images.shape, np.uint8 if as_pil else np.float32)
    new_pixels = result.reshape(pixels.shape)

    def run_part(part: slice) -> None:
        steps = (values[part] for values in program)
        compiled.augment_all(
            pixels[part], new_pixels[part], width, *steps, color, as_pil
        )

    n_threads = min(torch.get_num_threads(), n_images, -(-pixels.size // THREAD_VALUES))
    if n_threads == 1:
        run_part(slice(None))
    else:
        ends = np.linspace(0, n_images, n_threads + 1).astype(int).tolist()
        # This waits for all threads, and raises their errors.
        list(
            _threads(os.getpid(), n_threads).map(
                run_part, map(slice, ends[:-1], ends[1:])
            )
        )
    return torch.from_numpy(result)


@functools.cache
def _threads(process: int, count: int) -> ThreadPoolExecutor:
    """A pool for each process, because a forked process does not have its parent's
    threads.
    """
    return ThreadPoolExecutor(count, thread_name_prefix="hba-packed")


@torch.no_grad()
def apply_to_images(
    operations: Sequence[Operation],
    steps: Steps,
    images: Tensor,
    fill: Tensor,
    candidates: Candidates = None,
) -> Tensor:
    """Return new images (B, C, H, W) after S steps, of the same type, uint8 or floating
    point. The input is unchanged.

    Arguments are those of apply_steps, and so are results for floats, bit for bit.
    uint8 images are rounded after each step; on a CPU, they become PIL's results. On a
    CPU with Numba, 8-bit images, also as floats level / 255, are bytes, which as many
    threads as PyTorch uses process, except those that get an operation without a code
    in program.py.
    """
    is_bytes = images.dtype == torch.uint8
    if is_bytes and (images.device.type != "cpu" or torch.compiler.is_compiling()):
        for number, step in enumerate(
            zip(*(values.split(1, dim=1) for values in steps), strict=True)
        ):
            of_step = candidates and candidates[number : number + 1]
            floats = images.float() / 255
            images = to_bytes(apply_steps(operations, step, floats, fill, of_step))
        return images
    levels = levels_of(images) if can_run(images) else None
    if levels is None and not is_bytes:
        return apply_steps(operations, steps, images, fill, candidates)
    if levels is None:
        result = images.clone()
        is_left = torch.ones(len(images), dtype=torch.bool)
    else:
        codes = [code_of(operation) for operation in operations]
        # The last entry is for an index of -1, no operation.
        has_no_code = torch.tensor([*(code is None for code in codes), False])
        is_left = has_no_code[steps[0]].any(dim=1)
        maps = maps_of_steps(operations, *steps, *images.shape[2:])
        program = program_of_batch(codes, *steps, maps)
        result = run(levels, program, fill, images.dtype)
    if is_bytes:
        for number in is_left.nonzero().flatten().tolist():
            of_image = zip(*(values[number].tolist() for values in steps), strict=True)
            drawn = [
                (operations[index], *numbers)
                for index, *numbers in of_image
                if index >= 0
            ]
            result[number] = apply_to_all(drawn, images[number : number + 1], fill)[0]
    elif is_left.any():
        chosen, magnitudes, positions = (values[is_left] for values in steps)
        result[is_left] = apply_steps(
            operations, (chosen, magnitudes, positions), images[is_left], fill
        )
    return result


def levels_of(images: Tensor) -> Tensor | None:
    """The images as uint8, if they are uint8 or floats that are all exactly level /
    255; otherwise None.
    """
    if images.dtype == torch.uint8:
        return images
    if images.dtype != torch.float32:
        return None
    from hba.packed.kernels import to_levels

    levels = torch.empty(images.shape, dtype=torch.uint8)
    is_of_levels = to_levels(
        images.detach().contiguous().view(-1).numpy(), levels.view(-1).numpy()
    )
    return levels if is_of_levels else None


def to_bytes(images: Tensor) -> Tensor:
    """Round floats in [0, 1] to the nearest grey levels."""
    return images.mul(255).round().clamp(0, 255).to(torch.uint8)


def apply_to_all(drawn: Sequence[DrawnStep], images: Tensor, fill: Tensor) -> Tensor:
    """Apply the same operations to each of the images (B, C, H, W), float in [0, 1] or
    uint8; fill (C,) in [0, 1].

    uint8 images are rounded after each operation. On a CPU, those of 1 or 3 channels
    become PIL's results.
    """
    if not images.numel():
        return images.clone()
    is_bytes = images.dtype == torch.uint8
    program = None
    if is_bytes and can_run(images):
        program = program_of_one(drawn, *images.shape[2:])
    if program is not None:
        n_images = len(images)
        if n_images > 1:
            program = Program(*(values.repeat(n_images, axis=0) for values in program))
        return run(images, program, fill)
    if is_bytes and images.device.type == "cpu" and images.shape[1] in COMMON_CHANNELS:
        color = tuple(round(channel, 6) for channel in fill.tolist())
        return torch.stack(
            [
                TF.pil_to_tensor(apply_to_pil(drawn, TF.to_pil_image(image), color))
                for image in images
            ]
        )
    result = images.clone()
    for operation, magnitude, position in drawn:
        floats = result.float() / 255 if is_bytes else result
        # Positions use double precision, like those of the image's annotations.
        precision = torch.float64 if operation.moves_pixels else floats.dtype
        magnitudes = floats.new_full((len(images),), magnitude, dtype=precision)
        positions = floats.new_tensor(position[: operation.n_uniforms]).expand(
            len(images), -1
        )
        floats = operation(floats, magnitudes, fill=fill, position=positions)
        result = to_bytes(floats) if is_bytes else floats
    return result
