"""Prepared images: decoded and resized once by `hba prepare`, into NumPy files that searches map into memory.

A folder of prepared images has prepared_images.json, which describes them, and for each of the parts train, val and
test three arrays: <part>_images.npy, uint8 (N, C, S, S); <part>_labels.npy, int64 (N,) or bool (N, classes); and
<part>_identities.npy, int64 (N, 2), the hashes of leakage.py. Images are in the order of the data that they were
prepared from, so splits are drawn as there. An image that could not be read keeps its row. preparing.json marks an
incomplete folder.
"""

import contextlib
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pydantic
import torch
from pydantic import Field

from hba.data.config import PREPARED_NAME, PREPARING_NAME
from hba.data.images import OnRead
from hba.data.labels import is_multi_label
from hba.data.leakage import ImageHash, Kind
from hba.data.pool import Items, Pool, ReadPart, Source
from hba.data.reading import SkippedFile, printable
from hba.errors import DataError, RunError
from hba.utils.files import LOCK_NAME, read_text, reason_of, write_text
from hba.utils.settings import first_problem

Role = Literal["train", "val", "test"]
Count = Annotated[int, Field(ge=1)]


class PartEntry(pydantic.BaseModel, frozen=True):
    """A part. images: number of rows. digest: hash of all pixels. identified_by: see leakage.py.

    broken: images that could not be read: row, name, reason.
    """

    images: Count
    digest: str
    identified_by: Kind
    broken: tuple[tuple[int, str, str], ...] = ()


