"""Images in arrays: in memory, or in NumPy's .npz files."""

import re
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torchvision.transforms.v2 import functional as TF

from hba.data.images import CHANNELS, MOST_CHANNELS, channels_axis
from hba.data.labels import check_truth_values, is_multi_label
from hba.data.leakage import ImageHash, hash_of_pixels
from hba.data.pool import Items, Pool, ReadPart, Source
from hba.data.reading import Deep, Levels, fitted, to_8_bits
from hba.data.table import check_two_classes, class_name, multi_label_fact, numbered, split_role
from hba.errors import DataError
from hba.utils.files import reason_of

IMAGES, LABELS = ("images", "x"), ("labels", "y")
"""What arrays are called, with or without a split's name before or after it: train_images, x_test."""


@dataclass(frozen=True, eq=False)
class ArrayItems(Items):
    """Images in memory, uint8 (N, C, H, W); one channel becomes three."""

    images: Tensor

    def read_batch(self, numbers: np.ndarray, image_size: int, levels: Levels | None) -> ReadPart:
        images = self.images[torch.from_numpy(numbers)]
        if images.shape[-2:] != (image_size, image_size):
            images = TF.resize(images, [image_size, image_size], antialias=True)
        return (images.repeat(1, 3, 1, 1) if images.shape[1] == 1 else images), []

    def name(self, number: int) -> str:
        return str(number)

    def hash(self, number: int) -> ImageHash:
        return hash_of_pixels(self.images[number].numpy())


@dataclass(frozen=True, eq=False)
class NpzItems(Items):
    """The images of an array in a file, which is read when it is first needed. All types but uint8 count as deep."""

    file: Path
    array: str
    n_labels: int

    @cached_property
    def images(self) -> np.ndarray:
        """(N, H, W) or (N, H, W, C) with C above 1. DataError for anything else."""
        images = _array(self.file, self.array)
        where = f"{self.array} of {self.file}"
        axis = channels_axis(images.shape, first=3)
        if axis is None and (images.ndim != 3 or 0 in images.shape[1:]):
            raise DataError(
                f"{where} must have the shape (N, H, W), (N, H, W, C) or (N, C, H, W), with 1, 3 or fewer channels "
                f"than pixels a side, at most {MOST_CHANNELS}, got {images.shape}"
            )
        if len(images) != self.n_labels:
            raise DataError(f"{where} must have one image for each of the {self.n_labels} labels, got {len(images)}")
        if images.dtype.kind not in "uif":
            raise DataError(f"{where} must hold numbers, best uint8, got {images.dtype}")
        images = images.transpose(0, 2, 3, 1) if axis == 1 else images
        return images[..., 0] if images.ndim == 4 and images.shape[3] == 1 else images

    @property
    def n_channels(self) -> int:  # type: ignore[override]
        return self.images.shape[3] if self.images.ndim == 4 else 3

    def name(self, number: int) -> str:
        return f"number {number} of {self.array} in {self.file}"

    def read(self, number: int, image_size: int, levels: Levels | None) -> Tensor:
        values = np.ascontiguousarray(self.images[number])
        if values.dtype != np.uint8:
            if levels is None and np.isfinite(values).all():
                raise DataError(f"it is {values.dtype}, and no levels say what is black and white")
            values = to_8_bits(values.astype(np.float64), levels or (0, 1))
        if values.ndim == 3 and values.shape[2] not in CHANNELS:
            channels = (fitted(Image.fromarray(channel), image_size)[:1] for channel in np.moveaxis(values, 2, 0))
            return torch.cat(list(channels))
        return fitted(Image.fromarray(values), image_size)

    def deep(self, number: int) -> Deep | None:
        values = self.images[number]
        if values.dtype == np.uint8 or not np.isfinite(values).all():
            return None
        return Deep(self.name(number), values.dtype.kind == "f", float(values.min()), float(values.max()))

    def hash(self, number: int) -> ImageHash:
        pixels = self.images[number]
        return hash_of_pixels(pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1))


