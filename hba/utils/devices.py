"""Devices by name, versions and hardware, constants per device, and memory errors."""

from __future__ import annotations

import contextlib
import functools
import platform
import re
from collections.abc import Callable, Hashable, Iterator
from importlib.metadata import PackageNotFoundError, version as installed_version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from hba.errors import RunError, SettingsError

# Modules that only declare a constant are imported without torch, which takes seconds.
if TYPE_CHECKING:
    import torch
    from torch import Tensor

VERSION = "0.1.0"
"""The version of this library; pyproject.toml reads it from here."""
PRECISION = "float32"
"""Of all that hba computes, by its name in torch."""
PACKAGES = ("torch", "torchvision", "kornia", "numpy", "pillow", "scikit-learn")
"""Packages whose versions `environment` reports."""

Make = TypeVar("Make", bound=Callable[..., Any])


def check_device_name(name: str) -> str:
    """Check the name of a device, which need not exist here, and return it.

    Raises:
        SettingsError: if it is not auto, cpu, cuda, cuda:<number> or mps.
    """
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?|mps", name):
        raise SettingsError(
            f"device must be auto, cpu, cuda, cuda:<number> or mps, got {name!r}"
        )
    return name


def find_device(name: str) -> torch.device:
    """The device of that name here; `auto` is a CUDA GPU if there is one.

    Raises:
        SettingsError: if there is no such device.
    """
    import torch

    if check_device_name(name) == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    device = torch.device(name)
    try:
        if device.type == "mps" and not torch.backends.mps.is_available():
            raise RuntimeError("PyTorch finds no GPU of Apple on this machine")
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise SettingsError(
            f"device {name!r} cannot be used ({reason}); try auto or cpu"
        ) from None
    return device


def exact_device(device: torch.device) -> torch.device:
    """The device where random numbers are drawn and images augmented.

    This is the device itself; for mps, without float64, the CPU.
    """
    import torch

    return torch.device("cpu") if device.type == "mps" else device


@contextlib.contextmanager
def explained_memory_errors() -> Iterator[None]:
    """Turn errors of a full memory into RunErrors with a remedy.

    These are errors of the machine's memory or a GPU's, and of a DataLoader worker that
    died.
    """
    import torch

    try:
        yield
    except (MemoryError, RuntimeError) as error:
        reason = next(iter(str(error).splitlines()), "")
        if (
            isinstance(error, MemoryError | torch.OutOfMemoryError)
            or "can't allocate memory" in reason
        ):
            raise RunError(
                f"out of memory ({reason}); try a smaller batch_size, model or"
                " image_size"
            ) from None
        # PyTorch raises it from a signal handler, wherever the main thread is.
        if "DataLoader worker" in reason:
            raise RunError(
                f"a process that reads images has died ({reason}); try fewer workers,"
                " or 0"
            ) from None
        raise


@contextlib.contextmanager
def usual_types() -> Iterator[None]:
    """PRECISION and the CPU as PyTorch's defaults, and no autocast.

    This holds whatever the caller has set; then it is as before.
    """
    import torch

    # torch.get_default_device takes several times as long, which counts for single
    # images.
    probe = torch.empty(0)
    precision = getattr(torch, PRECISION)
    cast_on = [
        device_type
        for device_type in ("cpu", "cuda")
        if torch.is_autocast_enabled(device_type)
    ]
    if probe.dtype == precision and probe.device.type == "cpu" and not cast_on:
        yield
        return
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.device("cpu"))
        for device_type in cast_on:
            stack.enter_context(torch.autocast(device_type, enabled=False))
        stack.callback(torch.set_default_dtype, probe.dtype)
        torch.set_default_dtype(precision)
        yield


@contextlib.contextmanager
def own_state() -> Iterator[None]:
    """The same, with gradients and outside of inference mode.

    It is for trainings within whatever a caller does.
    """
    import torch

    with usual_types(), torch.inference_mode(False), torch.enable_grad():
        yield


def device_constant(make: Make) -> Make:
    """Cache the results of a function by its arguments.

    A compiled program has its own results.

    Args:
        make: the function. Its arguments must be hashable.
    """
    cached: dict[tuple[Hashable, ...], Any] = {}

    @functools.wraps(make)
    def constant(*arguments: Hashable) -> Any:
        import torch

        # Checked first: a compiler that looked into the cache would trace the hashes of
        # all arguments in it.
        is_compiling = torch.compiler.is_compiling()
        if not is_compiling and arguments in cached:
            return cached[arguments]
        # A tensor that is made in inference mode stays an inference tensor.
        with torch.inference_mode(False):
            value = make(*arguments)
        # A tensor that a CUDA graph records has no content yet.
        is_capturing = (
            torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()
        )
        if not (is_compiling or is_capturing):
            cached[arguments] = value
        return value

    return cast(Make, constant)


@device_constant
def whole_numbers(count: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """0, 1, ..., count - 1, shape (count,). Must not be changed in place."""
    import torch

    return torch.arange(count, dtype=dtype, device=device)


def environment(device: torch.device) -> dict[str, Any]:
    """The device by name, the number of PyTorch's threads, and versions.

    The versions are those of hba and of PACKAGES.
    """
    import torch

    name = (
        torch.cuda.get_device_name(device)
        if device.type == "cuda"
        else _processor_name()
    )
    return {
        "device": str(device),
        "device_name": name,
        "n_threads": torch.get_num_threads(),
        "python": platform.python_version(),
        # A checkout may shadow an installed hba of another version.
        "packages": {
            "hba-augment": VERSION,
            **{package: version_of(package) for package in PACKAGES},
        },
    }


def _processor_name() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def version_of(package: str) -> str | None:
    """The installed version; None if the package is not installed."""
    try:
        return installed_version(package)
    except PackageNotFoundError:
        return None
