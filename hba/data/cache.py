"""Prepared images: `hba prepare` decodes and resizes them once, into NumPy files that
searches map into memory.

A folder of prepared images has a description, prepared_images.json, and three arrays
for each of the parts train, val and test: <part>_images.npy, uint8 (N, C, S, S);
<part>_labels.npy, int64 (N,), bool (N, classes), float32 (N,) or uint8 (N, S, S); and
<part>_identities.npy, int64 (N, 2), the hashes of leakage.py. Images keep the order of
the original data, so their splits are the same. An image that could not be read keeps
its row. The description is written last.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from torch import Tensor

from hba.data.arrays import ArrayItems, fitted_channels
from hba.data.config import PREPARED_NAME
from hba.data.images import UNSCALED, OnRead, Scale
from hba.data.leakage import ImageHash, Kind, all_hashes
from hba.data.pool import Pool, Source
from hba.data.reading import Levels, SkippedFile, printable
from hba.errors import DataError, RunError
from hba.tasks import IMAGE_TASKS, task_of
from hba.utils.files import LOCK_NAME, read_text, reason_of, write_text

Role = Literal["train", "val", "test"]
FORMAT = {"format": "hba-prepared-images", "version": 1}


@dataclass(frozen=True, eq=False)
class CachedDataset(ArrayItems):
    """The images of a part of a prepared folder, in their file."""

    hashes: np.ndarray
    """int64 (N, 2): key and content of each image, as leakage.py computes them."""
    digest: str
    """Hash of all pixels."""
    hashed_by: Kind  # type: ignore[assignment]
    known_broken: Mapping[int, SkippedFile]
    can_stream = True

    def __getstate__(self) -> dict[str, Any]:
        # A mapped file would be pickled with its whole content.
        return {
            name: value for name, value in self.__dict__.items() if name != "images"
        }

    def name(self, number: int) -> str:
        return (
            self.known_broken[number].path
            if number in self.known_broken
            else super().name(number)
        )

    def read(self, number: int, image_size: int, levels: Levels | None) -> Tensor:
        if number in self.known_broken:
            raise DataError(self.known_broken[number].reason)
        return super().read(number, image_size, levels)

    def fingerprint(self, numbers: np.ndarray, image_size: int) -> "hashlib._Hash":
        digest = hashlib.sha256(
            f"{len(numbers)} prepared, {image_size} pixels, {self.digest}".encode()
        )
        digest.update(numbers.astype(np.int64).tobytes())
        return digest

    def hash(self, number: int) -> ImageHash:
        key, content = self.hashes[number].tolist()
        return ImageHash(key, None if content < 0 else content)


def cached_source(folder: Path, image_size: int) -> Source:
    """The prepared images of a folder as a source.

    Raises:
        DataError: For a broken folder, and for another image size: resized twice, they
            would be different images.
    """
    try:
        description = json.loads(read_text(folder / PREPARED_NAME))
        if not FORMAT.items() <= description.items():
            raise ValueError("it has another format")
        pools = {
            role: partial(_pool, folder, role, description, entry)
            for role, entry in description["parts"].items()
        }
        left_out = tuple(SkippedFile(*item) for item in description["left_out"])
        train = replace(pools["train"](), unused=left_out)
        val = pools["val"]() if "val" in pools else None
        size = description["image_size"]
        names = tuple(description["class_names"])
        facts = description["facts"]
        facts = (*facts, f"images were prepared from {description['source']}")
        source = Source(
            str(folder),
            names,
            train,
            val,
            pools.get("test"),
            description["test_size"],
            facts,
            Scale(*description.get("scale", UNSCALED)),
        )
    except Exception as error:
        # A damaged file makes json and NumPy raise exceptions of any kind.
        raise DataError(
            f"cannot read the images in {folder} ({reason_of(error)}); prepare them"
            " anew"
        ) from None
    if size != image_size:
        remedy = f"give that image size, or prepare them anew with {image_size}"
        raise DataError(
            f"the images in {folder} were prepared with {size} pixels a side, not"
            f" {image_size}: {remedy}"
        )
    return source


def _pool(
    folder: Path, role: str, description: Mapping[str, Any], entry: Mapping[str, Any]
) -> Pool:
    """The images of one part.

    Args:
        description: The content of the description file.
        entry: The description of the part.
    """
    n_images = entry["images"]
    size = description["image_size"]
    n_classes = len(description["class_names"])
    known_broken = {row: SkippedFile(*item) for row, *item in entry["broken"]}
    load = partial(
        _map_array,
        folder / f"{role}_images.npy",
        "uint8",
        (n_images, description["channels"], size, size),
    )
    hashes = np.array(
        _map_array(folder / f"{role}_identities.npy", "int64", (n_images, 2))
    )
    task = IMAGE_TASKS[description["task"]]
    label_layout = task.stored(n_images, n_classes, size)
    labels = np.array(_map_array(folder / f"{role}_labels.npy", *label_layout))
    items = CachedDataset(
        load,
        f"{role} in {folder}",
        fitted_channels,
        hashes,
        entry["digest"],
        entry["identified_by"],
        known_broken,
    )
    return Pool(items, labels, np.arange(n_images))


def _map_array(path: Path, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """A read-only array, mapped into memory. DataError for a damaged file, and another
    dtype or shape.
    """
    try:
        array = np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
        if array.dtype != dtype or array.shape != shape:
            raise ValueError(
                f"it must be {dtype} of {shape}, got {array.dtype} of {array.shape}"
            )
    except Exception as error:
        # A damaged header makes NumPy raise exceptions of any kind.
        raise DataError(
            f"cannot read {path} ({reason_of(error)}); prepare the images anew"
        ) from None
    return array


@dataclass(frozen=True)
class Prepared:
    """The result of `prepare`."""

    folder: Path
    """The folder of prepared images."""
    image_size: int
    """Side of the images in pixels."""
    class_names: tuple[str, ...]
    """By label."""
    n_images: Mapping[Role, int]
    """Number of images by part."""
    left_out: tuple[SkippedFile, ...]
    """Files that are not images, or could not be read."""


def check_out(folder: Path) -> None:
    """Check that prepared images can be written into a folder.

    Raises:
        RunError: Unless the folder is new or empty, or holds only the files of an
            interrupted call.
    """
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    # Even a call that is killed leaves its lock file, so arrays without one come from
    # elsewhere.
    if other_names := [
        name
        for name in names - {LOCK_NAME}
        if LOCK_NAME not in names or not name.endswith(".npy")
    ]:
        raise RunError(
            f"{folder} must be a new or an empty folder, but holds {min(other_names)};"
            " choose another --out"
        )


def write_cache(folder: Path, source: Source, on_read: OnRead | None) -> Prepared:
    """Prepare all images of the source.

    Raises:
        RunError: If they cannot be written, such as on a full disk.
    """
    splits = {
        "train": source.train,
        "val": source.val,
        "test": source.test and source.test(),
    }
    pools: Any = {role: pool for role, pool in splits.items() if pool is not None}
    try:
        entries = {
            role: _write_part(folder, role, pool, on_read)
            for role, pool in pools.items()
        }
    except OSError as error:
        raise RunError(
            f"cannot write into {folder}: {reason_of(error)}; mend that, and prepare"
            " again"
        ) from None
    left_out = [item for pool in pools.values() for item in pool.unused]
    description = {
        **FORMAT,
        "source": printable(source.name),
        "class_names": list(map(printable, source.class_names)),
        "image_size": source.train.image_size,
        "channels": source.train.items.n_channels,
        "task": task_of(source.train.labels).name,
        "scale": source.scale,
        "test_size": source.test_size,
        "facts": source.facts,
        "left_out": [list(map(printable, item)) for item in left_out],
        "parts": entries,
    }
    write_text(folder / PREPARED_NAME, json.dumps(description, indent=2) + "\n")
    left_out += [
        SkippedFile(*item) for entry in entries.values() for _, *item in entry["broken"]
    ]
    n_images: Any = {
        role: entry["images"] - len(entry["broken"]) for role, entry in entries.items()
    }
    return Prepared(
        folder, source.train.image_size, source.class_names, n_images, tuple(left_out)
    )


def _write_part(
    folder: Path, role: str, pool: Pool, on_read: OnRead | None
) -> dict[str, Any]:
    digest = hashlib.sha256()
    broken = dict[int, SkippedFile]()
    shape = (len(pool), pool.items.n_channels, pool.image_size, pool.image_size)
    with (folder / f"{role}_images.npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(
            file, {"descr": "|u1", "fortran_order": False, "shape": shape}
        )
        for _, images, lost in pool.read_parts(on_read):
            pixels = images.numpy().tobytes()
            file.write(pixels)
            digest.update(pixels)
            broken |= lost
    pool.without(broken)
    hashes = [
        (image_hash.key, image_hash.content()) for image_hash in all_hashes([pool])
    ]
    rows = [(key, -1 if content is None else content) for key, content in hashes]
    np.save(folder / f"{role}_identities.npy", np.array(rows, dtype=np.int64))
    np.save(folder / f"{role}_labels.npy", pool.labels)
    return {
        "images": len(pool),
        "digest": digest.hexdigest(),
        "identified_by": pool.items.hashed_by,
        "broken": [(row, *map(printable, item)) for row, item in broken.items()],
    }
