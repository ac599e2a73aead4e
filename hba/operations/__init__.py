"""The image operations that a policy is made of: batched, one magnitude per image, on any device."""

from hba.operations.apply import apply_steps
from hba.operations.operation import ALL, Operation, check_images, color_for, fill_for
from hba.operations.table import (
    OPERATIONS,
    check_known,
    find_operation,
    function_path,
    register_operation,
    registered_operations,
)

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
