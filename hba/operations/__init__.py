"""The image operations that a policy is made of: batched, one magnitude per image, on any device."""

from hba.operations.table import OPERATIONS, Operation, check_images, fill_for, find_operation

__all__ = ["OPERATIONS", "Operation", "check_images", "fill_for", "find_operation"]
