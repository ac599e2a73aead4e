"""Pools of images whose labels are known before an image is read, and the sources of pools."""

import contextlib
import hashlib
import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from hba.data.images import LabelledImages, OnRead
from hba.data.labels import as_tensor, is_multi_label
from hba.data.leakage import ImageHash, Kind, changing, hash_of_file
from hba.data.reading import Deep, Levels, SkippedFile, deep_or_none, in_threads, read_image
from hba.errors import DataError

NO_CLASS = -1
NO_IMAGE = "no image of this class"
"""The reason of a folder, not of a file."""
AT_ONCE = 16
"""Images that a thread reads before it hands them over."""
EIGHT_BIT_ENDINGS = frozenset({".jpg", ".jpeg", ".jpe", ".jfif", ".gif", ".webp", ".bmp"})
"""Of formats that hold 8 bits; their files are not opened to look for more."""

ReadPart = tuple[Tensor, list[tuple[int, str]]]
"""Images uint8 (B, C, H, W), and the places of those that could not be read, which are black, with the reasons."""


class Items:
    """Images by number, wherever they are stored. Processes that read images get a copy of it.

    hashed_by: see leakage.py. can_stream: whether images can be read again in each epoch. n_channels: of what is read.
    known_broken: by number, those that cannot be read; None where only reading them would tell.
    """

    hashed_by: Kind = "pixels"
    can_stream: bool = False
    n_channels: int = 3
    known_broken: Mapping[int, SkippedFile] | None = None

    def name(self, number: int) -> str:
        """What messages call the image."""
        raise NotImplementedError

    def read(self, number: int, image_size: int, levels: Levels | None) -> Tensor:
        """uint8 (C, image_size, image_size). DataError, with the reason only, where the image cannot be read."""
        raise NotImplementedError

    def read_batch(self, numbers: np.ndarray, image_size: int, levels: Levels | None) -> ReadPart:
        images = torch.zeros(len(numbers), self.n_channels, image_size, image_size, dtype=torch.uint8)
        broken = []
        for place, number in enumerate(numbers.tolist()):
            try:
                images[place] = self.read(number, image_size, levels)
            except DataError as error:
                broken.append((place, str(error)))
        return images, broken

    def deep(self, number: int) -> Deep | None:
        """The range of levels of an image of more than 8 bits; None for others."""
        return None

    def hash(self, number: int) -> ImageHash:
        raise NotImplementedError

    def fingerprint(self, numbers: np.ndarray, image_size: int) -> "hashlib._Hash":
        """The beginning of a hash of streamed images, without reading any."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class FileItems(Items):
    """Image files. names (N,): paths below the folder as bytes, a single block of memory that processes share.

    classes: of each file, in a table; () where the path below the folder begins with the class.
    """

    folder: Path
    names: np.ndarray
    classes: tuple[str, ...] = ()
    hashed_by = "files"
    can_stream = True

    @staticmethod
    def of(folder: Path, paths: Sequence[Path], classes: Sequence[str] = ()) -> "FileItems":
        return FileItems(folder, np.array([os.fsencode(path.relative_to(folder)) for path in paths]), tuple(classes))

    def path(self, number: int) -> Path:
        return self.folder / os.fsdecode(self.names[number])

    def name(self, number: int) -> str:
        return str(self.path(number))

    def read(self, number: int, image_size: int, levels: Levels | None) -> Tensor:
        return read_image(self.path(number), image_size, levels)

    def deep(self, number: int) -> Deep | None:
        path = self.path(number)
        return None if path.suffix.lower() in EIGHT_BIT_ENDINGS else deep_or_none(path)

    def hash(self, number: int) -> ImageHash:
        path = self.path(number)
        below = path.relative_to(self.folder).as_posix()
        return hash_of_file(path, f"{self.classes[number]}/{path.name}" if self.classes else below)

    def fingerprint(self, numbers: np.ndarray, image_size: int) -> "hashlib._Hash":
        try:
            sizes = [self.path(number).stat().st_size for number in numbers]
        except OSError as error:
            raise changing(error) from None
        digest = hashlib.sha256(f"{len(numbers)} files, {image_size} pixels".encode())
        digest.update(b"\0".join(self.names[numbers].tolist()))
        digest.update(np.array(sizes, dtype=np.int64).tobytes())
        return digest


@dataclass(frozen=True, eq=False)
class Pool:
    """Images with labels, int64 (N,) or bool (N, classes). numbers (N,): which of the items they are.

    skip_broken: omit unreadable images and report them, instead of DataError. unused: files that are no images, and
    classes without any, each with the label of its class or NO_CLASS. levels: see reading.py.
    """

    items: Items
    labels: np.ndarray
    skip_broken: bool = False
    unused: tuple[tuple[int, SkippedFile], ...] = ()
    levels: Levels | None = None
    numbers: np.ndarray = field(default_factory=lambda: np.array([], dtype=np.int64))

    def __post_init__(self) -> None:
        if len(self.numbers) != len(self.labels):
            object.__setattr__(self, "numbers", np.arange(len(self.labels)))

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def left_out(self) -> tuple[SkippedFile, ...]:
        return tuple(item for _, item in self.unused)

    @property
    def hashed_by(self) -> Kind:
        return self.items.hashed_by

    def hashes(self) -> Iterator[ImageHash]:
        return map(self.items.hash, self.numbers.tolist())

    def take(self, indices: np.ndarray) -> "Pool":
        return replace(self, labels=self.labels[indices], numbers=self.numbers[indices])

    def without_broken(self, image_size: int) -> tuple["Pool", tuple[SkippedFile, ...]]:
        """The images that can be read, and the others. Without skip_broken none is tried.

        It reads all images once, where the items do not know their broken ones. DataError where none can be read.
        """
        if not self.skip_broken:
            return self, ()
        broken = self.items.known_broken
        if broken is None:
            broken, place = {}, 0
            with contextlib.closing(self.read_parts(np.arange(len(self)), image_size)) as parts:
                for images, lost in parts:
                    numbers = {int(self.numbers[place + at]): reason for at, reason in lost}
                    broken |= {number: SkippedFile(self.items.name(number), why) for number, why in numbers.items()}
                    place += len(images)
        lost_here = tuple(broken[number] for number in self.numbers.tolist() if number in broken)
        if len(lost_here) == len(self):
            raise none_readable(len(self), lost_here[0].path)
        return self.take(np.flatnonzero(~np.isin(self.numbers, list(broken)))), lost_here

    def keep(self, classes: Sequence[int]) -> "Pool":
        """Only the images of these classes, which are renumbered in the given order.

        Of several labels an image, all images stay: one that has none of the classes is one without a label.
        """
        number = {NO_CLASS: NO_CLASS, **{label: place for place, label in enumerate(classes)}}
        unused = tuple((number[label], item) for label, item in self.unused if label in number)
        if is_multi_label(self.labels):
            return replace(self, labels=self.labels[:, list(classes)], unused=unused)
        kept = self.take(np.flatnonzero(np.isin(self.labels, classes)))
        labels = np.array([number[label] for label in kept.labels.tolist()], dtype=np.int64)
        return replace(kept, labels=labels, unused=unused)

    def deep(self, indices: np.ndarray) -> Generator[Deep]:
        """The ranges of levels of those images that have more than 8 bits, in their order."""
        with contextlib.closing(in_threads(self.items.deep, self.numbers[indices].tolist())) as found:
            yield from (deep for deep in found if deep is not None)

    def read_parts(self, indices: np.ndarray, image_size: int) -> Generator[ReadPart]:
        """The images at the indices in parts, in order, read by several threads. DataError without skip_broken."""

        def read(numbers: np.ndarray) -> ReadPart:
            return self.items.read_batch(numbers, image_size, self.levels)

        parts = np.split(self.numbers[indices], range(AT_ONCE, len(indices), AT_ONCE))
        # Arrays are read from their file by the first part, before threads ask for them.
        yield self._checked(parts[0], read(parts[0]))
        with contextlib.closing(in_threads(read, parts[1:])) as results:
            for part, result in zip(parts[1:], results, strict=True):
                yield self._checked(part, result)

    def _checked(self, numbers: np.ndarray, result: ReadPart) -> ReadPart:
        if result[1] and not self.skip_broken:
            place, reason = result[1][0]
            raise broken_image(self.items.name(numbers[place]), reason)
        return result

    def read(self, indices: np.ndarray, image_size: int, on_read: OnRead | None = None) -> LabelledImages:
        """The images at the indices in memory, without those that cannot be read."""
        images, done, readable, broken = torch.empty(0), 0, np.ones(len(indices), dtype=bool), []
        with contextlib.closing(self.read_parts(indices, image_size)) as parts:
            for part, lost in parts:
                if not done:
                    images = torch.empty(len(indices), *part.shape[1:], dtype=torch.uint8)
                images[done : done + len(part)] = part
                for place, reason in lost:
                    readable[done + place] = False
                    broken.append(SkippedFile(self.items.name(self.numbers[indices[done + place]]), reason))
                done += len(part)
                if on_read is not None:
                    on_read(done, len(indices))
        if not readable.any():
            raise none_readable(len(indices), broken[0].path)
        images = images if readable.all() else images[torch.from_numpy(readable)]
        return LabelledImages(images, as_tensor(self.labels[indices[readable]]), tuple(broken))


@dataclass(frozen=True)
class Source:
    """A data set: its training pool, and the validation and test pools where it has its own.

    The test pool is a function, which a search never calls, so it cannot even open its files. check_test: raises
    DataError where the test images are not there, for pools that would read them to find out. test_size: how many
    images of the training pool become the test split where there is no test pool. left_out: files beside the
    pools. facts: sentences on how the data were read.
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

    def map(self, function: Callable[[Pool, str], Pool]) -> "Source":
        """The source with the pools that the function makes of each pool and the name of its part."""
        val, test = self.val, self.test
        return replace(
            self,
            train=function(self.train, "training"),
            val=None if val is None else function(val, "validation"),
            test=None if test is None else lambda: function(test(), "test"),
        )


def broken_image(name: str, reason: str) -> DataError:
    return DataError(f"cannot read the image {name} ({reason}); mend or remove it, or use --skip-broken")


def none_readable(n_images: int, first: str) -> DataError:
    return DataError(f"none of {n_images} images could be read, {first} first")
