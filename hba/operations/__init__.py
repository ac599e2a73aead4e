"""The image operations that a policy is made of: batched, one magnitude per image, on any device.

The table of operations, and the modules whose functions it names, import torch only when images are computed, so that
the commands that print the table start at once.
"""

from typing import TYPE_CHECKING

from hba.operations.operation import ALL, COMMON_CHANNELS, Operation, check_channels
from hba.operations.registration import (
    check_known,
    find_operation,
    function_path,
    register_operation,
    registered_operations,
)
from hba.operations.table import OPERATIONS
from hba.utils.imports import lazy_names

if TYPE_CHECKING:
    from hba.operations.apply import apply_steps
    from hba.operations.images import check_images, color_for, fill_for

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
    _IMAGES = dict.fromkeys(("check_images", "color_for", "fill_for"), "hba.operations.images")
    __getattr__, __dir__ = lazy_names(__name__, {**_IMAGES, "apply_steps": "hba.operations.apply"})
