"""Labelled images, and pools of them, which are read only as far as asked."""

import hashlib
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np
import torch
from torch import Tensor
from torchvision.transforms.v2 import functional as TF

from hba.data.checks import checked_images, checked_labels
from hba.data.labels import as_tensor, is_multi_label
from hba.data.skipped import SkippedFile

OnRead = Callable[[int, int], None]
"""Called with (images read, images to read)."""

Batch = tuple[Tensor, Tensor]
"""Images uint8 (B, C, H, W) and labels, int64 (B,) or bool (B, classes), on the device."""

Colors = tuple[float, ...]

CPU = torch.device("cpu")

IMAGES_PER_SUM = 256
ALL = slice(None)


class Measurable(Protocol):
    """Labelled images that a network can be measured on."""

    @property
    def device(self) -> torch.device: ...

    @property
    def image_size(self) -> int:
        """Side in pixels."""
        ...

    @property
    def skipped(self) -> tuple[str, ...]:
        """Files that could not be read and were left out, as far as they were tried."""
        ...

    @property
    def left_out(self) -> tuple[SkippedFile, ...]:
        """The same, each with the reason."""
        ...

    def __len__(self) -> int: ...

    def to(self, device: torch.device) -> Self: ...

    @property
    def labels(self) -> Tensor: ...

    def once(self, batch_size: int, share: slice = ALL) -> Generator[Batch]:
        """Every image that can be read, once, in their order; the last batch may be smaller. share: of which batches;
        the others are not read.
        """
        ...

    def share_left_out(self) -> None:
        """Know of the files that other processes could not read. All processes call it."""
        ...

    def close(self) -> None:
        """End everything that is still reading for a batch."""
        ...


class Images(Measurable, Protocol):
    """Labelled images that a network can be trained on too, in memory or in files."""

    @property
    def n_channels(self) -> int: ...

    def batches(self, order: Tensor, batch_size: int, start: int = 0) -> Generator[Batch]:
        """The images at the indices `order` (n,), in batches of exactly batch_size, from batch number `start` on."""
        ...

    def mean_color(self) -> Colors:
        """Mean of each channel, in [0, 1], rounded to 6 digits."""
        ...

    def std_color(self) -> Colors:
        """Standard deviation of each channel over all pixels, in [0, 1], rounded to 6 digits; 1 where it is 0."""
        ...

    def fingerprint(self) -> str:
        """A hash: equal for equal data."""
        ...


