"""Operations on 8-bit images: several times as fast, with exactly the results of float images or of PIL.

Numba compiles them (`pip install 'hba-augment[numba]'`). Without it, on a GPU, or for your operations, floats are used.
"""

from hba.packed.images import apply_one_to_bytes, apply_to_array, apply_to_images, to_bytes

__all__ = ["apply_one_to_bytes", "apply_to_array", "apply_to_images", "to_bytes"]
