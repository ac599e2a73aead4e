"""Labels of images, and the names of classes and splits that they come from.

Labels are one class each, int64 (N,), or any number of classes each, a matrix (N, classes) of truth values, also called
multi-label targets. Their dimensions tell the two apart, so no setting can contradict the labels.
"""

import math
import re
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hba.errors import DataError
from hba.utils.text import counted

SPLITS = ("train", "val", "test")
UNCLEAR = "val or test"
_ROLE_OF: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("train", "training", "trn"), "train"),
        **dict.fromkeys(("val", "valid", "validation", "validate", "dev", "devel", "development"), "val"),
        **dict.fromkeys(("test", "tests", "testing", "tst"), "test"),
        **dict.fromkeys(("eval", "evaluation", "holdout", "heldout"), UNCLEAR),
    }
)
"""By word. Whether a search may see the images of an evaluation is unclear, so a person must say it."""
_FILLER = "(set|data|dataset|split|part|folder|images?|imgs?)"
"""Words that change nothing: training_set, test-images."""
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
    return error and f"images have several labels: loss is binary cross entropy, error is {error}"


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
    is_whole = not (tensor.dtype == torch.bool or tensor.is_floating_point() or tensor.is_complex())
    if tensor.ndim != 1 or len(tensor) != n_images or not is_whole:
        raise DataError(
            f"labels must be whole numbers, the class of each of the {n_images} images, or a matrix ({n_images}, "
            f"classes) of 0 and 1, got {str(tensor.dtype).removeprefix('torch.')} of the shape {tuple(tensor.shape)}"
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
        if not len(labels) or (is_multi_label(labels) and not labels.any()):
            raise DataError(f"there must be at least one {name} image with a label")
        numbers = torch.tensor([0, labels.shape[1] - 1]) if is_multi_label(labels) else labels
        highest = max(highest, int(numbers.max()))
        if numbers.min() < 0 or highest >= n_classes:
            raise DataError(
                f"labels must be 0 to {n_classes - 1}, the numbers of the {n_classes} class names, but the {name} "
                f"images have labels from {numbers.min()} to {numbers.max()}"
            )
    if are_all and parts and highest < n_classes - 1:
        raise DataError(f"there are {n_classes} class names, but labels of {highest + 1} classes only: 0 to {highest}")


def as_tensor_of(values: Any, what: str) -> Tensor:
    """A tensor of a tensor, an array or a sequence of numbers. DataError for anything else."""
    if isinstance(values, Tensor):
        return values
    try:
        array = np.asarray(values)
        # A copy in this machine's byte order, which PyTorch can share.
        return torch.from_numpy(np.array(array, dtype=array.dtype.newbyteorder("="), order="C"))
    except (TypeError, ValueError, RuntimeError):
        raise DataError(
            f"{what} must be a tensor or an array of numbers, got {type(values).__name__}; number text by "
            "np.unique(names, return_inverse=True)[1]"
        ) from None


def split_called(name: str) -> str | None:
    """train, val, test or `val or test`, whichever the words of the name mean; None for a name that says more."""
    found = re.fullmatch(rf"({_FILLER}[\W_]+)?(?P<role>.+?)([\W_]*{_FILLER})*[\W_]*", name.casefold())
    return found and _ROLE_OF.get(found["role"])


def unknown_class(part: str, name: str) -> DataError:
    """For a split that has a class that the training images do not have."""
    return DataError(
        f"{part} has the class {name!r}, which the training images do not have; rename it, or move it away"
    )


def class_name(label: Any, where: str) -> str | None:
    """The name of a label's class, as a folder would be called; None where it is empty.

    Whole numbers are classes like names are. DataError for anything that is no class. where: `row 7 of FILE`.
    """
    if isinstance(label, str):
        return label.strip() or None
    if label is None or (isinstance(label, Real) and math.isnan(label)):
        return None
    if isinstance(label, bool | np.bool_):
        return str(bool(label))
    if isinstance(label, Integral) or (isinstance(label, Real) and float(label).is_integer()):
        return str(int(label) if isinstance(label, Integral) else int(float(label)))
    shown = f"{float(label):.7g}" if isinstance(label, Real) else f"a {type(label).__name__}"
    raise DataError(
        f"{where} has the label {shown}, but a class is text or a whole number (several labels of an image are one "
        "text of a table, with --label-separator)"
    )


def split_role(name: str, where: str, advice: str = "") -> str:
    """train, val or test for a split of that name; DataError for another one. where: `row 7 of FILE`."""
    role = split_called(name)
    if role not in SPLITS:
        raise DataError(
            f"{where} has the split {name!r}, but splits must be called train, val, which a search may see, or test, "
            f"which it may not; rename it{advice}"
        )
    return role


def labels_of(
    names: Sequence[Sequence[str]], class_names: Sequence[str], part: str, is_multi: bool = False
) -> np.ndarray:
    """Labels (n,): the place of each image's name among the class names; or bool (n, classes): which of them it has.

    names: those of each image. DataError for a name that is not among the class names.
    """
    number = {name: place for place, name in enumerate(class_names)}
    unknown = next((name for of_image in names for name in of_image if name not in number), None)
    if unknown is not None:
        raise unknown_class(part, unknown)
    if not is_multi:
        return np.array([number[name] for (name,) in names], dtype=np.int64)
    found = np.zeros((len(names), len(class_names)), dtype=bool)
    for row, of_image in zip(found, names, strict=True):
        row[[number[name] for name in of_image]] = True
    return found


def multi_label_fact(labels: np.ndarray) -> str:
    """What to know of labels (n, classes)."""
    per_image = labels.sum(axis=1)
    return (
        f"labels an image: {per_image.mean():.2g} on average, {counted(int((per_image == 0).sum()), 'image')} without; "
        "splits that are drawn are drawn at random, not by class"
    )


def check_two_classes(class_names: Sequence[str], data: object) -> None:
    if len(class_names) < 2:
        raise DataError(f"{data} must have at least two classes, got {', '.join(class_names) or 'none'}")
