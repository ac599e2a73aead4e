"""Images that are read from their files again in every pass, ahead of the computation, by separate processes."""

import contextlib
import hashlib
import os
import weakref
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from hba.data.folder import FilePool, try_to_read
from hba.data.images import ALL, CPU, Batch, Colors
from hba.data.labels import as_tensor
from hba.data.levels import Levels
from hba.data.listing import changing
from hba.data.pictures import broken_image
from hba.data.reading import ReadFromFiles
from hba.data.skipped import SkippedFile
from hba.distributed.collectives import all_gather_object
from hba.errors import DataError
from hba.utils.devices import reader_died
from hba.utils.interrupts import without_interrupts

MOST_WORKERS = 8

ReadPart = tuple[Tensor, list[tuple[int, str]]]
"""Images uint8 (B, 3, H, W), and which of them could not be read, and why; those hold no picture."""


def default_workers() -> int:
    """One for each core that this process may use, but at most 8."""
    return min(MOST_WORKERS, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


@dataclass(frozen=True)
class Files(Dataset[ReadPart]):
    """What a reading process knows. names (N,): paths below the folder as bytes, one block of memory for all of them,
    which the processes share; Python objects would be copied to each.
    """

    folder: Path
    names: np.ndarray
    image_size: int
    levels: Levels | None = None

    def path(self, index: int) -> Path:
        return self.folder / os.fsdecode(self.names[index])

    def __getitem__(self, indices: np.ndarray) -> ReadPart:
        images = torch.zeros(len(indices), 3, self.image_size, self.image_size, dtype=torch.uint8)
        broken = []
        for place, index in enumerate(indices):
            result = try_to_read(self.path(index), self.image_size, self.levels)
            if isinstance(result, Tensor):
                images[place] = result
            else:
                broken.append((place, result))
        return images, broken


@dataclass(frozen=True, eq=False, repr=False)
class StreamedImages(ReadFromFiles):
    """Images in files, labels int64 (N,) or bool (N, classes); the same pixels as images in memory have.

    workers: processes that read ahead; 0 reads in this one. skip_broken: `once` omits a file that cannot be read, and
    in `batches` the next readable one of the order takes its place; otherwise it is a DataError. Mean and standard
    deviation of the colours are those of at most 2,000 images, drawn by a fixed seed.
    """

    files: Files
    labels: Tensor
    workers: int
    skip_broken: bool
    device: torch.device = CPU
    n_channels: int = 3
    _broken: dict[int, str] = field(default_factory=dict)
    _colors: list[tuple[Colors, Colors]] = field(default_factory=list)
    _reading: "weakref.WeakSet[Generator[Batch]]" = field(default_factory=weakref.WeakSet)

    def __repr__(self) -> str:
        return f"StreamedImages({len(self)} images of {self.image_size} pixels, in {self.files.folder})"

    @staticmethod
    def of(pool: FilePool, indices: np.ndarray, image_size: int, workers: int | None) -> "StreamedImages":
        """The images of the pool at these indices. No file is opened."""
        names = np.array([os.fsencode(pool.paths[index].relative_to(pool.folder)) for index in indices])
        return StreamedImages(
            Files(pool.folder, names, image_size, pool.levels),
            as_tensor(pool.labels[indices]),
            default_workers() if workers is None else workers,
            pool.skip_broken,
        )

    @property
    def image_size(self) -> int:
        return self.files.image_size

    @property
    def left_out(self) -> tuple[SkippedFile, ...]:
        return tuple(SkippedFile(str(self.files.path(index)), reason) for index, reason in sorted(self._broken.items()))

    @property
    def skipped(self) -> tuple[str, ...]:
        return tuple(item.path for item in self.left_out)

    def share_left_out(self) -> None:
        if self.skip_broken:
            for broken in all_gather_object(self._broken):
                self._broken.update(broken)

    def __len__(self) -> int:
        return len(self.labels)

    def to(self, device: torch.device) -> "StreamedImages":
        return replace(self, labels=self.labels.to(device), device=device)

    def once(self, batch_size: int, share: slice = ALL) -> Generator[Batch]:
        return self._registered(self._in_order(np.arange(len(self)), batch_size, share))

    def batches(self, order: Tensor, batch_size: int, start: int = 0) -> Generator[Batch]:
        return self._registered(self._filled_up(order, batch_size, start))

    def fingerprint(self) -> str:
        """A hash of names, sizes in bytes, labels, the image size and the levels that are black and white; not of
        pixels, which would take a whole pass.
        """
        try:
            sizes = [self.files.path(index).stat().st_size for index in range(len(self))]
        except OSError as error:
            raise changing(error) from None
        digest = hashlib.sha256(f"{len(self)} files, {self.image_size} pixels".encode())
        digest.update(b"\0".join(self.files.names.tolist()))
        digest.update(np.array(sizes, dtype=np.int64).tobytes())
        digest.update(self.labels.cpu().numpy().tobytes())
        if self.files.levels is not None:
            digest.update(str(self.files.levels).encode())
        return digest.hexdigest()[:16]

    def read_in_order(self, indices: np.ndarray, batch_size: int) -> Generator[Batch]:
        return self._in_order(indices, batch_size)

    def _in_order(self, indices: np.ndarray, batch_size: int, share: slice = ALL) -> Generator[Batch]:
        """The images at the indices but those that cannot be read."""
        parts = [indices[start : start + batch_size] for start in range(0, len(indices), batch_size)][share]
        n_read = 0
        for part, (images, broken) in zip(parts, self._read(parts), strict=True):
            for place, reason in broken:
                self._note_broken(part[place], reason)
            chosen = torch.from_numpy(part)
            if broken:
                readable = np.delete(np.arange(len(part)), [place for place, _ in broken])
                images, chosen = images[readable], chosen[readable]
            if len(images):
                n_read += len(images)
                yield images.to(self.device, non_blocking=True), self.labels[chosen.to(self.device)]
        # Of a share, who adds up all shares knows.
        if not n_read and share == ALL:
            raise self._nothing_readable(indices)

    def _filled_up(self, order: Tensor, batch_size: int, start: int) -> Generator[Batch]:
        """Batches of the order; another image stands in for each that cannot be read."""
        indices = order.cpu().numpy()
        starts = range(start * batch_size, len(indices) - batch_size + 1, batch_size)
        parts = [indices[start : start + batch_size] for start in starts]
        for first, (images, broken) in zip(starts, self._read(parts), strict=True):
            chosen = order[first : first + batch_size]
            for place, reason in broken:
                self._note_broken(indices[first + place], reason)
                index, images[place] = self._next_readable(indices, first + place)
                # Not in place: the order is a part of what is saved.
                chosen = torch.cat([chosen[:place], chosen.new_tensor([index]), chosen[place + 1 :]])
            yield images.to(self.device, non_blocking=True), self.labels[chosen]

    def _next_readable(self, order: np.ndarray, position: int) -> tuple[int, Tensor]:
        """Index and pixels of the first image after this position of the order that can be read, round its end.

        It depends on the order alone, so an interrupted pass continues as it would have.
        """
        for index in np.roll(order, -position - 1):
            if index not in self._broken:
                result = try_to_read(self.files.path(index), self.image_size, self.files.levels)
                if isinstance(result, Tensor):
                    return index, result
                self._note_broken(index, result)
        raise self._nothing_readable(order)

    def _note_broken(self, index: int, reason: str) -> None:
        if not self.skip_broken:
            raise broken_image(self.files.path(index), reason)
        self._broken[int(index)] = reason

    def _nothing_readable(self, indices: np.ndarray) -> DataError:
        return DataError(f"none of {len(indices)} images could be read, {self.files.path(indices[0])} first")

    def _read(self, parts: Sequence[np.ndarray]) -> Generator[ReadPart]:
        """The images at the indices of each part. The processes end with the generator."""
        workers = min(self.workers, len(parts))
        loader = DataLoader(
            self.files,
            batch_size=None,
            sampler=parts,
            num_workers=workers,
            collate_fn=_as_it_is,
            pin_memory=self.device.type == "cuda",
            # Without its own generator, it would draw from the default one.
            generator=torch.Generator(),
        )
        with _reader_deaths_explained(), without_interrupts():
            results = iter(loader)
        while True:
            with _reader_deaths_explained():
                part = next(results, None)
            if part is None:
                return
            yield part


@contextlib.contextmanager
def _reader_deaths_explained() -> Iterator[None]:
    """A process that is killed while it starts, or hands over what it has read, ends in an error of the connection to
    it. What is wrong with an image is no exception here.
    """
    try:
        yield
    except (EOFError, OSError) as error:
        raise reader_died(str(error) or type(error).__name__) from None


def _as_it_is(part: Any) -> Any:
    return part