class Description(pydantic.BaseModel, frozen=True):
    """prepared_images.json. source: what was prepared. test_size: see pool.Source. left_out: path and reason."""

    format: Literal["hba-prepared-images"] = "hba-prepared-images"
    version: Literal[1] = 1
    source: str
    class_names: Annotated[tuple[str, ...], Field(min_length=2)]
    image_size: Count
    channels: Count
    multi_label: bool
    test_size: Count | None
    facts: tuple[str, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()
    parts: dict[Role, PartEntry]


@dataclass(frozen=True, eq=False)
class CachedDataset(Items):
    """The images of a part of a prepared folder; they stay in their file."""

    folder: Path
    role: Role
    description: Description
    can_stream = True

    @property
    def entry(self) -> PartEntry:
        return self.description.parts[self.role]

    @property
    def hashed_by(self) -> Kind:  # type: ignore[override]
        return self.entry.identified_by

    @property
    def n_channels(self) -> int:  # type: ignore[override]
        return self.description.channels

    def array(self, what: str, dtype: type[np.generic], *shape: int) -> np.ndarray:
        """A read-only array (N, *shape), mapped into memory; DataError for a file that is another or damaged."""
        path, shape = self.folder / f"{self.role}_{what}.npy", (self.entry.images, *shape)
        try:
            array = np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
            if array.dtype != dtype or array.shape != shape:
                raise ValueError(f"it must be {np.dtype(dtype)} of {shape}, got {array.dtype} of {array.shape}")
        except Exception as error:
            # A damaged header makes NumPy raise exceptions of any kind.
            raise DataError(f"cannot read {path} ({reason_of(error)}); prepare the images anew") from None
        return array

    @cached_property
    def images(self) -> np.ndarray:
        size = self.description.image_size
        return self.array("images", np.uint8, self.n_channels, size, size)

    @cached_property
    def known_broken(self) -> Mapping[int, SkippedFile]:  # type: ignore[override]
        return {row: SkippedFile(name, reason) for row, name, reason in self.entry.broken}

    def __getstate__(self) -> dict[str, Any]:
        # A mapped file would be pickled with all its content.
        return {name: value for name, value in self.__dict__.items() if name != "images"}

    def name(self, number: int) -> str:
        return f"number {number} of {self.role} in {self.folder}"

    def read_batch(self, numbers: np.ndarray, image_size: int, levels: object) -> ReadPart:
        if image_size != self.description.image_size:
            # Resized twice, they would be other images.
            raise DataError(
                f"the images in {self.folder} were prepared with {self.description.image_size} pixels a side, but are "
                f"to be read with {image_size}: give that image size, or prepare them anew with {image_size}"
            )
        known = self.known_broken
        broken = [(place, known[number]) for place, number in enumerate(numbers.tolist()) if number in known]
        return torch.from_numpy(np.take(self.images, numbers, axis=0)), broken

    def deep(self, number: int) -> None:
        return None

    def fingerprint(self, numbers: np.ndarray, image_size: int) -> "hashlib._Hash":
        digest = hashlib.sha256(f"{len(numbers)} prepared, {image_size} pixels, {self.entry.digest}".encode())
        digest.update(numbers.astype(np.int64).tobytes())
        return digest

    @cached_property
    def _hashes(self) -> np.ndarray:
        return self.array("identities", np.int64, 2)

    def hash(self, number: int) -> ImageHash:
        key, content = self._hashes[number].tolist()
        return ImageHash(key, None if content < 0 else content)


def cached_source(folder: Path) -> Source:
    """The prepared images as a source. Those of a test part are not looked at before they are asked for."""
    path = folder / PREPARED_NAME
    if not path.is_file():
        raise DataError(f"the images in {folder} are half prepared: run hba prepare again, with the same --out")
    try:
        found = Description.model_validate_json(read_text(path))
        if "train" not in found.parts:
            raise ValueError("there is no part train")
    except (OSError, ValueError) as error:
        reason = first_problem(error) if isinstance(error, pydantic.ValidationError) else reason_of(error)
        raise DataError(f"cannot read {path} ({reason}); prepare the images anew") from None

    def pool(role: Role) -> Pool:
        items, n_classes = CachedDataset(folder, role, found), len(found.class_names)
        labels = items.array("labels", np.bool_, n_classes) if found.multi_label else items.array("labels", np.int64)
        return Pool(items, np.array(labels), np.arange(len(labels)))

    return Source(
        name=str(folder),
        class_names=found.class_names,
        train=pool("train"),
        val=pool("val") if "val" in found.parts else None,
        test=partial(pool, "test") if "test" in found.parts else None,
        test_size=found.test_size,
        left_out=tuple(SkippedFile(path, reason) for path, reason in found.left_out),
        facts=(*found.facts, f"images were prepared from {found.source}"),
    )


@dataclass(frozen=True)
class Prepared:
    """What `prepare` has made. n_images: by part. left_out: files that are no images, or could not be read."""

    folder: Path
    image_size: int
    class_names: tuple[str, ...]
    n_images: Mapping[Role, int]
    left_out: tuple[SkippedFile, ...]


def check_out(folder: Path) -> None:
    """RunError unless the folder is new, empty, or holds what an interrupted call has left, which is overwritten."""
    names = {path.name for path in folder.iterdir()} - {LOCK_NAME} if folder.is_dir() else set()
    if names and (PREPARED_NAME in names or PREPARING_NAME not in names):
        raise RunError(f"{folder} must be a new or an empty folder, but holds {min(names)}; choose another --out")


def write_cache(folder: Path, source: Source, on_read: OnRead | None) -> Prepared:
    """Prepare all images of the source. RunError for a folder that has no room."""
    pools: dict[Role, Pool] = {"train": source.train}
    pools |= {"val": source.val} if source.val is not None else {}
    pools |= {"test": source.test()} if source.test is not None else {}
    total, done = sum(map(len, pools.values())), 0
    entries: dict[Role, PartEntry] = {}

    def count(n_images: int) -> None:
        if on_read is not None:
            on_read(done + n_images, total)

    try:
        write_text(folder / PREPARING_NAME, "{}")
        for role, pool in pools.items():
            entries[role] = _write_part(folder, role, pool, count)
            done += len(pool)
    except OSError as error:
        raise RunError(f"cannot write into {folder}: {reason_of(error)}; mend that, and prepare again") from None
    unused = (*source.left_out, *(item for pool in pools.values() for item in pool.unused))
    description = Description(
        source=printable(source.name),
        class_names=tuple(map(printable, source.class_names)),
        image_size=source.train.image_size,
        channels=source.train.items.n_channels,
        multi_label=is_multi_label(source.train.labels),
        test_size=source.test_size,
        facts=source.facts,
        left_out=tuple((printable(item.path), item.reason) for item in unused),
        parts=entries,
    )
    write_text(folder / PREPARED_NAME, description.model_dump_json(indent=2) + "\n")
    (folder / PREPARING_NAME).unlink()
    broken = [SkippedFile(name, reason) for entry in entries.values() for _, name, reason in entry.broken]
    n_images = {role: entry.images - len(entry.broken) for role, entry in entries.items()}
    return Prepared(folder, description.image_size, source.class_names, n_images, (*unused, *broken))


def _write_part(folder: Path, role: Role, pool: Pool, count: Callable[[int], None]) -> PartEntry:
    digest, broken = hashlib.sha256(), dict[int, SkippedFile]()
    shape = (len(pool), pool.items.n_channels, pool.image_size, pool.image_size)
    with (folder / f"{role}_images.npy").open("wb") as file, contextlib.closing(pool.read_parts()) as parts:
        np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": shape})
        for start, images, lost in parts:
            pixels = images.numpy().tobytes()
            file.write(pixels)
            digest.update(pixels)
            broken |= lost
            count(start + len(images))
    pool.without(broken)
    hashes = [(one.key, one.content()) for one in pool.hashes()]
    rows = [(key, -1 if content is None else content) for key, content in hashes]
    np.save(folder / f"{role}_identities.npy", np.array(rows, dtype=np.int64))
    np.save(folder / f"{role}_labels.npy", pool.labels)
    return PartEntry(
        images=len(pool),
        digest=digest.hexdigest(),
        identified_by=pool.hashed_by,
        broken=tuple((row, printable(item.path), item.reason) for row, item in broken.items()),
    )
