"""Prepared images: decoded and resized once, in NumPy files that are mapped into memory.

A folder of prepared images has prepared_images.json, which says what they are, and for each of the parts train, val and
test three arrays: <part>_images.npy, uint8 (N, C, S, S); <part>_labels.npy, int64 (N,) or bool (N, classes); and
<part>_identities.npy, int64 (N, 2), by which images are known again (hba/data/identity.py). Images stand in the order
of the data that they were prepared from, so splits are drawn as there. An image that could not be read keeps its row.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pydantic
import torch
from pydantic import Field

from hba.data.formats import PREPARED_NAME
from hba.data.images import LabelledImages, OnRead, Source, of_classes
from hba.data.labels import as_tensor
from hba.data.pictures import restricted_unused
from hba.data.skipped import SkippedFile
from hba.errors import DataError, SettingsError
from hba.utils.files import open_regular, read_text, reason_of
from hba.utils.settings import first_problem

ROWS_AT_ONCE = 256
"""That are copied out of a file before it is told how many have been read."""
Part = Literal["train", "val", "test"]
Count = Annotated[int, Field(ge=1)]


class _Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class PartEntry(_Strict):
    """A part. images: how many rows there are. digest: of all their pixels. identified_by: as identity.py has it.

    unused: what was found and is no picture: the number of its class or NO_CLASS, its path, the reason. broken: images
    that could not be read: row, name, reason.
    """

    images: Count
    digest: str
    identified_by: Literal["files", "pixels"]
    unused: tuple[tuple[int, str, str], ...] = ()
    broken: tuple[tuple[int, str, str], ...] = ()


class About(_Strict):
    """What prepared_images.json says. source: what was prepared. test_size: as of a Source.

    found_by: where images had more than 8 bits and their scale was found among those for training and validation, by
    which split seed; None where it was given, and where there was none to find.
    """

    format: Literal["hba-prepared-images"] = "hba-prepared-images"
    version: Literal[1] = 1
    source: str
    class_names: Annotated[tuple[str, ...], Field(min_length=2)]
    image_size: Count
    channels: Count
    multi_label: bool
    levels: tuple[float, float] | None
    found_by: int | None = None
    test_size: Count | None
    facts: tuple[str, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()
    parts: dict[Part, PartEntry]

    @staticmethod
    def read(folder: Path) -> "About":
        """DataError for a folder that was not prepared to its end, and for a file that is not what `prepare` wrote."""
        path = folder / PREPARED_NAME
        if not path.is_file():
            raise DataError(f"the images in {folder} are half prepared: end that by hba prepare with --resume")
        try:
            about = About.model_validate_json(read_text(path))
        except pydantic.ValidationError as error:
            raise DataError(f"{path} breaks the format: {first_problem(error)}") from None
        except (OSError, ValueError) as error:
            raise DataError(f"cannot read {path} ({reason_of(error)}); prepare the images anew") from None
        if "train" not in about.parts:
            raise DataError(f"{path} has no part train; prepare the images anew")
        return about


def file_of(folder: Path, part: str, what: Literal["images", "labels", "identities"]) -> Path:
    return folder / f"{part}_{what}.npy"


def mapped(path: Path, dtype: type[np.generic], shape: tuple[int, ...]) -> np.ndarray:
    """An array that stays in its file, read-only. DataError for one of another shape or type, or that is cut short."""
    try:
        # A pipe would be waited for.
        open_regular(path).close()
        array = np.lib.format.open_memmap(path, mode="r")
    except Exception as error:
        # A damaged head makes its reader fail in any way it likes.
        raise DataError(f"cannot read {path} ({reason_of(error)}); prepare the images anew") from None
    if array.dtype != dtype or array.shape != shape:
        wanted = f"{np.dtype(dtype)} of shape {shape}"
        raise DataError(f"{path} must be {wanted}, got {array.dtype} of {array.shape}; prepare the images anew")
    return np.asarray(array)


@dataclass(frozen=True, eq=False)
class PreparedPool:
    """A part of prepared images. rows (N,): which of its file's they are, with their labels."""

    folder: Path
    part: Part
    about: About
    rows: np.ndarray
    labels: np.ndarray
    unused: tuple[tuple[int, SkippedFile], ...]
    broken: dict[int, SkippedFile] = field(repr=False)

    @staticmethod
    def opened(folder: Path, about: About, part: Part) -> "PreparedPool":
        entry = about.parts[part]
        n, n_classes = entry.images, len(about.class_names)
        file = file_of(folder, part, "labels")
        labels = mapped(file, *((np.bool_, (n, n_classes)) if about.multi_label else (np.int64, (n,))))
        if not about.multi_label and not 0 <= labels.min() <= labels.max() < n_classes:
            raise DataError(f"{file} must hold labels from 0 to {n_classes - 1}; prepare the images anew")
        unused = tuple((label, SkippedFile(path, reason)) for label, path, reason in entry.unused)
        broken = {row: SkippedFile(name, reason) for row, name, reason in entry.broken}
        return PreparedPool(folder, part, about, np.arange(n), np.array(labels), unused, broken)

    @property
    def entry(self) -> PartEntry:
        return self.about.parts[self.part]

    @property
    def left_out(self) -> tuple[SkippedFile, ...]:
        return tuple(item for _, item in self.unused)

    def restricted(self, keep: Sequence[int]) -> "PreparedPool":
        chosen, labels = of_classes(self.labels, keep)
        return replace(self, rows=self.rows[chosen], labels=labels, unused=restricted_unused(self.unused, keep))

    def readable(self, indices: np.ndarray) -> tuple[np.ndarray, tuple[SkippedFile, ...]]:
        """Those of the indices whose image could be read when it was prepared, and the others' names and reasons.

        DataError where there are none.
        """
        lost = [self.broken[row] for row in self.rows[indices].tolist() if row in self.broken]
        if not lost:
            return indices, ()
        kept = np.array([index for index in indices if int(self.rows[index]) not in self.broken], dtype=np.int64)
        if not len(kept):
            raise DataError(f"none of {len(indices)} images could be read, {lost[0].path} first")
        return kept, tuple(lost)

    def pixels(self) -> np.ndarray:
        """All images of the part's file, uint8 (N, C, S, S), which stay there."""
        size = self.about.image_size
        shape = (self.entry.images, self.about.channels, size, size)
        return mapped(file_of(self.folder, self.part, "images"), np.uint8, shape)

    def identities(self) -> np.ndarray:
        """int64 (N, 2) of the file's images: key and content, -1 for a content that could not be read."""
        path = file_of(self.folder, self.part, "identities")
        found = mapped(path, np.int64, (self.entry.images, 2))
        if found[:, 0].min() < 0 or found.min() < -1 or found.max() >= 2**32:
            raise DataError(f"{path} must hold numbers of 32 bits; prepare the images anew")
        return found

    def read(self, indices: np.ndarray, image_size: int, on_read: OnRead | None = None) -> LabelledImages:
        check_size(self.folder, self.about.image_size, image_size)
        indices, lost = self.readable(indices)
        pixels, rows = self.pixels(), self.rows[indices]
        images = np.empty((len(rows), *pixels.shape[1:]), dtype=np.uint8)
        for start in range(0, len(rows), ROWS_AT_ONCE):
            chosen = rows[start : start + ROWS_AT_ONCE]
            images[start : start + ROWS_AT_ONCE] = pixels[chosen]
            if on_read is not None:
                on_read(start + len(chosen), len(rows))
        return LabelledImages(torch.from_numpy(images), as_tensor(self.labels[indices]), lost)


