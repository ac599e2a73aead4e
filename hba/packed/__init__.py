"""The operations on 8-bit images, to the same numbers as on floats, or as by PIL, several times as fast.

Numba compiles them (`pip install 'hba-augment[numba]'`). Without it, on a GPU, and for operations of a user's own, the
same functions go by way of floats.
"""

from hba.packed.arrays import apply_to_array
from hba.packed.batches import apply_one_to_bytes, apply_to_images, to_bytes

__all__ = ["apply_one_to_bytes", "apply_to_array", "apply_to_images", "to_bytes"]
