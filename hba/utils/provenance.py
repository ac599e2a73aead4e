"""What made a result: version, hardware, packages; and numbers read from a provenance."""

from __future__ import annotations

import contextlib
import platform
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

VERSION = "0.1.0"
"""The version of this library; pyproject.toml reads it from here."""
PACKAGES = ("torch", "torchvision", "kornia", "numpy", "pillow", "scikit-learn")
LARGEST_COUNT = 10**9


def environment(device: torch.device) -> dict[str, Any]:
    """The device by name, the number of PyTorch's threads, and the versions of hba and of PACKAGES."""
    import torch

    name = torch.cuda.get_device_name(device) if device.type == "cuda" else _processor_name()
    return {
        "device": str(device),
        "device_name": name,
        "n_threads": torch.get_num_threads(),
        "python": platform.python_version(),
        # A checkout may shadow an installed hba of another version.
        "packages": {"hba-augment": VERSION, **{package: version_of(package) for package in PACKAGES}},
    }


def number_of(found: Any, low: float, high: float) -> float | None:
    """A value of a provenance, which any program may have written, if it is a number in [low, high]; else None."""
    if not isinstance(found, int | float) or isinstance(found, bool) or not low <= found <= high:
        return None
    return found


def count_of(found: Any, least: int = 0) -> int | None:
    """A value of a provenance if it is a whole number from `least` to LARGEST_COUNT; else None."""
    return found if isinstance(found, int) and number_of(found, least, LARGEST_COUNT) is not None else None


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
