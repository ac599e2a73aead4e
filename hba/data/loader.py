"""Batches for training, and streamed images, which are read ahead from their files in
every epoch.
"""

import contextlib
import os
import pickle
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from hba.data.images import Batch, Colors, Images, OnRead, mean_and_std
from hba.data.pool import Pool, ReadPart, too_many_broken
from hba.data.reading import SkippedFile
from hba.errors import RunError
from hba.utils.devices import exact_device
from hba.utils.files import reason_of
from hba.utils.processes import check_can_start, obstacle, without_interrupts

MOST_WORKERS = 8
"""Largest default number of processes that read images."""
COLOR_SAMPLE = 2000
"""Largest number of images whose mean and deviation of colours are computed."""
SUM_BATCH_SIZE = 100
"""Number of those images that are read at a time."""


class BatchStream:
    """Endless batches, in a new random order in each epoch.

    A batch is a pair (images float in [0, 1], labels). An epoch has n_images //
    batch_size batches of at most n_images images, without the last part. The
    position can be saved and restored.

    Args:
        data: The images.
        batch_size: Number of images of a batch.
        seed: Decides the orders.
        places: Indices of the images to use; None for all.
    """

    def __init__(
        self,
        data: Images,
        batch_size: int,
        seed: int,
        places: Tensor | None = None,
    ) -> None:
        self.data = data
        self.places = places
        self.n_images = len(data) if places is None else len(places)
        self.batch_size = min(batch_size, self.n_images)
        self.generator = torch.Generator(exact_device(data.device)).manual_seed(seed)
        self.order = self._new_order()
        self.position = 0
        self._rest_of_pass: Generator[Batch] | None = None

    @property
    def batches_per_pass(self) -> int:
        return self.n_images // self.batch_size

    def next(self) -> Batch:
        if self.position == self.batches_per_pass:
            if self._rest_of_pass is not None:
                # It is ended here, because a finalizer would swallow a Ctrl-C.
                next(self._rest_of_pass, None)
            self.order = self._new_order()
            self.position = 0
            self._rest_of_pass = None
        if self._rest_of_pass is None:
            self._rest_of_pass = self.data.batches(
                self.order, self.batch_size, self.position
            )
        images, labels = next(self._rest_of_pass)
        self.position += 1
        return as_floats(images), labels

    def _new_order(self) -> Tensor:
        order = torch.randperm(
            self.n_images, generator=self.generator, device=self.generator.device
        )
        if self.places is not None:
            order = self.places.to(order.device)[order]
        return order.to(self.data.device)

    def state_dict(self) -> dict[str, Any]:
        return {
            "generator": self.generator.get_state(),
            "order": self.order,
            "position": self.position,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.generator.set_state(state["generator"].cpu())
        self.order = state["order"].to(self.data.device)
        self.position = state["position"]
        self._rest_of_pass = None


def as_floats(images: Tensor) -> Tensor:
    """Convert uint8 to floats in [0, 1] of PyTorch's default dtype, float32."""
    return images.to(torch.get_default_dtype()) / 255


def default_workers() -> int:
    """Number of processes that read images, if none is given.

    One for each core that this process may use, but at most 8; 0 if it cannot start
    any.
    """
    if obstacle() is not None:
        return 0
    return min(
        MOST_WORKERS,
        (
            len(os.sched_getaffinity(0))
            if hasattr(os, "sched_getaffinity")
            else os.cpu_count() or 1
        ),
    )


class SentPool(Dataset[bytes]):
    """A pool that a DataLoader reads in other processes; `received` opens its parts.

    A part is pickled here. An error in DataLoader's own pickling is only printed, and
    then it waits forever.
    """

    def __init__(self, pool: Pool) -> None:
        self.pool = pool

    def __getitem__(self, numbers: np.ndarray) -> bytes:
        images, broken = self.pool[numbers]
        try:
            return bytes(ForkingPickler.dumps((images, broken)))
        except (OSError, RuntimeError):
            # Without enough shared memory, the pixels themselves are sent, which is
            # slower.
            return pickle.dumps((images.numpy(), broken))


def received(content: bytes) -> ReadPart:
    """A part of a SentPool.

    Raises:
        RunError: If what holds its images cannot be opened.
    """
    try:
        images, broken = pickle.loads(content)
    except (OSError, RuntimeError, EOFError) as error:
        problem = (
            f"the images of a reading process cannot be received ({reason_of(error)})"
        )
        raise RunError(f"{problem}; use fewer workers, or 0") from None
    return torch.as_tensor(images), broken


@dataclass(frozen=True, eq=False)
class StreamedImages(Images):
    """Images that stay in their files; the same pixels as images in memory.

    Mean and deviation of colours use at most 2,000 images, drawn with a fixed seed.
    """

    pool: Pool = field(repr=False)
    """The images."""
    labels: Tensor = field(repr=False)
    """As in LabelledImages."""
    workers: int
    """Number of processes that read ahead; 0 reads in this one."""
    left_out: tuple[SkippedFile, ...] = ()
    """Broken images, which `of` has omitted; one that breaks later raises DataError."""
    groups: Tensor | None = None
    """See Images."""

    @staticmethod
    def of(
        pool: Pool, workers: int | None = None, on_read: OnRead | None = None
    ) -> "StreamedImages":
        """The images of a pool.

        If broken images may be left out, all images are read once to find them.

        Args:
            pool: The images.
            workers: Number of processes that read ahead, by default default_workers.
            on_read: As OnRead, while broken images are sought.
        """
        broken = pool.find_broken(on_read) if pool.most_broken else {}
        chosen = pool.without(broken)
        n_workers = default_workers() if workers is None else workers
        return StreamedImages(
            chosen,
            torch.from_numpy(chosen.labels),
            n_workers,
            tuple(broken.values()),
            None if chosen.groups is None else torch.from_numpy(chosen.groups),
        )

    @property
    def image_size(self) -> int:
        return self.pool.image_size

    @property
    def n_channels(self) -> int:
        return self.pool.items.n_channels

    def to(self, device: torch.device) -> "StreamedImages":
        return replace(self, labels=self.labels.to(device))

    def mean_and_std(self) -> tuple[Colors, Colors]:
        return self._colors

    @cached_property
    def _colors(self) -> tuple[Colors, Colors]:
        sample = np.arange(len(self))
        if len(sample) > COLOR_SAMPLE:
            sample = np.sort(
                np.random.default_rng(0).choice(len(self), COLOR_SAMPLE, replace=False)
            )
        return mean_and_std(
            images
            for images, _ in self.read(torch.from_numpy(sample).split(SUM_BATCH_SIZE))
        )

    def fingerprint(self) -> str:
        """A hash of the items' names, labels, image size and levels.

        To hash pixels would take a whole epoch.
        """
        digest = self.pool.items.fingerprint(self.pool.numbers, self.image_size)
        digest.update(self.labels.cpu().numpy().tobytes())
        if self.pool.levels is not None:
            digest.update(str(self.pool.levels).encode())
        return digest.hexdigest()[:16]

    def read(self, parts: Sequence[Tensor]) -> Generator[Batch]:
        """Yield batches. The reading processes end with the generator.

        Raises:
            SettingsError: If they cannot start.
        """
        with contextlib.closing(self._read(parts)) as results:
            for indices, (images, broken) in zip(parts, results, strict=True):
                if broken:
                    raise too_many_broken([broken[0][1]], len(images), len(self))
                # Only from pinned memory does a copy not wait for the GPU.
                source = images.pin_memory() if self.device.type == "cuda" else images
                yield (
                    source.to(self.device, non_blocking=True),
                    self.labels[indices.to(self.device)],
                )

    def _read(self, parts: Sequence[Tensor]) -> Generator[ReadPart]:
        numbers = [self.pool.numbers[indices.cpu().numpy()] for indices in parts]
        n_workers = min(self.workers, len(parts))
        if n_workers == 0:
            yield from map(self.pool.__getitem__, numbers)
            return
        check_can_start("use --workers 0")
        loader = DataLoader(
            SentPool(self.pool),
            batch_size=None,
            sampler=numbers,
            num_workers=n_workers,
            # Without its own generator, it would draw from the default one.
            generator=torch.Generator(),
        )
        results = None
        try:
            with without_interrupts():
                results = iter(loader)
            yield from map(received, results)
        finally:
            # The traceback of an error would keep the processes alive.
            del results
