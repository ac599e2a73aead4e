"""What images and labels in memory must be. What is clear is converted, and the rest is refused in one line."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hba.data.labels import is_multi_label
from hba.errors import DataError

CHANNELS = (1, 3)
"""Of pictures: grey, or red, green and blue."""
MOST_CHANNELS = 64


def checked_images(images: Any) -> Tensor:
    """As uint8 (N, C, H, W).

    images: a tensor or array, uint8, or floating point in [0, 1], which is rounded to 8 bits; (N, C, H, W), or
    (N, H, W, C), as channels_axis tells, or (N, H, W) for one channel. DataError for anything else.
    """
    tensor = _tensor(images, "images")
    if tensor.ndim == 3:
        tensor = tensor[:, None]
    axis = channels_axis(tuple(tensor.shape), first=1)
    if axis is None:
        raise DataError(
            "images must have the shape (N, C, H, W) or (N, H, W, C), with 1, 3 or fewer channels than pixels a side, "
            f"at most {MOST_CHANNELS}, got {_shape(images)}"
        )
    if axis == 3:
        tensor = tensor.permute(0, 3, 1, 2).contiguous()
    return tensor if tensor.dtype == torch.uint8 else _from_floats(tensor)


def channels_axis(shape: Sequence[int], first: int) -> int | None:
    """1 or 3: which axis of images of this shape has the channels; None where neither can.

    first: the axis that is asked first whether it is 1 or 3 long, as pictures are. Otherwise the channels are the axis
    that is the shorter, and at most MOST_CHANNELS long: there are fewer channels than pixels a side.
    """
    if len(shape) != 4 or 0 in shape[1:]:
        return None
    for axis in (first, 4 - first):
        if shape[axis] in CHANNELS:
            return axis
    before, after = shape[1], shape[3]
    if before == after or min(before, after) > MOST_CHANNELS or min(before, after) >= shape[2]:
        return None
    return 1 if before < after else 3


def checked_labels(labels: Any, n_images: int) -> Tensor:
    """As int64 (N,), or bool (N, classes); else DataError.

    labels: a tensor, array or sequence of whole numbers, one for each image; or a matrix of 0 and 1, a column for each
    class, for images of several labels.
    """
    tensor = _tensor(labels, "labels")
    if is_multi_label(tensor) and len(tensor) == n_images and tensor.shape[1] > 1:
        return _checked_matrix(tensor)
    if tensor.ndim != 1 or len(tensor) != n_images:
        raise DataError(
            f"labels must be one number for each of the {n_images} images, or a matrix ({n_images}, classes) of 0 and "
            f"1, got the shape {_shape(labels)}"
        )
    if tensor.dtype == torch.bool or tensor.is_floating_point() or tensor.is_complex():
        raise DataError(
            f"labels must be whole numbers, the class of each image counted from 0, got {_kind(tensor)}; only classes "
            "can be learned, and of their numbers take .long()"
        )
    return tensor.long()


def _checked_matrix(labels: Tensor) -> Tensor:
    """Of several labels an image, as bool; DataError where a number is neither 0 nor 1."""
    wrong = labels[(labels != 0) & (labels != 1)]
    if wrong.numel():
        raise DataError(
            "a matrix of labels must hold 0 and 1 only, whether an image has the class of the column, got "
            f"{wrong[0].item():.6g}"
        )
    return labels.bool()


def check_multi_label(class_names: tuple[str, ...], labels: Tensor, part: str) -> None:
    """DataError where labels (N, classes) have not one column for each class name, or no image has a label."""
    if labels.shape[1] != len(class_names):
        raise DataError(
            f"labels must have one column for each of the {len(class_names)} class names, but those of the {part} "
            f"images have {labels.shape[1]}"
        )
    if not labels.any():
        raise DataError(f"there must be at least one {part} image with a label, but all are without")


def check_class_names(class_names: tuple[str, ...], largest: int, smallest: int, part: str) -> None:
    """DataError where a label of the part is not the number of a class."""
    if smallest < 0 or largest >= len(class_names):
        wrong = smallest if smallest < 0 else largest
        raise DataError(
            f"labels must be 0 to {len(class_names) - 1}, the numbers of the {len(class_names)} class names, but the "
            f"{part} images have the label {wrong}"
        )


def _from_floats(images: Tensor) -> Tensor:
    must = "images must be uint8, or floating point in [0, 1]"
    if not images.is_floating_point():
        raise DataError(f"{must}, got {_kind(images)}{_range(images)}; for levels of 0 to 255 take .to(torch.uint8)")
    if not torch.isfinite(images).all():
        raise DataError(f"{must}, got {_kind(images)} with values that are not finite")
    if images.numel() and (images.min() < 0 or images.max() > 1):
        raise DataError(
            f"{must}, got {_kind(images)}{_range(images)}; give them as they are before normalisation, and levels of 0 "
            "to 255 by .to(torch.uint8)"
        )
    return (images.float() * 255).round().to(torch.uint8)


def _tensor(values: Any, what: str) -> Tensor:
    if isinstance(values, Tensor):
        return values
    array: np.ndarray | None = None
    try:
        array = np.asarray(values)
        # A copy in this machine's byte order, which PyTorch can share.
        return torch.from_numpy(np.array(array, dtype=array.dtype.newbyteorder("="), order="C"))
    except (TypeError, ValueError, RuntimeError):
        is_text = array is not None and array.dtype.kind in "US"
        hint = "; of class names take np.unique(names, return_inverse=True)[1]" if is_text else ""
        kind = f"{type(values).__name__} of text" if is_text else type(values).__name__
        raise DataError(f"{what} must be a tensor or an array of numbers, got {kind}{hint}") from None


def _shape(values: Any) -> str:
    return str(tuple(np.shape(values) if not isinstance(values, Tensor) else values.shape))


def _kind(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _range(images: Tensor) -> str:
    return f" from {images.double().min().item():.6g} to {images.double().max().item():.6g}" if images.numel() else ""