def check_size(folder: Path, prepared: int, asked: int) -> None:
    """DataError for another size than the images were prepared with: resized twice, they would be others."""
    if prepared != asked:
        raise DataError(
            f"the images in {folder} were prepared with {prepared} pixels a side, but are to be read with {asked}: "
            f"give the image size that reads them with {prepared} (a random resized crop reads larger ones than the "
            f"network takes), or prepare them anew with {asked}"
        )


def prepared_source(folder: Path, split_seed: int, classes: str | None) -> Source:
    """The images as a source. Those of a test part are not looked at before they are asked for.

    SettingsError for another split, or fewer classes, than the scale of images of more than 8 bits was found in: it
    would know images that are a test's now.
    """
    about = About.read(folder)
    if about.found_by is not None and "test" not in about.parts and (split_seed, classes) != (about.found_by, None):
        raise SettingsError(
            f"the images in {folder} had more than 8 bits, and their scale was found by the split seed "
            f"{about.found_by} and in all classes: keep both, or prepare them with levels"
        )
    pool = partial(PreparedPool.opened, folder, about)
    return Source(
        name=str(folder),
        class_names=about.class_names,
        train=pool("train"),
        val=pool("val") if "val" in about.parts else None,
        test=partial(pool, "test") if "test" in about.parts else None,
        test_size=about.test_size,
        left_out=tuple(SkippedFile(path, reason) for path, reason in about.left_out),
        facts=(*about.facts, f"images were prepared from {about.source}"),
    )


def own_image_size(data: Any) -> int | None:
    """Side in pixels that the data were prepared with; None for data that were not prepared."""
    return About.read(Path(data)).image_size if is_prepared(data) else None


def is_prepared(data: Any) -> bool:
    return isinstance(data, str | Path) and (Path(data) / PREPARED_NAME).is_file()


def known_again(pool: PreparedPool, indices: np.ndarray) -> Iterator[tuple[int, int | None]]:
    """Key and content of the images at these indices; a content that could not be read is None."""
    for key, content in pool.identities()[pool.rows[indices]].tolist():
        yield key, None if content < 0 else content
