"""The image operations that a policy is made of: batched, one magnitude per image, on any device.

What they are and what their magnitudes mean is known without PyTorch, which takes seconds to import: the command that
prints it is instant. So the table, and the modules whose functions its rows name, import torch for type checkers only.
"""

import importlib
from typing import TYPE_CHECKING, Any

from hba.operations.operation import ALL, Operation
from hba.operations.table import (
    OPERATIONS,
    check_known,
    find_operation,
    function_path,
    register_operation,
    registered_operations,
)

if TYPE_CHECKING:
    from hba.operations.apply import apply_steps
    from hba.operations.images import check_images, color_for, fill_for

_MODULES = {"apply_steps": "apply", "check_images": "images", "color_for": "images", "fill_for": "images"}
"""Of the names that need PyTorch."""

__all__ = [
    "ALL",
    "OPERATIONS",
    "Operation",
    "apply_steps",
    "check_images",
    "check_known",
    "color_for",
    "fill_for",
    "find_operation",
    "function_path",
    "register_operation",
    "registered_operations",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
