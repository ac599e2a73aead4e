"""Labels of images, and the names of classes and splits that they come from.

Labels are int64 (N,), one class per image, or bool (N, classes), any number of labels
per image (multi-label targets). Their dimensions distinguish the two, so no setting can
contradict the labels. Mixed batches have MixedLabels.
"""

import functools
import itertools
import math
import re
import unicodedata
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hba.errors import DataError, HbaWarning

SPLITS = ("train", "val", "test")
_NAMES: Mapping[str, str] = {
    "train": "train|training|trn",
    "val": "val|valid|validation|validate|dev|devel|development",
    "test": "test|tests|testing|tst",
    "val or test": "eval|evaluation|holdout|heldout",
}
"""A name such as eval does not say whether a search may see the images, so the user
must decide.
"""
_FILLER = "(set|data|dataset|split|part|folder|images?|imgs?)"
"""Words that are ignored in the name of a split: training_set, test-images."""
WITH_POINT = re.compile(r"[+-]?(\d+\.\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)
"""Text that is a number with a decimal point, as a spreadsheet writes whole numbers of
a column with empty cells.
"""
MULTI_LABEL_ERROR = (
    "100 minus the mean average precision over the classes that have a positive"
)
"""The definition of the error in per cent if images have several labels;
training/criterion.py computes it.
"""


def is_multi_label(labels: np.ndarray | Tensor) -> bool:
    """Whether the labels of images, (N,) or (N, classes), can be several per image."""
    return labels.ndim == 2


@dataclass(frozen=True)
class MixedLabels:
    """Labels of a mixed batch and of its partners, (B,) or (B, classes). share () or
    (B,): of each image, in [0, 1].
    """

    labels: Tensor
    partners: Tensor
    share: Tensor

    def __len__(self) -> int:
        return len(self.labels)


def mean_over_labels(
    function: Callable[[Tensor], Tensor], labels: Tensor | MixedLabels
) -> Tensor:
    """The function's result (B,) or (); for mixed labels, the mean for images and
    partners, weighted by the shares.
    """
    if not isinstance(labels, MixedLabels):
        return function(labels)
    return labels.share * function(labels.labels) + (1 - labels.share) * function(
        labels.partners
    )


def error_of(labels: np.ndarray | Tensor) -> str | None:
    """The definition of the error for such labels; None for the share of wrong answers,
    which needs no explanation.
    """
    return MULTI_LABEL_ERROR if is_multi_label(labels) else None


def error_note(labels: np.ndarray | Tensor) -> str | None:
    """A sentence that defines loss and error if images have several labels; None if
    they have one.
    """
    error = error_of(labels)
    return (
        error
        and "images have several labels: loss is binary cross entropy,"
        f" error is {error}"
    )


def error_in_words(error: str | None) -> str:
    """` (100 minus ...)`, to append to the word error; empty for the share of wrong
    answers.
    """
    return "" if error is None else f" ({error})"


def checked_labels(labels: Any, n_images: int) -> Tensor:
    """Convert whole numbers, one per image, to int64 (N,), a matrix of 0 and 1 to bool
    (N, classes); else DataError.
    """
    tensor = as_tensor(labels, "labels")
    is_matrix = (
        tensor.ndim == 2
        and tensor.shape[1] > 1
        and bool(((tensor == 0) | (tensor == 1)).all())
    )
    is_whole = not (
        tensor.dtype == torch.bool or tensor.is_floating_point() or tensor.is_complex()
    )
    if tensor.shape[:1] != (n_images,) or not (
        is_matrix or (is_whole and tensor.ndim == 1)
    ):
        rule = (
            f"whole numbers, one for each of {n_images} images, or a matrix"
            f" ({n_images}, classes) of 0 and 1"
        )
        raise DataError(
            f"labels must be {rule}, got {tensor.dtype} of the shape"
            f" {tuple(tensor.shape)}"
        )
    if (
        is_matrix
        and tensor.dtype != torch.bool
        and n_images
        and bool((tensor.sum(dim=1) == 1).all())
    ):
        raise DataError(
            "labels are one-hot; give labels.argmax(1) for one class per image, or bool"
            " for several labels"
        )
    return tensor.bool() if is_matrix else tensor.long()


def as_tensor(values: Any, what: str) -> Tensor:
    """Convert a tensor, array or sequence of numbers to a tensor. DataError for
    anything else.
    """
    if isinstance(values, Tensor):
        return values
    try:
        array = np.asarray(values)
        # A copy in this machine's byte order, which PyTorch can share.
        return torch.from_numpy(
            np.array(array, dtype=array.dtype.newbyteorder("="), order="C")
        )
    except (TypeError, ValueError, RuntimeError):
        remedy = "to number text, use np.unique(names, return_inverse=True)[1]"
        raise DataError(
            f"{what} must be a tensor or array of numbers, got {type(values).__name__};"
            f" {remedy}"
        ) from None


@functools.cache
def split_called(name: str) -> str | None:
    """The meaning of a split's name: train, val, test or `val or test`; None for a name
    with other words.
    """
    patterns = {
        role: rf"({_FILLER}[\W_]+)?({names})([\W_]*{_FILLER})*[\W_]*"
        for role, names in _NAMES.items()
    }
    return next(
        (
            role
            for role, pattern in patterns.items()
            if re.fullmatch(pattern, name.casefold())
        ),
        None,
    )


def split_role(name: str, data: object) -> str:
    """train, val or test, by the name of a split. DataError for any other name."""
    role = split_called(name)
    if role not in SPLITS:
        rule = (
            "splits must be called train, val, which a search may see, or test, which"
            " it may not"
        )
        remedy = "rename it, or ignore a column of a table with --split-column none"
        raise DataError(f"{data} has the split {name!r}, but {rule}; {remedy}")
    return role


def class_name(label: Any, where: str) -> str:
    """The class name of a label, as a folder would be called: text, or a whole number,
    such as 3 for 3.0 and "3.0".

    DataError for a label that is empty or not a class. where: its place in messages,
    such as `row 7 of FILE`.
    """
    label = label.decode(errors="replace") if isinstance(label, bytes) else label
    name = composed(label.strip()) if isinstance(label, str) else ""
    number = float(name) if WITH_POINT.fullmatch(name) else label
    if isinstance(label, bool | np.bool_):
        name = str(bool(label))
    elif isinstance(number, Real):
        name = (
            str(round(number))
            if math.isfinite(number) and float(number).is_integer()
            else ""
        )
    if not name:
        remedy = (
            "mend or remove it; for several labels or none, such as cat;dog, use"
            " --label-separator"
        )
        raise DataError(
            f"{where} has the label {label!r:.40}, but a class is text or a whole"
            f" number: {remedy}"
        )
    return name


def classes_of(label: Any, separator: str | None, where: str) -> tuple[str, ...]:
    """The names of an image's classes: of a list each, of text those between
    separators, sorted; of another label one.

    Without a list and a separator, exactly one. DataError as class_name.
    """
    if isinstance(label, list):
        return tuple(sorted({class_name(one, where) for one in label}))
    if separator is None or not isinstance(label, str | None):
        return (class_name(label, where),)
    parts = filter(None, map(str.strip, (label or "").split(separator)))
    return tuple(sorted({class_name(one, where) for one in parts}))


def composed(name: str) -> str:
    """The name in Unicode's composed form (NFC): file systems and programs differ in
    how they write accents.
    """
    return unicodedata.normalize("NFC", name)


def warn_of_names(names: Sequence[str], data: object, is_multi: bool = False) -> None:
    """HbaWarning for all names of classes that look alike, and for one that looks like
    several, unless is_multi.
    """
    groups: dict[str, list[str]] = {}
    for name in names:
        key = re.sub(
            r"[\s_\u200b-\u200f\ufeff]+|(?<=[^\W\d])-",
            "",
            unicodedata.normalize("NFKC", name).casefold(),
        )
        groups.setdefault(re.sub(r"(?<![\d.,])0+(?=\d)", "", key) or name, []).append(
            name
        )
    if alike := [
        " and ".join(map(repr, group)) for group in groups.values() if len(group) > 1
    ]:
        text = (
            f"classes of {data} look alike but for case, spaces, _, - or leading zeros:"
            f" {', '.join(alike)}"
        )
        warnings.warn(
            f"{text}; rename those that are the same class", HbaWarning, stacklevel=2
        )
    for separator in () if is_multi else (";", "|", ","):
        parts = {
            name: {one.strip(" []'\"") for one in name.split(separator)}
            for name in names
        }
        counts = Counter(itertools.chain(*parts.values()))
        if lists := [
            name
            for name, own in parts.items()
            if len(own) > 1 and min(counts[one] for one in own) > 1
        ]:
            text = (
                f"labels of {data} such as {lists[0]!r} look like several labels of an"
                " image"
            )
            warnings.warn(
                f"{text}; use --label-separator {separator!r}, without brackets",
                HbaWarning,
                stacklevel=2,
            )


def numbered(
    names: Sequence[tuple[str, ...]],
    class_names: Sequence[str],
    part: str,
    is_multi: bool = False,
) -> np.ndarray:
    """Labels (n,), the index of each image's class, or bool (n, classes). DataError for
    a name of no class.
    """
    number = {name: place for place, name in enumerate(class_names)}
    if unknown := sorted(
        {name for of_image in names for name in of_image} - set(number)
    ):
        raise DataError(
            f"{part} has the class {unknown[0]!r}, which the training images do not"
            " have; rename it"
        )
    if not is_multi:
        return np.array([number[name] for (name,) in names], dtype=np.int64)
    return np.array(
        [[name in of_image for name in class_names] for of_image in names], dtype=bool
    )
