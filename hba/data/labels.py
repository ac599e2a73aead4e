"""Labels of images, and the names of classes and splits that they come from.

Labels are one class each, int64 (N,), or any number, a matrix (N, classes) of truth values: multi-label targets. Their
dimensions tell the two apart, so no setting can contradict the labels. Mixed images of a batch have MixedLabels.
"""

import functools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hba.errors import DataError

SPLITS = ("train", "val", "test")
_NAMES: Mapping[str, str] = {
    "train": "train|training|trn",
    "val": "val|valid|validation|validate|dev|devel|development",
    "test": "test|tests|testing|tst",
    "val or test": "eval|evaluation|holdout|heldout",
}
"""Whether a search may see the images of an evaluation is unclear, so a person must say it."""
_FILLER = "(set|data|dataset|split|part|folder|images?|imgs?)"
"""Words that change nothing: training_set, test-images."""
MULTI_LABEL_ERROR = "100 minus the mean average precision over the classes that have a positive"
"""What an error is where images have several labels, in per cent; training/criterion.py computes it."""


def is_multi_label(labels: np.ndarray | Tensor) -> bool:
    """labels: of several images; (N,) or (N, classes)."""
    return labels.ndim == 2


@dataclass(frozen=True)
class MixedLabels:
    """Labels of a batch whose images are each mixed with a partner from the batch, by Mixup or CutMix.

    labels, partners: both (B,) or (B, classes). share, () or (B,): of the image itself in the mixture, in [0, 1].
    """

    labels: Tensor
    partners: Tensor
    share: Tensor

    def __len__(self) -> int:
        return len(self.labels)


def mean_over_labels(function: Callable[[Tensor], Tensor], labels: Tensor | MixedLabels) -> Tensor:
    """Call a function of labels, such as a loss of each image (B,), or of all images ().

    Mixed labels: the mean of its results for those of the images and of their partners, weighted by the shares.
    """
    if not isinstance(labels, MixedLabels):
        return function(labels)
    return labels.share * function(labels.labels) + (1 - labels.share) * function(labels.partners)


def error_of(labels: np.ndarray | Tensor) -> str | None:
    """What an error on images with such labels is; None for the share of wrong answers, which needs no words."""
    return MULTI_LABEL_ERROR if is_multi_label(labels) else None


def error_note(labels: np.ndarray | Tensor) -> str | None:
    """A sentence on what loss and error are where images have several labels; None where they have one."""
    error = error_of(labels)
    return error and f"images have several labels: loss is binary cross entropy, error is {error}"


def error_in_words(error: str | None) -> str:
    """` (100 minus ...)`, to follow the word error; nothing where it is the share of wrong answers."""
    return "" if error is None else f" ({error})"


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
    """int64 (N,) of whole numbers, one for each image, or bool (N, classes) of a matrix of 0 and 1.

    labels: a tensor, array or sequence. DataError for anything else.
    """
    tensor = as_tensor(labels, "labels")
    is_matrix = tensor.ndim == 2 and tensor.shape[1] > 1 and bool(((tensor == 0) | (tensor == 1)).all())
    is_whole = not (tensor.dtype == torch.bool or tensor.is_floating_point() or tensor.is_complex())
    if tensor.shape[:1] != (n_images,) or not (is_matrix or (is_whole and tensor.ndim == 1)):
        rule = f"whole numbers, one for each of {n_images} images, or a matrix ({n_images}, classes) of 0 and 1"
        raise DataError(f"labels must be {rule}, got {tensor.dtype} of the shape {tuple(tensor.shape)}")
    return tensor.bool() if is_matrix else tensor.long()


def as_tensor(values: Any, what: str) -> Tensor:
    """A tensor, array or sequence of numbers as a tensor. DataError for anything else."""
    if isinstance(values, Tensor):
        return values
    try:
        array = np.asarray(values)
        # A copy in this machine's byte order, which PyTorch can share.
        return torch.from_numpy(np.array(array, dtype=array.dtype.newbyteorder("="), order="C"))
    except (TypeError, ValueError, RuntimeError):
        remedy = "number text by np.unique(names, return_inverse=True)[1]"
        raise DataError(f"{what} must be a tensor or array of numbers, got {type(values).__name__}; {remedy}") from None


@functools.cache
def split_called(name: str) -> str | None:
    """train, val, test or `val or test`, whichever the words of the name mean; None for a name that says more."""
    patterns = {role: rf"({_FILLER}[\W_]+)?({names})([\W_]*{_FILLER})*[\W_]*" for role, names in _NAMES.items()}
    return next((role for role, pattern in patterns.items() if re.fullmatch(pattern, name.casefold())), None)


def split_role(name: str, data: object) -> str:
    """train, val or test for a split of that name; DataError for another one."""
    role = split_called(name)
    if role not in SPLITS:
        rule = "splits must be called train, val, which a search may see, or test, which it may not"
        remedy = "rename it, or ignore a column of a table by --split-column none"
        raise DataError(f"{data} has the split {name!r}, but {rule}; {remedy}")
    return role


def class_name(label: Any, where: str) -> str:
    """The name of a label's class, as a folder would be called: text, or a whole number, such as 3 for 3.0.

    DataError for a label that is empty or no class. where: `row 7 of FILE`.
    """
    name = label.strip() if isinstance(label, str) else ""
    if isinstance(label, bool | np.bool_):
        name = str(bool(label))
    elif isinstance(label, Real) and math.isfinite(label) and float(label).is_integer():
        name = str(round(label))
    if not name:
        remedy = "mend or remove it; a table has several or none, such as cat;dog, with --label-separator"
        raise DataError(f"{where} has the label {label!r:.40}, but a class is text or a whole number: {remedy}")
    return name


def numbered(
    names: Sequence[tuple[str, ...]], class_names: Sequence[str], part: str, is_multi: bool = False
) -> np.ndarray:
    """Labels (n,): the place of each image's name among the class names; or bool (n, classes): which of them it has.

    DataError for a name that is not among the class names.
    """
    number = {name: place for place, name in enumerate(class_names)}
    if unknown := sorted({name for of_image in names for name in of_image} - set(number)):
        raise DataError(f"{part} has the class {unknown[0]!r}, which the training images do not have; rename it")
    if not is_multi:
        return np.array([number[name] for (name,) in names], dtype=np.int64)
    return np.array([[name in of_image for name in class_names] for of_image in names], dtype=bool)
