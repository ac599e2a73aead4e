"""What made a result: hardware and versions."""

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

PACKAGES = ("hba-augment", "torch", "torchvision", "kornia", "numpy", "pillow", "scikit-learn")


def environment(device: torch.device) -> dict[str, Any]:
    """The device by name, how many threads PyTorch uses, and the versions of what computes."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
    return {
        "device": str(device),
        "device_name": name,
        "n_threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "packages": {package: _version(package) for package in PACKAGES},
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