@dataclass(frozen=True, repr=False)
class LabelledImages:
    """Images in memory, uint8 (N, C, H, W); labels int64 (N,), or of several labels an image bool
    (N, classes). left_out: files that could not be read.

    Images may be given as floating point in [0, 1], channels last, or as an array, and labels of any integer type,
    a matrix as 0 and 1: they are converted. DataError for anything else.
    """

    images: Tensor
    labels: Tensor
    left_out: tuple[SkippedFile, ...] = ()

    def __post_init__(self) -> None:
        images = checked_images(self.images)
        object.__setattr__(self, "images", images)
        object.__setattr__(self, "labels", checked_labels(self.labels, len(images)))

    def __repr__(self) -> str:
        size = "x".join(str(length) for length in self.images.shape[1:])
        return f"LabelledImages({len(self)} images of {size}, {self.device})"

    @property
    def skipped(self) -> tuple[str, ...]:
        return tuple(item.path for item in self.left_out)

    @property
    def device(self) -> torch.device:
        return self.images.device

    @property
    def image_size(self) -> int:
        return self.images.shape[-1]

    @property
    def n_channels(self) -> int:
        return self.images.shape[1]

    def __len__(self) -> int:
        return len(self.labels)

    def in_color(self) -> "LabelledImages":
        """One channel becomes three equal ones, so networks by name have colour images; others stay."""
        return self if self.n_channels != 1 else replace(self, images=self.images.repeat(1, 3, 1, 1))

    def to(self, device: torch.device) -> "LabelledImages":
        return LabelledImages(self.images.to(device), self.labels.to(device), self.left_out)

    def once(self, batch_size: int, share: slice = ALL) -> Generator[Batch]:
        parts = self.images.split(batch_size), self.labels.split(batch_size)
        yield from zip(*(part[share] for part in parts), strict=True)

    def batches(self, order: Tensor, batch_size: int, start: int = 0) -> Generator[Batch]:
        for number in range(start, len(order) // batch_size):
            chosen = order[number * batch_size :][:batch_size]
            yield self.images[chosen], self.labels[chosen]

    def share_left_out(self) -> None:
        """All have read the same."""

    def close(self) -> None:
        """Nothing is being read."""

    def mean_color(self) -> Colors:
        return mean_and_std(self.images.split(IMAGES_PER_SUM))[0]

    def std_color(self) -> Colors:
        return mean_and_std(self.images.split(IMAGES_PER_SUM))[1]

    def fingerprint(self) -> str:
        """A hash of pixels and labels."""
        digest = hashlib.sha256()
        for tensor in (self.images, self.labels):
            digest.update(str(tuple(tensor.shape)).encode())
            digest.update(tensor.cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()[:16]


def mean_and_std(parts: Iterable[Tensor]) -> tuple[Colors, Colors]:
    """Mean and standard deviation of each channel, in [0, 1], over all pixels of all parts (b, C, H, W), rounded to 6
    digits; a deviation of 0 becomes 1. The sums are exact, so it does not matter where the parts end.
    """
    total, n_pixels = torch.zeros((), dtype=torch.int64), 0
    for part in parts:
        levels = part.to(torch.int32)
        total = total + torch.stack([levels.sum(dim=(0, 2, 3)), (levels * levels).sum(dim=(0, 2, 3))])
        n_pixels += part.numel() // part.shape[1]
    mean, mean_square = total.double() / n_pixels
    std = (mean_square - mean**2).clamp(min=0).sqrt()
    return (
        tuple(round(channel / 255, 6) for channel in mean.tolist()),
        tuple(round(channel / 255, 6) or 1.0 for channel in std.tolist()),
    )


class Pool(Protocol):
    """Images whose labels are known before any image is read."""

    @property
    def labels(self) -> np.ndarray:
        """int64 (N,), or bool (N, classes)."""
        ...

    @property
    def left_out(self) -> tuple[SkippedFile, ...]:
        """Files that are no images, and classes without any."""
        ...

    def restricted(self, keep: Sequence[int]) -> "Pool":
        """Only the images with these labels, which are renumbered in the given order."""
        ...

    def read(self, indices: np.ndarray, image_size: int, on_read: OnRead | None = None) -> LabelledImages:
        """The images at these indices, resized to image_size x image_size."""
        ...


def of_classes(labels: np.ndarray, keep: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Where the labels are one of `keep`, and which one of them each is, counted from 0.

    Of several labels an image, all images stay, with these labels: one that has none of them is one without a label.
    """
    if is_multi_label(labels):
        return np.arange(len(labels)), labels[:, list(keep)]
    number = np.full(max(labels.max(initial=0), *keep) + 1, -1)
    number[list(keep)] = np.arange(len(keep))
    renumbered = number[labels]
    chosen = np.flatnonzero(renumbered >= 0)
    return chosen, renumbered[chosen]


@dataclass(frozen=True)
class ArrayPool:
    """A pool that is in memory: images uint8 (N, C, H, W)."""

    images: Tensor
    labels: np.ndarray

    @property
    def left_out(self) -> tuple[SkippedFile, ...]:
        return ()

    def restricted(self, keep: Sequence[int]) -> "ArrayPool":
        chosen, labels = of_classes(self.labels, keep)
        return ArrayPool(self.images[torch.from_numpy(chosen)], labels)

    def read(self, indices: np.ndarray, image_size: int, on_read: OnRead | None = None) -> LabelledImages:
        images = self.images[torch.from_numpy(indices)]
        if images.shape[-2:] != (image_size, image_size):
            images = TF.resize(images, [image_size, image_size], antialias=True)
        if images.shape[1] == 1:
            images = images.repeat(1, 3, 1, 1)
        return LabelledImages(images, as_tensor(self.labels[indices]))


@dataclass(frozen=True)
class Source:
    """A dataset: its training pool, and the validation and test pools where it brings its own.

    The test pool is a function. A search never calls it, and so cannot even open its files. check_test: where
    calling it would read the images, says without it whether they are there, by a DataError where they are not.
    test_size: how many images of the training pool become the test split where there is no test pool. left_out: files
    beside the pools. facts: what a person should be told of how the folder was read, each a short sentence.
    """

    name: str
    class_names: tuple[str, ...]
    train: Pool
    val: Pool | None = None
    test: Callable[[], Pool] | None = None
    test_size: int | None = None
    check_test: Callable[[], None] | None = None
    left_out: tuple[SkippedFile, ...] = ()
    facts: tuple[str, ...] = ()
