"""Pools of pictures that are read one by one: from files, from rows of a dataset, or from arrays."""

import contextlib
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Self

import numpy as np
import torch
from torch import Tensor

from hba.data.images import LabelledImages, OnRead
from hba.data.labels import as_tensor
from hba.data.levels import N_READERS, Deep, Levels
from hba.data.skipped import SkippedFile
from hba.errors import DataError

NO_CLASS = -1


class PicturePool:
    """What these pools share. labels int64 (N,) or bool (N, classes). skip_broken: omit unreadable pictures and report
    them, instead of DataError.

    unused: what was found and is no picture, each with the label of its class or NO_CLASS. levels: what becomes black
    and white in pictures of more than 8 bits.
    """

    labels: np.ndarray
    skip_broken: bool
    unused: tuple[tuple[int, SkippedFile], ...]
    levels: Levels | None

    def picture(self, index: int, image_size: int) -> Tensor | str:
        """One picture as uint8 (C, image_size, image_size), or the reason why it cannot be read."""
        raise NotImplementedError

    def name_of(self, index: int) -> str:
        """What a person calls the picture: its path, or its row and where that is."""
        raise NotImplementedError

    def deep(self, indices: np.ndarray) -> Generator[Deep]:
        """Those of the pictures that have more than 8 bits, in their order."""
        raise NotImplementedError

    def scaled(self, levels: Levels | None) -> Self:
        """The same pool with these levels."""
        raise NotImplementedError

    @property
    def left_out(self) -> tuple[SkippedFile, ...]:
        return tuple(item for _, item in self.unused)

    def nothing_readable(self, indices: np.ndarray) -> DataError:
        return DataError(f"none of {len(indices)} images could be read, {self.name_of(indices[0])} first")

    def pictures(self, indices: np.ndarray, image_size: int) -> Generator[Tensor | SkippedFile]:
        """The pictures at these indices, and in the place of each that cannot be read its name and the reason.

        Decoded by several threads, which end when the generator is closed. DataError without skip_broken.
        """
        with contextlib.closing(_in_order(partial(self.picture, image_size=image_size), indices)) as results:
            for index, result in zip(indices, results, strict=True):
                if isinstance(result, Tensor):
                    yield result
                elif self.skip_broken:
                    yield SkippedFile(self.name_of(index), result)
                else:
                    raise broken_image(self.name_of(index), result)

    def read(self, indices: np.ndarray, image_size: int, on_read: OnRead | None = None) -> LabelledImages:
        images: list[Tensor] = []
        readable: list[int] = []
        broken: list[SkippedFile] = []
        # Closing ends the reader threads when a broken picture, or Ctrl-C, ends the loop.
        with contextlib.closing(self.pictures(indices, image_size)) as results:
            for number, (index, result) in enumerate(zip(indices, results, strict=True), start=1):
                if isinstance(result, Tensor):
                    images.append(result)
                    readable.append(index)
                else:
                    broken.append(result)
                if on_read is not None:
                    on_read(number, len(indices))
        if not images:
            raise self.nothing_readable(indices)
        return LabelledImages(torch.stack(images), as_tensor(self.labels[readable]), tuple(broken))


def broken_image(name: str | Path, reason: str) -> DataError:
    return DataError(f"cannot read the image {name} ({reason}); mend or remove it, or use --skip-broken")


def restricted_unused(
    unused: Sequence[tuple[int, SkippedFile]], keep: Sequence[int]
) -> tuple[tuple[int, SkippedFile], ...]:
    """Those of the classes that are kept, or of no class, with the new labels."""
    number = {NO_CLASS: NO_CLASS, **{label: place for place, label in enumerate(keep)}}
    return tuple((number[label], item) for label, item in unused if label in number)


def _in_order(read: Callable[[int], Tensor | str], indices: np.ndarray) -> Generator[Tensor | str]:
    """The pictures in the order of the indices, decoded by several threads; one that fails gives its reason."""
    # Chunks keep a Ctrl-C or a broken picture from waiting for all.
    chunk = 64 * N_READERS
    with ThreadPoolExecutor(N_READERS) as readers:
        for start in range(0, len(indices), chunk):
            yield from readers.map(read, indices[start : start + chunk])
