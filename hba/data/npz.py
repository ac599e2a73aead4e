"""A NumPy .npz file of images and labels, with or without splits."""

import lzma
import re
import struct
import zipfile
import zlib
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from hba.data.checks import CHANNELS, MOST_CHANNELS, channels_axis
from hba.data.columns import check_two_classes, class_name, multi_label_fact, numbered, split_role
from hba.data.folder import fitted
from hba.data.images import LabelledImages, OnRead, Source, of_classes
from hba.data.labels import is_multi_label
from hba.data.levels import Deep, Levels, values_in_8_bits
from hba.data.pictures import PicturePool, restricted_unused
from hba.data.skipped import SkippedFile
from hba.errors import DataError

IMAGES, LABELS = ("images", "x"), ("labels", "y")
"""What arrays are called, with or without a split's name before or after it: train_images, x_test."""
# RuntimeError is what zipfile says of what it cannot do, as of an encrypted file.
READ_ERRORS = (
    *(OSError, ValueError, EOFError, KeyError, RuntimeError, SyntaxError, struct.error),
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError),
)


@dataclass(frozen=True, eq=False)
class Stored:
    """The images of one part, which are read when they are first needed."""

    file: Path
    name: str
    n_labels: int

    @cached_property
    def images(self) -> np.ndarray:
        """(N, H, W) or (N, H, W, C) with C above 1. DataError for anything else."""
        images = _array(self.file, self.name)
        where = f"{self.name} of {self.file}"
        axis = channels_axis(images.shape, first=3)
        if axis is None and (images.ndim != 3 or 0 in images.shape[1:]):
            raise DataError(
                f"{where} must have the shape (N, H, W), (N, H, W, C) or (N, C, H, W), with 1, 3 or fewer channels "
                f"than pixels a side, at most {MOST_CHANNELS}, got {images.shape}"
            )
        if axis == 1:
            images = images.transpose(0, 2, 3, 1)
        if len(images) != self.n_labels:
            raise DataError(f"{where} must have one image for each of the {self.n_labels} labels, got {len(images)}")
        if images.dtype.kind not in "uif":
            raise DataError(f"{where} must hold numbers, best uint8, got {images.dtype}")
        return images[..., 0] if images.ndim == 4 and images.shape[3] == 1 else images


@dataclass(frozen=True)
class NpzPool(PicturePool):
    """Images of an array at these numbers. Levels of more than 8 bits are those of any type but uint8."""

    stored: Stored
    numbers: np.ndarray
    labels: np.ndarray
    skip_broken: bool
    unused: tuple[tuple[int, SkippedFile], ...] = ()
    levels: Levels | None = None

    def restricted(self, keep: Sequence[int]) -> "NpzPool":
        chosen, labels = of_classes(self.labels, keep)
        unused = restricted_unused(self.unused, keep)
        return replace(self, numbers=self.numbers[chosen], labels=labels, unused=unused)

    def pixels(self, index: int) -> np.ndarray:
        """(H, W) or (H, W, C), of the array's own type."""
        return np.ascontiguousarray(self.stored.images[self.numbers[index]])

    def picture(self, index: int, image_size: int) -> Tensor | str:
        values = self.pixels(index)
        if values.dtype != np.uint8:
            if self.levels is None:
                return f"it is {values.dtype}, and no levels say what is black and white"
            try:
                values = values_in_8_bits(values.astype(np.float64), self.levels)
            except ValueError as error:
                return str(error)
        if values.ndim == 3 and values.shape[2] not in CHANNELS:
            channels = (fitted(Image.fromarray(channel), image_size)[:1] for channel in np.moveaxis(values, 2, 0))
            return torch.cat(list(channels))
        return fitted(Image.fromarray(values), image_size)

    def read(self, indices: np.ndarray, image_size: int, on_read: OnRead | None = None) -> LabelledImages:
        # Before several threads ask for it.
        self.stored.images.shape  # noqa: B018
        return super().read(indices, image_size, on_read)

    def name_of(self, index: int) -> str:
        return f"number {self.numbers[index]} of {self.stored.name} in {self.stored.file}"

    def deep(self, indices: np.ndarray) -> Generator[Deep]:
        kind = self.stored.images.dtype.kind
        for index in indices if self.stored.images.dtype != np.uint8 else ():
            values = self.pixels(index)
            lowest, highest = float(values.min()), float(values.max())
            if np.isfinite([lowest, highest]).all():
                yield Deep(self.name_of(index), "float" if kind == "f" else "whole", lowest, highest)

    def scaled(self, levels: Levels | None) -> "NpzPool":
        return replace(self, levels=levels)


