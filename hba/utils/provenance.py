"""What made a result: hardware and versions; and reading a provenance, which may come from elsewhere."""

import contextlib
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from hba.utils.version import VERSION

PACKAGES = ("torch", "torchvision", "kornia", "numpy", "pillow", "scikit-learn")
LARGEST_COUNT = 10**9


def environment(device: torch.device) -> dict[str, Any]:
    """The device by name, how many threads PyTorch uses, and the versions of what computes."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else _processor_name()
    return {
        "device": str(device),
        "device_name": name,
        "n_threads": torch.get_num_threads(),
        "python": platform.python_version(),
        # A checkout may stand before an installed package of another version.
        "packages": {"hba-augment": VERSION, **{package: version_of(package) for package in PACKAGES}},
    }


def number_of(found: Any, low: float, high: float) -> float | None:
    """What was found in a provenance, if it is a number in [low, high]."""
    if not isinstance(found, int | float) or isinstance(found, bool) or not low <= found <= high:
        return None
    return found


def count_of(found: Any, least: int = 0) -> int | None:
    """What was found in a provenance, if it is a whole number of a plausible size."""
    return found if isinstance(found, int) and number_of(found, least, LARGEST_COUNT) is not None else None


def _processor_name() -> str:
    """The processor's model where Linux tells it, else its architecture."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def version_of(package: str) -> str | None:
    """What is installed; None where it is not."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
