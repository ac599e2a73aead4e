"""Labels of images, and the names of classes and splits that they come from.

The forms of labels are those of hba.tasks.
"""

import functools
import itertools
import math
import re
import unicodedata
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
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


def error_in_words(error: str | None) -> str:
    """` (100 minus ...)`, to append to the word error.

    It is empty for the share of wrong answers.
    """
    return "" if error is None else f" ({error})"


def checked_labels(labels: Any, shape: tuple[int, ...]) -> Tensor:
    """Convert labels to int64 (N,), to bool (N, classes), to float32 (N,), or to masks
    uint8 (N, H, W).

    Args:
        labels: Whole numbers, one per image, a matrix of 0 and 1, finite floating
            point, one per image, or masks of numbers from 0 to 255.
        shape: Of the images, (N, C, H, W).

    Raises:
        DataError: For others.
    """
    tensor = as_tensor(labels, "labels")
    n_images = shape[0]
    if tensor.shape == (n_images, *shape[2:]):
        is_byte = tensor.dtype == torch.uint8 or bool(
            (tensor == tensor.to(torch.uint8)).all()
        )
        if is_byte:
            return tensor.to(torch.uint8)
    is_matrix = (
        tensor.ndim == 2
        and tensor.shape[1] > 1
        and bool(((tensor == 0) | (tensor == 1)).all())
    )
    if tensor.shape == (n_images,) and tensor.is_floating_point():
        if not bool(tensor.isfinite().all()):
            raise DataError("numbers as labels must be finite; leave out the others")
        return tensor.float()
    is_whole = not (
        tensor.dtype == torch.bool or tensor.is_floating_point() or tensor.is_complex()
    )
    if tensor.shape[:1] != (n_images,) or not (
        is_matrix or (is_whole and tensor.ndim == 1)
    ):
        rule = (
            f"whole numbers or floating point, one for each of {n_images} images, a"
            f" matrix ({n_images}, classes) of 0 and 1, or masks of the size of the"
            " images with numbers from 0 to 255"
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


def as_tensor(values: Any, name: str) -> Tensor:
    """Convert a tensor, array or sequence of numbers to a tensor.

    Args:
        values: The numbers.
        name: What they are, in messages.

    Raises:
        DataError: For anything else.
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
            f"{name} must be a tensor or array of numbers, got {type(values).__name__};"
            f" {remedy}"
        ) from None


@functools.cache
def split_called(name: str) -> str | None:
    """The meaning of a split's name: train, val, test or `val or test`.

    None for a name with other words.
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
    """The class name of a label, as a folder would be called.

    This is text, or a whole number, such as 3 for 3.0 and "3.0".

    Args:
        label: A cell of a table, or an element of an array.
        where: Its place in messages, such as `row 7 of FILE`.

    Raises:
        DataError: For a label that is empty or not a class.
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
            " --label-separator; to predict numbers, use a table with --target"
        )
        raise DataError(
            f"{where} has the label {label!r:.40}, but a class is text or a whole"
            f" number: {remedy}"
        )
    return name


def number_text(label: Any, where: str) -> str:
    """A finite number as text.

    Args:
        label: A cell of a table, or an element of an array.
        where: Its place in messages, such as `row 7 of FILE`.

    Raises:
        DataError: For anything else.
    """
    try:
        number = math.nan if isinstance(label, bool) else float(label)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        cell = "an empty cell" if label is None else f"{label!r:.40}"
        raise DataError(
            f"{where} has {cell} as the target, which must be a finite number; mend it,"
            " or remove the row"
        )
    return repr(number)


def classes_of(label: Any, separator: str | None, where: str) -> tuple[str, ...]:
    """The names of an image's classes.

    Those of a list are sorted, as are those of text, between separators; another label
    is one name. Without a list and a separator, there is exactly one.

    Args:
        label: As class_name takes it, or a list of such labels.
        separator: Between labels in a text.
        where: As for class_name.

    Raises:
        DataError: As class_name.
    """
    if isinstance(label, list):
        return tuple(sorted({class_name(entry, where) for entry in label}))
    if separator is None or not isinstance(label, str | None):
        return (class_name(label, where),)
    parts = filter(None, map(str.strip, (label or "").split(separator)))
    return tuple(sorted({class_name(entry, where) for entry in parts}))


def composed(name: str) -> str:
    """The name in Unicode's composed form (NFC).

    File systems and programs differ in how they write accents.
    """
    return unicodedata.normalize("NFC", name)


def warn_of_names(names: Sequence[str], data: object, is_multi: bool = False) -> None:
    """Warn of names of classes that look alike, or like several labels.

    HbaWarning for all names that look alike, and for one that looks like several,
    unless is_multi.
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
        problem = (
            f"classes of {data} look alike but for case, spaces, _, - or leading zeros:"
            f" {', '.join(alike)}"
        )
        warnings.warn(
            f"{problem}; rename those that are the same class", HbaWarning, stacklevel=2
        )
    for separator in () if is_multi else (";", "|", ","):
        candidates = {
            name: {label.strip(" []'\"") for label in name.split(separator)}
            for name in names
        }
        counts = Counter(itertools.chain(*candidates.values()))
        if lists := [
            name
            for name, labels in candidates.items()
            if len(labels) > 1 and min(counts[label] for label in labels) > 1
        ]:
            problem = (
                f"labels of {data} such as {lists[0]!r} look like several labels of an"
                " image"
            )
            warnings.warn(
                f"{problem}; use --label-separator {separator!r}, without brackets",
                HbaWarning,
                stacklevel=2,
            )


def numbered(
    names: Sequence[tuple[str, ...]],
    class_names: Sequence[str],
    source: str,
    is_multi: bool = False,
) -> np.ndarray:
    """Labels (n,), the index of each image's class, or bool (n, classes).

    Args:
        names: The classes of each image.
        class_names: Of the training images, in order.
        source: Of the images, for messages.
        is_multi: Whether an image may have several labels.

    Raises:
        DataError: For a name of no class.
    """
    number = {name: place for place, name in enumerate(class_names)}
    if unknown := sorted(
        {name for image_names in names for name in image_names} - set(number)
    ):
        raise DataError(
            f"{source} has the class {unknown[0]!r}, which the training images do not"
            " have; rename it"
        )
    if not is_multi:
        return np.array([number[name] for (name,) in names], dtype=np.int64)
    return np.array(
        [[name in image_names for name in class_names] for image_names in names],
        dtype=bool,
    )
