"""Pools of images whose labels are known before an image is read, and the sources of
pools.
"""

import contextlib
import hashlib
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from hba.data.images import UNSCALED, LabelledImages, OnRead, Scale
from hba.data.labels import composed, numbered, warn_of_names
from hba.data.leakage import ImageHash, Kind, hash_of_file, size_of
from hba.data.reading import (
    Levels,
    SkippedFile,
    is_deep,
    is_unread_image,
    opened,
    read_image,
    to_8_bits,
)
from hba.errors import DataError
from hba.tasks import task_of
from hba.utils.text import first_of

N_READERS = 8
"""Threads that read images into memory."""
AT_ONCE = 16
"""Images that a thread reads before it hands them over."""
CHECKED = 100
"""Number of images whose levels are checked."""
NEARLY_BLACK = 25
"""A level of 255; images of 12 bits on a scale of 16 bits end at 16."""
FEW_BROKEN = 5
"""By default, at most so many images of a part are left out, or BROKEN_SHARE of them,
whichever is more.
"""
BROKEN_SHARE = 0.01
"""Share of the images of a part, see FEW_BROKEN."""

ReadPart = tuple[Tensor, list[tuple[int, SkippedFile]]]
"""Images uint8 (B, C, H, W), and the indices of those that could not be read, which are
black, with the reasons.
"""


class Items(Protocol):
    """Images by number. Each process that reads images gets a copy."""

    hashed_by: Kind
    """What images are identified by, see leakage.py."""
    can_stream: bool = False
    """Whether images can be read again in each epoch."""
    known_broken: Mapping[int, SkippedFile] | None = None
    """Unreadable images by number; None if they are unknown before reading."""

    @property
    def n_channels(self) -> int:
        """Number of channels of the images that `read` returns."""

    def name(self, number: int) -> str:
        """The name of an image in messages."""

    def read(self, number: int, image_size: int, levels: Levels | None) -> Tensor:
        """An image, uint8 (n_channels, image_size, image_size).

        Raises:
            DataError: With the reason only, if the image cannot be read.
        """

    def side(self, number: int) -> int:
        """The shorter side of the stored image in pixels; DataError likewise."""

    def deep(self, number: int) -> np.ndarray | None:
        """Levels of an image of over 8 bits; None for others and unreadable ones."""

    def hash(self, number: int) -> ImageHash:
        """The hashes by which an image is identified, see leakage.py."""

    def fingerprint(self, numbers: np.ndarray, image_size: int) -> "hashlib._Hash":
        """The beginning of a hash of images to be streamed; reads no image."""
        raise TypeError("these images are not streamed")


@dataclass(frozen=True, eq=False)
class FileItems(Items):
    """Image files."""

    folder: Path
    names: np.ndarray
    """Paths below the folder as bytes (N,), a single block of memory that processes
    share.
    """
    classes: tuple[str, ...] = ()
    """The class of each file of a table; () if the path below the folder begins with
    the class.
    """
    encoded: Any = None
    """Rows with the content of each file as `bytes`, None if it is in the file system.
    """
    can_stream: bool = True
    hashed_by = "files"
    n_channels = 3

    @classmethod
    def of(
        cls, folder: Path, paths: Sequence[Path], classes: Sequence[str] = ()
    ) -> Self:
        return cls(
            folder,
            np.array([os.fsencode(path.relative_to(folder)) for path in paths]),
            tuple(classes),
        )

    def file(self, number: int) -> Path | bytes:
        """The path of the image's file, or its content."""
        content = None if self.encoded is None else self.encoded[number]["bytes"]
        return (
            self.folder / os.fsdecode(self.names[number])
            if content is None
            else content
        )

    def name(self, number: int) -> str:
        if self.encoded is not None:
            return f"number {number} of {self.folder}"
        return str(self.folder / os.fsdecode(self.names[number]))

    def known_as(self, number: int) -> str:
        """Class and name, by which the images of a search are recognized later."""
        below = Path(os.fsdecode(self.names[number]))
        return composed(
            f"{self.classes[number]}/{below.name}" if self.classes else below.as_posix()
        )

    def read(self, number: int, image_size: int, levels: Levels | None) -> Tensor:
        return read_image(self.file(number), image_size, levels)

    def side(self, number: int) -> int:
        with opened(self.file(number)) as image:
            return min(image.size)

    def deep(self, number: int) -> np.ndarray | None:
        with contextlib.suppress(DataError), opened(self.file(number)) as image:
            return np.asarray(image) if is_deep(image) else None
        return None

    def hash(self, number: int) -> ImageHash:
        return hash_of_file(self.file(number), self.known_as(number))

    def fingerprint(self, numbers: np.ndarray, image_size: int) -> "hashlib._Hash":
        digest = hashlib.sha256(f"{len(numbers)} files, {image_size} pixels".encode())
        digest.update(b"\0".join(self.names[numbers].tolist()))
        sizes = [
            size_of(self.folder / os.fsdecode(name)) for name in self.names[numbers]
        ]
        if None in sizes:
            raise DataError("the images change while they are used; start again")
        digest.update(np.array(sizes, dtype=np.int64).tobytes())
        return digest