def npz_source(file: Path, skip_broken: bool = False) -> Source:
    """Arrays `images` and `labels`, or such for each split: `train_images`, `train_labels`, `test_images`, ...

    Arrays `x` and `y` are the same. images (N, H, W) or (N, H, W, C); labels (N,) or (N, 1), numbers or names, which
    are sorted as text, as the classes of a folder are. Images come class by class, each class in the order of the
    array. Labels (N, classes) of 0 and 1 are several of an image; their classes are named by the number of the column,
    and images keep their order. The images of a test split are not read before they are asked for.
    DataError for files that cannot be used.
    """
    parts = _parts(file)
    labels_of = {part: _array(file, name) for part, (_, name) in parts.items()}
    is_matrix = is_multi_label(labels_of["train"]) and labels_of["train"].shape[1] > 1
    if is_matrix:
        class_names = tuple(map(str, range(labels_of["train"].shape[1])))
    else:
        class_names = tuple(sorted(set(_class_labels(labels_of["train"], f"{parts['train'][1]} of {file}"))))
        check_two_classes(class_names, file)

    def pool(part: str) -> Pool:
        images, name = parts[part]
        where, labels = f"{name} of {file}", labels_of[part]
        if is_matrix:
            if not is_multi_label(labels) or not len(labels) or labels.shape[1] != len(class_names):
                raise DataError(
                    f"{where} must have the shape (N, {len(class_names)}), as train has, got {labels.shape}"
                )
            check_truth_values(labels, where)
            labels, order = labels.astype(bool), np.arange(len(labels))
        else:
            labels = numbered(_class_labels(labels, where), class_names, f"the split {part} of {file}")
            order = labels.argsort(stable=True)
        return Pool(NpzItems(file, images, len(labels)), labels[order], skip_broken, numbers=order)

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
    """By split, the names of its arrays of images and of labels. DataError where one of the two is missing."""
    names = list(_opened(file, lambda arrays: arrays.files))
    found: dict[str, dict[str, str]] = {}
    for name in names:
        words = [word for word in re.split(r"[\W_]+", name.casefold()) if word]
        kinds = [kind for kind, known in (("images", IMAGES), ("labels", LABELS)) if set(words) & set(known)]
        if len(kinds) == 1:
            rest = " ".join(word for word in words if word not in (*IMAGES, *LABELS))
            role = split_role(rest, f"the array {name!r} of {file}") if rest else "train"
            if found.setdefault(role, {}).setdefault(kinds[0], name) != name:
                raise DataError(f"{file} has two arrays of {role} {kinds[0]}, {found[role][kinds[0]]} and {name}")
    lacking = [role for role, arrays in found.items() if len(arrays) < 2]
    if lacking or "train" not in found:
        raise DataError(
            f"{file} must hold the arrays images and labels, or train_images and train_labels (and val_, test_), got "
            f"{', '.join(names) or 'none'}"
        )
    return {role: (arrays["images"], arrays["labels"]) for role, arrays in found.items()}


def _array(file: Path, name: str) -> np.ndarray:
    return np.asarray(_opened(file, lambda arrays: arrays[name]))


def _opened(file: Path, ask: Callable[[Any], Any]) -> Any:
    """What `ask` returns for the opened file. Nothing in it can run code."""
    try:
        if not zipfile.is_zipfile(file):
            raise ValueError("it is no .npz file")
        with np.load(file, allow_pickle=False) as arrays:
            return ask(arrays)
    except Exception as error:
        # A damaged file makes NumPy and zipfile raise exceptions of any kind.
        reason = "it holds Python objects, which could run code" if "allow_pickle" in str(error) else reason_of(error)
        raise DataError(f"cannot read the arrays of {file} ({reason}); save them anew by numpy.savez") from None


def _class_labels(labels: np.ndarray, where: str) -> list[str]:
    """The name of each label's class."""
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1 or not len(labels):
        raise DataError(f"{where} must have the shape (N,), (N, 1) or (N, classes), not empty, got {labels.shape}")
    try:
        names = [class_name(label) for label in labels.tolist()]
    except ValueError as error:
        raise DataError(f"{where} has {error}") from None
    if None in names:
        raise DataError(f"{where} has no label for number {names.index(None)}: remove it and its image")
    return [str(name) for name in names]