def npz_source(file: Path, skip_broken: bool = False) -> Source:
    """Arrays `images` and `labels`, or such for each split: `train_images`, `train_labels`, `test_images`, ...

    Arrays of `x` and `y` are the same. images (N, H, W) or (N, H, W, C); labels (N,) or (N, 1), numbers or names, which
    are sorted as text, as a folder's classes are. Images come class by class, each class in the order of the array.
    Labels (N, classes) of 0 and 1 are several of an image; their classes are called by the number of the column, and
    images keep their order. The images of a test split are not read before they are asked for. Raises DataError for
    what cannot be used.
    """
    parts = _parts(file)
    if "train" not in parts:
        raise DataError(
            f"{file} must hold the arrays images and labels, or train_images and train_labels (and val_, test_), got "
            f"{', '.join(_names(file)) or 'none'}"
        )
    train_labels = _array(file, parts["train"][1])
    is_matrix = _is_matrix(train_labels)
    if is_matrix:
        class_names = tuple(map(str, range(train_labels.shape[1])))
    else:
        class_names = tuple(sorted(set(_class_labels(file, parts["train"][1]))))
        check_two_classes(class_names, file)

    def pool(part: str) -> NpzPool:
        images, labels_array = parts[part]
        if is_matrix:
            labels = _matrix(file, labels_array, len(class_names))
            order = np.arange(len(labels))
        else:
            labels = numbered(_class_labels(file, labels_array), class_names, f"the split {part} of {file}")
            order = labels.argsort(stable=True)
        return NpzPool(Stored(file, images, len(labels)), order, labels[order], skip_broken)

    train = pool("train")
    return Source(
        name=str(file),
        class_names=class_names,
        train=train,
        val=pool("val") if "val" in parts else None,
        test=partial(pool, "test") if "test" in parts else None,
        facts=(multi_label_fact(train.labels),) if is_matrix else (),
    )


def _parts(file: Path) -> Mapping[str, tuple[str, str]]:
    """By split, the names of its arrays of images and labels. DataError where one of the two is missing."""
    found: dict[str, dict[str, str]] = {}
    for name in _names(file):
        words = [word for word in re.split(r"[\W_]+", name.casefold()) if word]
        kinds = [kind for kind, known in (("images", IMAGES), ("labels", LABELS)) if set(words) & set(known)]
        if len(kinds) != 1:
            continue
        rest = " ".join(word for word in words if word not in (*IMAGES, *LABELS))
        role = split_role(rest, f"the array {name!r} of {file}") if rest else "train"
        if kinds[0] in found.setdefault(role, {}):
            raise DataError(f"{file} has two arrays of {role} {kinds[0]}, {found[role][kinds[0]]} and {name}: keep one")
        found[role][kinds[0]] = name
    for role, arrays in found.items():
        if len(arrays) < 2:
            (name,) = arrays.values()
            other = "labels" if "images" in arrays else "images"
            raise DataError(f"{file} has the array {name}, but no {other} of {role} beside it; add them")
    return {role: (arrays["images"], arrays["labels"]) for role, arrays in found.items()}


def _names(file: Path) -> list[str]:
    return list(_opened(file, lambda arrays: arrays.files))


def _array(file: Path, name: str) -> np.ndarray:
    return np.asarray(_opened(file, lambda arrays: arrays[name]))


def _opened(file: Path, ask: Any) -> Any:
    """What `ask` says of the opened file. Nothing in it can run code."""
    if file.is_file() and not zipfile.is_zipfile(file):
        raise DataError(f"cannot read the arrays of {file} (it is no .npz file); save them anew by numpy.savez")
    try:
        with np.load(file, allow_pickle=False) as arrays:
            return ask(arrays)
    except READ_ERRORS as error:
        text = next(iter(str(error).splitlines()), type(error).__name__)
        reason = "it holds Python objects, which could run code" if "allow_pickle" in text else text
        raise DataError(f"cannot read the arrays of {file} ({reason}); save them anew by numpy.savez") from None


def _is_matrix(labels: np.ndarray) -> bool:
    """Whether it has a column for each of several classes."""
    return is_multi_label(labels) and labels.shape[1] > 1


def _matrix(file: Path, name: str, n_classes: int) -> np.ndarray:
    """Labels (N, classes) as truth values. DataError for another shape and other numbers than 0 and 1."""
    labels = _array(file, name)
    where = f"{name} of {file}"
    if not is_multi_label(labels) or not len(labels) or labels.shape[1] != n_classes:
        raise DataError(f"{where} must have the shape (N, {n_classes}), as the labels of train, got {labels.shape}")
    wrong = labels[(labels != 0) & (labels != 1)]
    if wrong.size:
        raise DataError(
            f"{where} must hold 0 and 1 only, whether an image has the class of the column, got {wrong[0]!s}; for one "
            "class of each image give labels of the shape (N,)"
        )
    return labels.astype(bool)


def _class_labels(file: Path, name: str) -> list[str]:
    """What each label of the array calls its class."""
    labels = _array(file, name)
    where = f"{name} of {file}"
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim == 1 and not len(labels):
        raise DataError(f"{where} must hold a label for each image, and is empty")
    if labels.ndim != 1:
        raise DataError(f"{where} must have the shape (N,), (N, 1) or (N, classes), got {labels.shape}")
    try:
        names = [class_name(label) for label in labels.tolist()]
    except ValueError as error:
        raise DataError(f"{where} has {error}") from None
    if None in names:
        raise DataError(f"{where} has no label for number {names.index(None)}: remove it and its image")
    return [str(one) for one in names]
