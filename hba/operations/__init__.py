"""The image operations that a policy is made of: batched, one magnitude per image, on any device.

What they are and what their magnitudes mean is known without PyTorch, which takes seconds to import: the command that
prints it is instant. So the table, and the modules whose functions its rows name, import torch for type checkers only.
"""

from typing import TYPE_CHECKING

from hba.operations.operation import ALL, Operation
from hba.operations.table import (
    OPERATIONS,
    check_known,
    find_operation,
    function_path,
    register_operation,
    registered_operations,
)
from hba.utils.imports import lazy_names

if TYPE_CHECKING:
    from hba.operations.apply import apply_steps
    from hba.operations.images import COMMON_CHANNELS, check_channels, check_images, color_for, fill_for

__all__ = [
    "ALL",
    "COMMON_CHANNELS",
    "OPERATIONS",
    "Operation",
    "apply_steps",
    "check_channels",
    "check_images",
    "check_known",
    "color_for",
    "fill_for",
    "find_operation",
    "function_path",
    "register_operation",
    "registered_operations",
]

if not TYPE_CHECKING:
    _IMAGES = dict.fromkeys(
        ("COMMON_CHANNELS", "check_channels", "check_images", "color_for", "fill_for"), "hba.operations.images"
    )
    __getattr__, __dir__ = lazy_names(__name__, {**_IMAGES, "apply_steps": "hba.operations.apply"})
