"""Devices by name, versions and hardware, and memory errors."""

from __future__ import annotations

import contextlib
import platform
import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version as installed_version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hba.errors import RunError, SettingsError
from hba.utils.tensors import usual_types

# Modules that only declare a constant are imported without torch, which takes seconds.
if TYPE_CHECKING:
    import torch

VERSION = "0.1.0"
"""The version of this library; pyproject.toml reads it from here."""
PACKAGES = ("torch", "torchvision", "kornia", "numpy", "pillow", "scikit-learn")
"""Packages whose versions `environment` reports."""


def check_device_name(name: str) -> str:
    """Check the name of a device, which need not exist here, and return it.

    Raises:
        SettingsError: If it is not auto, cpu, cuda, cuda:<number> or mps.
    """
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?|mps", name):
        raise SettingsError(
            f"device must be auto, cpu, cuda, cuda:<number> or mps, got {name!r}"
        )
    return name


def find_device(name: str) -> torch.device:
    """The device of that name here; `auto` is a CUDA GPU if there is one.

    Raises:
        SettingsError: If there is no such device.
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
def own_state() -> Iterator[None]:
    """The same, with gradients and outside of inference mode.

    It is for trainings within whatever a caller does.
    """
    import torch

    with usual_types(), torch.inference_mode(False), torch.enable_grad():
        yield


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
