"""Labelled images in memory, and pools of them that are read only as far as asked."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from torchvision.transforms.v2 import functional as TF

OnRead = Callable[[int, int], None]
"""Called with (images read, images to read)."""


IMAGES_PER_SUM = 256


@dataclass(frozen=True)
class LabelledImages:
    """images: uint8 (N, 3, H, W). labels: int64 (N,). skipped: files that could not be read and were left out."""

    images: Tensor
    labels: Tensor
    skipped: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.labels)

    def to(self, device: torch.device) -> "LabelledImages":
        return LabelledImages(self.images.to(device), self.labels.to(device), self.skipped)

    def mean_color(self) -> tuple[float, ...]:
        """Mean of each channel, in [0, 1], rounded to 6 digits."""
        mean, _ = self._moments()
        return tuple(round(channel / 255, 6) for channel in mean.tolist())

    def std_color(self) -> tuple[float, ...]:
        """Standard deviation of each channel over all pixels, in [0, 1], rounded to 6 digits; 1 where it is 0."""
        mean, mean_square = self._moments()
        std = (mean_square - mean**2).clamp(min=0).sqrt()
        return tuple(round(channel / 255, 6) or 1.0 for channel in std.tolist())

    def _moments(self) -> tuple[Tensor, Tensor]:
        """Mean level and mean squared level per channel, float64; exact sums, a part of the images at a time."""
        total = torch.zeros(2, self.images.shape[1], dtype=torch.int64, device=self.images.device)
        for part in self.images.split(IMAGES_PER_SUM):
            levels = part.to(torch.int32)
            total += torch.stack([levels.sum(dim=(0, 2, 3)), (levels * levels).sum(dim=(0, 2, 3))])
        mean, mean_square = total.double() / (self.images.numel() / self.images.shape[1])
        return mean, mean_square

    def fingerprint(self) -> str:
        """A hash of pixels and labels: equal for equal data."""
        digest = hashlib.sha256()
        for tensor in (self.images, self.labels):
            digest.update(str(tuple(tensor.shape)).encode())
            digest.update(tensor.cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()[:16]


class Pool(Protocol):
    """Images whose labels are known before any image is read."""

    @property
    def labels(self) -> np.ndarray: ...

    def restricted(self, keep: Sequence[int]) -> "Pool":
        """Only the images with these labels, which are renumbered in the given order."""
        ...

    def read(self, indices: np.ndarray, image_size: int, on_read: OnRead | None = None) -> LabelledImages:
        """The images at these indices, resized to image_size x image_size."""
        ...


def of_classes(labels: np.ndarray, keep: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Where the labels are one of `keep`, and which one of them each is, counted from 0."""
    number = np.full(max(labels.max(initial=0), *keep) + 1, -1)
    number[list(keep)] = np.arange(len(keep))
    renumbered = number[labels]
    chosen = np.flatnonzero(renumbered >= 0)
    return chosen, renumbered[chosen]


@dataclass(frozen=True)
class ArrayPool:
    """A pool that is in memory: images uint8 (N, C, H, W) with C 1 or 3."""

    images: Tensor
    labels: np.ndarray

    def restricted(self, keep: Sequence[int]) -> "ArrayPool":
        chosen, labels = of_classes(self.labels, keep)
        return ArrayPool(self.images[torch.from_numpy(chosen)], labels)

    def read(self, indices: np.ndarray, image_size: int, on_read: OnRead | None = None) -> LabelledImages:
        images = self.images[torch.from_numpy(indices)]
        if images.shape[-2:] != (image_size, image_size):
            images = TF.resize(images, [image_size, image_size], antialias=True)
        if images.shape[1] == 1:
            images = images.repeat(1, 3, 1, 1)
        return LabelledImages(images, torch.from_numpy(self.labels[indices]).long())


@dataclass(frozen=True)
class Source:
    """A dataset: its training pool, and the validation and test pools where it brings its own.

    The test pool is a function, so that a search, which never calls it, cannot even open its files.
    test_size: how many images of the training pool become the test split where there is no test pool.
    """

    name: str
    class_names: tuple[str, ...]
    train: Pool
    val: Pool | None = None
    test: Callable[[], Pool] | None = None
    test_size: int | None = None
