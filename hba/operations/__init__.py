"""The image operations of a policy: batched, with one magnitude per image, on any
device.

The table of operations and the modules of its functions import torch only to compute,
so that commands start fast.
"""

from hba.operations.operation import (
    ALL,
    COMMON_CHANNELS,
    Operation,
    channels_note,
    check_channels,
)
from hba.operations.registration import (
    find_operation,
    register_operation,
    registered_operations,
)
from hba.operations.stages import STAGED
from hba.operations.table import OPERATIONS

__all__ = [
    "ALL",
    "COMMON_CHANNELS",
    "OPERATIONS",
    "STAGED",
    "Operation",
    "channels_note",
    "check_channels",
    "find_operation",
]
__all__ += ["register_operation", "registered_operations"]
