"""Labels of images: one class each, int64 (N,), or any number of classes each, a matrix (N, classes) of truth values.

The second are multi-label targets. Their dimensions tell the two apart, so no setting can contradict the labels.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hba.errors import DataError

MULTI_LABEL_ERROR = "100 minus the mean average precision over the classes that have a positive"
"""What an error is where images have several labels, in per cent; training/criterion.py computes it."""


def is_multi_label(labels: np.ndarray | Tensor) -> bool:
    """labels: of several images; (N,) or (N, classes)."""
    return labels.ndim == 2


def error_of(labels: np.ndarray | Tensor) -> str | None:
    """What an error on images with such labels is; None for the share of wrong answers, which needs no words."""
    return MULTI_LABEL_ERROR if is_multi_label(labels) else None


def error_note(labels: np.ndarray | Tensor) -> str | None:
    """A sentence on what loss and error are where images have several labels; None where they have one."""
    error = error_of(labels)
    return None if error is None else f"images have several labels: loss is binary cross entropy, error is {error}"


def error_in_words(error: str | None) -> str:
    """` (100 minus ...)`, to follow the word error; nothing where it is the share of wrong answers."""
    return "" if error is None else f" ({error})"


def as_tensor(labels: np.ndarray) -> Tensor:
    """Labels as batches have them: int64 (N,) or bool (N, classes)."""
    tensor = torch.from_numpy(labels)
    return tensor.bool() if is_multi_label(labels) else tensor.long()


def present_classes(labels: np.ndarray | Tensor) -> list[int]:
    """The numbers of the classes that at least one image has, ascending."""
    found = labels.cpu().numpy() if isinstance(labels, Tensor) else labels
    return (np.flatnonzero(found.any(axis=0)) if is_multi_label(found) else np.unique(found)).tolist()


def names_of(label: np.ndarray | Tensor | int, class_names: Sequence[str]) -> str:
    """The class of one image, or `cat, dog` for several; empty for an image without a label.

    label: a number of a class, or a row (classes,) of truth values.
    """
    row = np.asarray(label)
    if row.ndim == 0:
        return class_names[int(row)]
    return ", ".join(name for name, has_it in zip(class_names, row, strict=True) if has_it)


def checked_labels(labels: Any, n_images: int) -> Tensor:
    """As int64 (N,), or bool (N, classes); DataError for anything else.

    labels: a tensor, array or sequence of whole numbers, one for each image; or a matrix of 0 and 1, a column for each
    class, for images of several labels.
    """
    tensor = as_tensor_of(labels, "labels")
    if is_multi_label(tensor) and len(tensor) == n_images and tensor.shape[1] > 1:
        check_truth_values(tensor, "a matrix of labels")
        return tensor.bool()
    if tensor.ndim != 1 or len(tensor) != n_images:
        raise DataError(
            f"labels must be one number for each of the {n_images} images, or a matrix ({n_images}, classes) of 0 and "
            f"1, got the shape {tuple(np.shape(labels))}"
        )
    if tensor.dtype == torch.bool or tensor.is_floating_point() or tensor.is_complex():
        raise DataError(
            "labels must be whole numbers, the class of each image counted from 0, got "
            f"{str(tensor.dtype).removeprefix('torch.')}; give whole numbers of another type by .long()"
        )
    return tensor.long()


def check_truth_values(labels: Any, where: str) -> None:
    """DataError unless the matrix (N, classes) holds nothing but 0 and 1."""
    wrong = labels[(labels != 0) & (labels != 1)]
    if len(wrong):
        raise DataError(
            f"{where} must hold 0 and 1 only, whether an image has the class of the column, got {wrong[0]:.6g}; for "
            "one class of each image give labels of the shape (N,)"
        )


def check_labels_of(class_names: Sequence[str], parts: Mapping[str, Tensor], are_all: bool) -> None:
    """DataError for labels of the parts that do not fit the class names or each other.

    are_all: whether there are no other parts, so that each class must occur.
    """
    if len({is_multi_label(labels) for labels in parts.values()}) > 1:
        raise DataError(f"labels must be of one kind, but the {' and '.join(parts)} images have a number and a matrix")
    n_classes, highest = len(class_names), -1
    for name, labels in parts.items():
        if not len(labels):
            raise DataError(f"there must be at least one {name} image")
        if is_multi_label(labels) and labels.shape[1] != n_classes:
            raise DataError(
                f"labels must have one column for each of the {n_classes} class names, but those of the {name} images "
                f"have {labels.shape[1]}"
            )
        if is_multi_label(labels) and not labels.any():
            raise DataError(f"there must be at least one {name} image with a label, but all are without")
        if not is_multi_label(labels) and not 0 <= labels.min() <= labels.max() < n_classes:
            wrong = labels.min() if labels.min() < 0 else labels.max()
            raise DataError(
                f"labels must be 0 to {n_classes - 1}, the numbers of the {n_classes} class names, but the {name} "
                f"images have the label {wrong}"
            )
        highest = max(highest, n_classes - 1 if is_multi_label(labels) else int(labels.max()))
    if are_all and parts and highest < n_classes - 1:
        raise DataError(f"there are {n_classes} class names, but labels of {highest + 1} classes only: 0 to {highest}")


def as_tensor_of(values: Any, what: str) -> Tensor:
    """A tensor of a tensor, an array or a sequence of numbers. DataError for anything else."""
    if isinstance(values, Tensor):
        return values
    array: np.ndarray | None = None
    try:
        array = np.asarray(values)
        # A copy in this machine's byte order, which PyTorch can share.
        return torch.from_numpy(np.array(array, dtype=array.dtype.newbyteorder("="), order="C"))
    except (TypeError, ValueError, RuntimeError):
        is_text = array is not None and array.dtype.kind in "US"
        hint = " of text; number class names by np.unique(names, return_inverse=True)[1]" if is_text else ""
        raise DataError(f"{what} must be a tensor or an array of numbers, got {type(values).__name__}{hint}") from None