@dataclass(frozen=True, eq=False)
class Pool(Dataset[ReadPart]):
    """Images with labels, which are known before an image is read."""

    items: Items
    labels: np.ndarray
    """int64 (N,), bool (N, classes), float32 (N,) or masks uint8 (N, image_size,
    image_size).
    """
    numbers: np.ndarray
    """The number of each image among the items (N,)."""
    unused: tuple[SkippedFile, ...] = ()
    """Files that are not images."""
    image_size: int = 32
    """Side in pixels of the images that are read."""
    most_broken: int = 0
    """How many unreadable images are left out; more raise DataError. Pools drawn from
    one have its number.
    """
    levels: Levels | None = None
    """See reading.py."""
    groups: np.ndarray | None = None
    """The number of each image's group, which splits keep together, int64 (N,)."""

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, numbers: np.ndarray) -> ReadPart:
        """The images of these numbers, for a DataLoader."""
        items = self.items
        size = self.image_size
        images = torch.zeros(
            len(numbers), items.n_channels, size, size, dtype=torch.uint8
        )
        broken = []
        for place, number in enumerate(numbers.tolist()):
            try:
                images[place] = items.read(number, size, self.levels)
            except DataError as error:
                broken.append((place, SkippedFile(items.name(number), str(error))))
        return images, broken

    def take(self, indices: np.ndarray) -> "Pool":
        groups = None if self.groups is None else self.groups[indices]
        return replace(
            self,
            labels=self.labels[indices],
            numbers=self.numbers[indices],
            groups=groups,
        )

    def keep(self, classes: Sequence[int]) -> "Pool":
        """Keep only these classes, ascending, renumbered from 0.

        With several labels per image, all images stay.
        """
        places, labels = task_of(self.labels).keep(self.labels, classes)
        return replace(self.take(places), labels=labels)

    def without(self, broken: Mapping[int, SkippedFile]) -> "Pool":
        """The images without the broken ones.

        Args:
            broken: By index.

        Raises:
            DataError: If none is left, or none of a class.
        """
        if not broken:
            return self
        kept = self.take(np.setdiff1d(np.arange(len(self)), list(broken)))
        if not len(kept):
            raise DataError(
                f"none of {len(self)} images could be read,"
                f" {next(iter(broken.values())).path} first"
            )
        task = task_of(self.labels)
        left = task.present(torch.from_numpy(kept.labels))
        for place, item in broken.items():
            classes = task.present(torch.from_numpy(self.labels[place : place + 1]))
            if not {*classes} <= {*left}:
                raise DataError(
                    f"no image of the class of {item.path} could be read in its split;"
                    " mend one, or drop the class"
                )
        return kept

    def check_levels(self) -> None:
        """Check the levels of images of more than 8 bits.

        Raises:
            DataError: If most of these images are nearly black or white, or one is
                outside default levels.
        """
        chosen = self.numbers[:: len(self) // CHECKED + 1].tolist()
        all_values = [
            values
            for number in chosen
            if (values := self.items.deep(number)) is not None
        ]
        deep = [
            (values, to_8_bits(values, self.levels))
            for values in all_values
            if np.isfinite(values).all()
        ]
        dull = [
            values
            for values, seen in deep
            if seen.max() <= NEARLY_BLACK or seen.min() == 255
        ]
        if len(dull) > len(deep) / 2:
            shown = (
                f"such as one with levels from {dull[0].min():.7g} to"
                f" {dull[0].max():.7g}"
            )
            remedy = (
                "give the levels that become black and white with --levels LOW,HIGH"
            )
            raise DataError(
                f"images of more than 8 bits are nearly black or white, {shown};"
                f" {remedy}"
            )

    def read_parts(
        self, on_read: OnRead | None = None
    ) -> Generator[tuple[int, Tensor, dict[int, SkippedFile]]]:
        """Read the images in parts.

        Yields:
            The index of the first image of a part, its images, and the broken ones by
                their index in the pool.

        Raises:
            DataError: If too many are broken.
        """
        lost: list[SkippedFile] = []
        starts = range(0, len(self), AT_ONCE)
        threads = ThreadPoolExecutor(N_READERS)
        try:
            parts = threads.map(
                self.__getitem__,
                (self.numbers[start : start + AT_ONCE] for start in starts),
            )
            for start, (images, broken) in zip(starts, parts, strict=True):
                lost += [item for _, item in broken]
                if len(lost) > self.most_broken:
                    raise too_many_broken(lost, start + len(images), len(self))
                yield start, images, {start + place: item for place, item in broken}
                if on_read is not None:
                    on_read(start + len(images), len(self))
        finally:
            threads.shutdown(cancel_futures=True)

    def read(self, on_read: OnRead | None = None) -> LabelledImages:
        """The images in memory, without those that cannot be read."""
        # Arrays are read from their file here, before threads need them.
        images = torch.empty(
            len(self),
            self.items.n_channels,
            self.image_size,
            self.image_size,
            dtype=torch.uint8,
        )
        broken: dict[int, SkippedFile] = {}
        for start, batch, lost in self.read_parts(on_read):
            images[start : start + len(batch)] = batch
            broken |= lost
        kept = self.without(broken)
        if broken:
            images = images[np.setdiff1d(np.arange(len(self)), list(broken))]
        groups = None if kept.groups is None else torch.from_numpy(kept.groups)
        labels = torch.from_numpy(kept.labels)
        return LabelledImages(images, labels, tuple(broken.values()), groups)

    def find_broken(self, on_read: OnRead | None = None) -> dict[int, SkippedFile]:
        """The unreadable images by index.

        All images are read, unless the items know which ones are broken.
        """
        known_broken = self.items.known_broken
        if known_broken is None:
            return {
                place: item
                for _, _, lost in self.read_parts(on_read)
                for place, item in lost.items()
            }
        return {
            place: known_broken[number]
            for place, number in enumerate(self.numbers.tolist())
            if number in known_broken
        }


@dataclass(frozen=True)
class Source:
    """A data set: its training pool, and others of its own if it has some."""

    name: str
    class_names: tuple[str, ...]
    """By label; of numbers, one name for what they mean."""
    train: Pool
    val: Pool | None = None
    """Its own validation pool."""
    test: Callable[[], Pool] | None = None
    """Opens its own test pool. A search never calls it, so a search cannot even open
    the files.
    """
    test_size: int | None = None
    """How many images of the training pool become the test split if there is no test
    pool.
    """
    facts: tuple[str, ...] = ()
    """Sentences on how it is read."""
    scale: Scale = UNSCALED
    """The scale of numbers as labels."""

    def map(self, function: Callable[[Pool], Pool]) -> "Source":
        """Apply the function to each pool."""
        val = self.val and function(self.val)
        test = self.test
        return replace(
            self,
            train=function(self.train),
            val=val,
            test=test and (lambda: function(test())),
        )


class Part(NamedTuple):
    """A split before its classes are numbered.

    Class names, facts and is_multi are used of training images only.
    """

    items: Items
    names: Sequence[tuple[str, ...]]
    """The classes of each image."""
    unused: tuple[SkippedFile, ...] = ()
    """See Pool."""
    class_names: tuple[str, ...] = ()
    """All classes in order, by default those of the images, sorted."""
    facts: tuple[str, ...] = ()
    """See Source."""
    is_multi: bool = False
    """Whether images have any number of classes instead of one."""
    groups: Sequence[str] = ()
    """The group of each image; empty without groups."""
    target: str | None = None
    """What numbers mean, if each image has one, as text, instead of classes."""


def source_of(data: Path, parts: Mapping[str, Callable[[], Part]]) -> Source:
    """Make a source of the parts train, val and test.

    Images come class by class, in the order of the part within a class; with several
    labels or with numbers, in the order of the part.

    Args:
        data: Where the images are, for messages.
        parts: By role. val and test may be missing; test is called later.

    Raises:
        DataError: Without a part train, for fewer than two classes, and for classes
            that train lacks.
    """
    if "train" not in parts:
        raise DataError(
            f"{data} must have images of a split train, got"
            f" {', '.join(parts) or 'none'}"
        )
    trained = parts["train"]()
    if trained.target is not None:
        return _source_of_numbers(data, trained, trained.target, parts)
    is_multi = trained.is_multi
    names = trained.class_names or tuple(
        sorted({name for image_classes in trained.names for name in image_classes})
    )
    if len(names) < 2:
        raise DataError(
            f"{data} must have images of at least two classes, got"
            f" {', '.join(names) or 'none'}"
        )
    warn_of_names(names, data, is_multi)
    if is_multi and all(len(image_classes) == 1 for image_classes in trained.names):
        rule = "images with several labels must have any number of them"
        raise DataError(
            f"{rule}, but each of {data} has exactly one, as if one-hot; give its"
            " number or name"
        )

    def pool(role: str) -> Pool:
        split = trained if role == "train" else parts[role]()
        labels = numbered(split.names, names, f"the split {role} of {data}", is_multi)
        order = np.arange(len(labels)) if is_multi else labels.argsort(stable=True)
        return Pool(
            split.items,
            labels[order],
            order,
            split.unused,
            groups=_numbered_groups(split, order),
        )

    val = pool("val") if "val" in parts else None
    test = partial(pool, "test") if "test" in parts else None
    return Source(str(data), names, pool("train"), val, test, facts=trained.facts)


def _source_of_numbers(
    data: Path, trained: Part, target: str, parts: Mapping[str, Callable[[], Part]]
) -> Source:
    """The same for numbers, which the scale of the training images standardizes.

    Raises:
        DataError: If all numbers are equal.
    """

    def numbers_of(part: Part) -> np.ndarray:
        return np.array([float(text) for (text,) in part.names])

    scale = scale_of(numbers_of(trained), f"{target!r} of {data}")

    def pool(part: Part) -> Pool:
        labels = scale.labels(numbers_of(part))
        order = np.arange(len(labels))
        groups = _numbered_groups(part, order)
        return Pool(part.items, labels, order, part.unused, groups=groups)

    val = pool(parts["val"]()) if "val" in parts else None
    test = (lambda: pool(parts["test"]())) if "test" in parts else None
    return Source(
        str(data),
        (target,),
        pool(trained),
        val,
        test,
        facts=trained.facts,
        scale=scale,
    )


def _numbered_groups(part: Part, order: np.ndarray) -> np.ndarray | None:
    """The number of each image's group, in this order; None without groups."""
    if not part.groups:
        return None
    numbers: np.ndarray = np.unique(part.groups, return_inverse=True)[1]
    return numbers.astype(np.int64)[order]


def scale_of(numbers: np.ndarray, what: str) -> Scale:
    """The scale of the numbers of training images. DataError if all are equal.

    Args:
        numbers: The numbers, float64 (N,).
        what: They are, for the message.
    """
    if not np.isfinite(numbers).all() or len(np.unique(numbers)) < 2:
        raise DataError(
            f"{what} must be finite numbers, at least two different ones, got"
            f" {first_of([f'{number:g}' for number in np.unique(numbers)])}"
        )
    return Scale.of(numbers)


def most_left_out(n_images: int, skip_broken: bool | None) -> int:
    """How many of the images may be left out because they cannot be read."""
    if skip_broken is None:
        return max(FEW_BROKEN, int(BROKEN_SHARE * n_images))
    return n_images if skip_broken else 0


def configured(
    pool: Pool, skip_broken: bool | None, image_size: int, levels: Levels | None
) -> Pool:
    """The pool with settings.

    Args:
        pool: As the source gives it.
        skip_broken: As in DataConfig.
        image_size: Side in pixels.
        levels: See reading.py.

    Raises:
        DataError: If more images are of unread formats than may be left out.
    """
    unread = [item for item in pool.unused if is_unread_image(item.path)]
    n_images = len(pool) + len(unread)
    most = most_left_out(n_images, skip_broken)
    if len(unread) > most:
        raise too_many_broken(unread, n_images, n_images)
    return replace(
        pool, image_size=image_size, levels=levels, most_broken=most - len(unread)
    )


def too_many_broken(
    lost: Sequence[SkippedFile], n_read: int, n_images: int
) -> DataError:
    """The error for `lost` images among the first n_read of n_images."""
    read = (
        f"{n_images:,} images"
        if n_read == n_images
        else f"the first {n_read:,} of {n_images:,} images"
    )
    named = first_of([f"{item.path} ({item.reason})" for item in lost])
    return DataError(
        f"cannot read {len(lost):,} of {read}: {named}; mend or remove them, or use"
        " --skip-broken"
    )
