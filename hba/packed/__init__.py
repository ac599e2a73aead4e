"""The operations on 8-bit images, several times as fast, with the same numbers as on floats, or as by PIL.

Numba compiles them (`pip install 'hba-augment[numba]'`). Without it, on a GPU, and for a user's own operations, the
images are converted to floats and back.
"""

from hba.packed.images import apply_one_to_bytes, apply_to_array, apply_to_images, to_bytes

__all__ = ["apply_one_to_bytes", "apply_to_array", "apply_to_images", "to_bytes"]
