"""Devices by name, tensors that are made once per device, and errors of full memory."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Hashable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar, cast

from hba.errors import RunError, SettingsError
from hba.utils.text import did_you_mean

# Modules that only declare a constant are imported without torch, which takes seconds.
if TYPE_CHECKING:
    import torch
    from torch import Tensor

Make = TypeVar("Make", bound=Callable[..., Any])


def check_device_name(name: str) -> str:
    """The name; SettingsError if it is not auto, cpu, cuda or cuda:<number>. The device need not exist here."""
    import torch

    kind = name.partition(":")[0]
    try:
        is_known = name == "auto" or (kind in ("cpu", "cuda") and torch.device(name).type == kind)
    except RuntimeError:
        is_known = False
    if not is_known:
        meant = did_you_mean("cuda" if kind == "gpu" else name, ("auto", "cpu", "cuda"))
        raise SettingsError(f"device must be auto, cpu, cuda or cuda:<number>, got {name!r}{meant}")
    return name


def find_device(name: str) -> torch.device:
    """The device of that name on this machine; `auto` is a CUDA GPU if there is one.

    SettingsError if there is no such device.
    """
    import torch

    if check_device_name(name) == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    device = torch.device(name)
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise SettingsError(f"device {name!r} cannot be used ({reason}); try auto or cpu") from None
    return device


@contextlib.contextmanager
def explained_memory_errors() -> Iterator[None]:
    """Turn errors of a full memory or GPU, and of a DataLoader worker that died, into RunErrors with a remedy."""
    import torch

    remedy = "try a smaller batch_size, model or image_size"
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise RunError(f"the device's memory is full ({str(error).splitlines()[0]}); {remedy}") from None
    except MemoryError:
        raise RunError(f"the memory is full; {remedy}") from None
    except RuntimeError as error:
        if "can't allocate memory" in str(error):
            raise RunError(f"the memory is full; {remedy}") from None
        # PyTorch raises it from a signal handler, wherever the main thread is.
        if "DataLoader worker" not in str(error):
            raise
        raise reader_died(str(error).splitlines()[0]) from None


def reader_died(reason: str) -> RunError:
    """The error of a process that read images and died."""
    return RunError(f"a process that reads images has died ({reason}); try fewer workers, 0 reads without any")


def device_constant(make: Make) -> Make:
    """Cache what `make` returns for its arguments, which must be hashable. A compiled program makes its own."""
    cached: dict[tuple[Hashable, ...], Any] = {}

    @functools.wraps(make)
    def constant(*arguments: Hashable) -> Any:
        import torch

        # Asked first: a compiler that looks into the cache traces the hashes of all arguments in it.
        is_compiling = torch.compiler.is_compiling()
        if not is_compiling and arguments in cached:
            return cached[arguments]
        # A tensor that is made in inference mode stays an inference tensor.
        with torch.inference_mode(False):
            made = make(*arguments)
        # What a CUDA graph records has no content yet.
        is_capturing = torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()
        if not (is_compiling or is_capturing):
            cached[arguments] = made
        return made

    return cast(Make, constant)


@device_constant
def whole_numbers(count: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """0, 1, ..., count - 1, shape (count,). Must not be changed in place."""
    import torch

    return torch.arange(count, dtype=dtype, device=device)
