"""The operations on 8-bit images, several times as fast, with the same numbers as on floats, or as by PIL.

Numba compiles them (`pip install 'hba-augment[numba]'`). Without it, on a GPU, or by your operations, floats are used.
"""

from hba.packed.images import apply_one_to_bytes, apply_to_array, apply_to_images, to_bytes

__all__ = ["apply_one_to_bytes", "apply_to_array", "apply_to_images", "to_bytes"]
