"""The image operations that a policy is made of: batched, one magnitude per image, on any device.

The table of operations, and the modules whose functions it names, import torch only when images are computed, so that
the commands that print the table start at once.
"""

from hba.operations.operation import ALL, COMMON_CHANNELS, Operation, check_channels
from hba.operations.registration import find_operation, register_operation, registered_operations
from hba.operations.stages import STAGED
from hba.operations.table import OPERATIONS

__all__ = ["ALL", "COMMON_CHANNELS", "OPERATIONS", "STAGED", "Operation", "check_channels", "find_operation"]
__all__ += ["register_operation", "registered_operations"]
