"""One 8-bit image with its channels last, as NumPy and cv2 have it: the bytes that PIL makes of the same image."""

from collections.abc import Sequence

import numpy as np

from hba.operations.resample import LARGE_SIDE_PIXELS
from hba.packed.compiling import kernels
from hba.packed.program import One, program_of_one


def apply_to_array(drawn: Sequence[One], pixels: np.ndarray, fill: tuple[float, ...]) -> np.ndarray | None:
    """A new array for uint8 (H, W), (H, W, 1) or (H, W, 3) with at least one pixel; fill: in [0, 1] for each channel.

    None where the image is not for kernels: without Numba, with an operation that has no code, or very large.
    """
    compiled, (height, width) = kernels(), pixels.shape[:2]
    if compiled is None or max(height, width) >= LARGE_SIDE_PIXELS:
        return None
    program = program_of_one(drawn, height, width)
    if program is None:
        return None
    from hba.packed.layout import from_planes, to_planes

    pixels, color = np.ascontiguousarray(pixels), np.array(fill, np.float32)
    result = np.empty_like(pixels)
    if len(fill) == 1:
        compiled.augment_all(pixels.reshape(1, 1, -1), result.reshape(1, 1, -1), width, *program, color, True, True)
        return result
    planes, new_planes = np.empty((2, 1, 3, height * width), np.uint8)
    to_planes(pixels.reshape(-1), planes[0])
    compiled.augment_all(planes, new_planes, width, *program, color, True, True)
    from_planes(new_planes[0], result.reshape(-1))
    return result
