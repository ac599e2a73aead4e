"""Labels of images: one class each, int64 (N,), or any number of classes each, a matrix (N, classes) of truth values.

The second are multi-label targets. Which of the two labels are is told by their dimensions, so it goes with every
batch, and no setting can contradict it.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

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
    """A pool's labels as batches have them: int64 (N,) or bool (N, classes)."""
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
