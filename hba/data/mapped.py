"""Prepared images that stay in their file: copied batch by batch, ahead of the computation, by threads."""

import contextlib
import hashlib
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from hba.data.images import ALL, CPU, Batch, Colors
from hba.data.labels import as_tensor
from hba.data.prepared import PreparedPool, check_size
from hba.data.reading import ReadFromFiles
from hba.data.skipped import SkippedFile
from hba.data.streaming import default_workers

AHEAD = 2
"""Batches for each thread that are read, or being read, before they are asked for."""


@dataclass(frozen=True, eq=False, repr=False)
class MappedImages(ReadFromFiles):
    """Images at some rows of a prepared file, labels int64 (N,) or bool (N, classes); the pixels of images in memory.

    The system keeps in memory what it has room for. workers: threads that copy batches ahead; 0 copies when asked. Mean
    and standard deviation of the colours are of a sample, as of images that are streamed from their files.
    """

    pool: PreparedPool
    rows: np.ndarray
    labels: Tensor
    left_out: tuple[SkippedFile, ...]
    workers: int
    device: torch.device = CPU
    _colors: list[tuple[Colors, Colors]] = field(default_factory=list)
    _reading: "weakref.WeakSet[Generator[Batch]]" = field(default_factory=weakref.WeakSet)

    def __repr__(self) -> str:
        return f"MappedImages({len(self)} images of {self.image_size} pixels, in {self.pool.folder})"

    @staticmethod
    def of(pool: PreparedPool, indices: np.ndarray, image_size: int, workers: int | None) -> "MappedImages":
        """The images of the pool at these indices but those that could not be read. No pixel is looked at."""
        check_size(pool.folder, pool.about.image_size, image_size)
        indices, lost = pool.readable(indices)
        n_threads = default_workers() if workers is None else workers
        return MappedImages(pool, pool.rows[indices], as_tensor(pool.labels[indices]), lost, n_threads)

    @cached_property
    def _pixels(self) -> np.ndarray:
        return self.pool.pixels()

    @property
    def image_size(self) -> int:
        return self.pool.about.image_size

    @property
    def n_channels(self) -> int:
        return self.pool.about.channels

    @property
    def skipped(self) -> tuple[str, ...]:
        return tuple(item.path for item in self.left_out)

    def share_left_out(self) -> None:
        """All have the same, from when they were prepared."""

    def __len__(self) -> int:
        return len(self.labels)

    def to(self, device: torch.device) -> "MappedImages":
        return replace(self, labels=self.labels.to(device), device=device)

    def once(self, batch_size: int, share: slice = ALL) -> Generator[Batch]:
        return self._registered(self._read(torch.arange(len(self)).split(batch_size)[share]))

    def batches(self, order: Tensor, batch_size: int, start: int = 0) -> Generator[Batch]:
        whole = order[start * batch_size : len(order) // batch_size * batch_size].cpu()
        return self._registered(self._read(whole.split(batch_size) if len(whole) else ()))

    def fingerprint(self) -> str:
        """A hash of which rows of which file they are, and of their labels; the file's own hash stands for its pixels,
        which would take a whole pass.
        """
        digest = hashlib.sha256(f"{len(self)} prepared, {self.image_size} pixels, {self.pool.entry.digest}".encode())
        digest.update(self.rows.astype(np.int64).tobytes())
        digest.update(self.labels.cpu().numpy().tobytes())
        return digest.hexdigest()[:16]

    def read_in_order(self, indices: np.ndarray, batch_size: int) -> Generator[Batch]:
        return self._read(torch.from_numpy(indices).split(batch_size))

    def _read(self, parts: Iterable[Tensor]) -> Generator[Batch]:
        """The images of each part, which holds indices. The threads end with the generator."""
        parts = list(parts)
        with contextlib.closing(_ahead(self._copied, parts, min(self.workers, len(parts)))) as copied:
            for part, images in zip(parts, copied, strict=True):
                yield images.to(self.device, non_blocking=True), self.labels[part.to(self.device)]

    def _copied(self, part: Tensor) -> Tensor:
        # NumPy's take lets other threads run meanwhile.
        images = torch.from_numpy(np.take(self._pixels, self.rows[part.numpy()], axis=0))
        return images.pin_memory() if self.device.type == "cuda" else images


def _ahead(copied: Callable[[Tensor], Tensor], parts: Iterable[Tensor], workers: int) -> Generator[Tensor]:
    """What `copied` makes of the parts, in their order, by so many threads that stay a little ahead."""
    if not workers:
        yield from map(copied, parts)
        return
    waiting: deque[Future[Tensor]] = deque()
    threads = ThreadPoolExecutor(workers, "hba-images")
    try:
        for part in parts:
            waiting.append(threads.submit(copied, part))
            if len(waiting) > AHEAD * workers:
                yield waiting.popleft().result()
        yield from _results(waiting)
    finally:
        threads.shutdown(wait=True, cancel_futures=True)


def _results(waiting: "deque[Future[Tensor]]") -> Iterator[Tensor]:
    while waiting:
        yield waiting.popleft().result()
