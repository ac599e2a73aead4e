"""Prepared images: decoded and resized once by `hba prepare`, into NumPy files that searches map into memory.

A folder of prepared images has prepared_images.json, which describes them, and for each of the parts train, val and
test three arrays: <part>_images.npy, uint8 (N, C, S, S); <part>_labels.npy, int64 (N,) or bool (N, classes); and
<part>_identities.npy, int64 (N, 2), the hashes of leakage.py. Images are in the order of the data that they were
prepared from, so splits are drawn as there. An image that could not be read keeps its row. The description is
written last.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from hba.data.config import PREPARED_NAME
from hba.data.images import OnRead
from hba.data.labels import SPLITS, is_multi_label
from hba.data.leakage import ImageHash, Kind, all_hashes
from hba.data.pool import Items, Pool, ReadPart, Source
from hba.data.reading import SkippedFile, printable
from hba.errors import DataError, RunError
from hba.utils.files import LOCK_NAME, read_text, reason_of, write_text

Role = Literal["train", "val", "test"]
FORMAT = {"format": "hba-prepared-images", "version": 1}
ARRAYS = ("images", "labels", "identities")


@dataclass(frozen=True, eq=False)
class CachedDataset(Items):
    """The images of a part of a prepared folder; they stay in their file. digest: a hash of all pixels."""

    folder: Path
    role: Role
    n_images: int
    image_size: int
    digest: str
    n_channels: int
    hashed_by: Kind
    known_broken: Mapping[int, SkippedFile]
    can_stream = True

    def array(self, what: str, dtype: type[np.generic], *shape: int) -> np.ndarray:
        """A read-only array (N, *shape), mapped into memory; DataError for a file that is another or damaged."""
        path, shape = self.folder / f"{self.role}_{what}.npy", (self.n_images, *shape)
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
        return self.array("images", np.uint8, self.n_channels, self.image_size, self.image_size)

    @cached_property
    def hashes(self) -> np.ndarray:
        return self.array("identities", np.int64, 2)

    def __getstate__(self) -> dict[str, Any]:
        # A mapped file would be pickled with all its content.
        return {name: value for name, value in self.__dict__.items() if name not in ("images", "hashes")}

    def name(self, number: int) -> str:
        return f"number {number} of {self.role} in {self.folder}"

    def read_batch(self, numbers: np.ndarray, image_size: int, levels: object) -> ReadPart:
        if image_size != self.image_size:
            # Resized twice, they would be other images.
            raise DataError(
                f"the images in {self.folder} were prepared with {self.image_size} pixels a side, but are to be read "
                f"with {image_size}: give that image size, or prepare them anew with {image_size}"
            )
        known = self.known_broken
        broken = [(place, known[number]) for place, number in enumerate(numbers.tolist()) if number in known]
        return torch.from_numpy(np.take(self.images, numbers, axis=0)), broken

    def deep(self, number: int) -> None:
        return None

    def fingerprint(self, numbers: np.ndarray, image_size: int) -> "hashlib._Hash":
        digest = hashlib.sha256(f"{len(numbers)} prepared, {image_size} pixels, {self.digest}".encode())
        digest.update(numbers.astype(np.int64).tobytes())
        return digest

    def hash(self, number: int) -> ImageHash:
        key, content = self.hashes[number].tolist()
        return ImageHash(key, None if content < 0 else content)


def cached_source(folder: Path) -> Source:
    """The prepared images as a source. Those of a test part are not looked at before they are asked for."""
    path = folder / PREPARED_NAME
    try:
        found = json.loads(read_text(path))
        if not FORMAT.items() <= found.items() or "train" not in found["parts"]:
            raise ValueError("it has another format")
        names, parts = tuple(found["class_names"]), found["parts"]
        left_out = tuple(SkippedFile(name, reason) for name, reason in found["left_out"])
        facts = (*found["facts"], f"images were prepared from {found['source']}")
        items = {role: _items(folder, role, found) for role in parts}
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise DataError(f"cannot read {path} ({reason_of(error)}); prepare the images anew") from None

    def pool(role: Role) -> Pool:
        kind: Any = (np.bool_, len(names)) if found["multi_label"] else (np.int64,)
        labels = np.array(items[role].array("labels", *kind))
        return Pool(items[role], labels, np.arange(len(labels)))

    val, test = pool("val") if "val" in parts else None, partial(pool, "test") if "test" in parts else None
    return Source(str(folder), names, pool("train"), val, test, found["test_size"], left_out, facts)


def _items(folder: Path, role: Role, found: Mapping[str, Any]) -> CachedDataset:
    entry = found["parts"][role]
    broken = {row: SkippedFile(name, reason) for row, name, reason in entry["broken"]}
    how = entry["images"], found["image_size"], entry["digest"], found["channels"], entry["identified_by"]
    return CachedDataset(folder, role, *how, broken)


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
    own = {LOCK_NAME, "preparing.json", *(f"{role}_{what}.npy" for role in SPLITS for what in ARRAYS)}
    others = {path.name for path in folder.iterdir()} - own if folder.is_dir() else ()
    if others:
        raise RunError(f"{folder} must be a new or an empty folder, but holds {min(others)}; choose another --out")


def write_cache(folder: Path, source: Source, on_read: OnRead | None) -> Prepared:
    """Prepare all images of the source. RunError for a folder that has no room."""
    pools: dict[Role, Pool] = {"train": source.train}
    pools |= {"val": source.val} if source.val is not None else {}
    pools |= {"test": source.test()} if source.test is not None else {}
    total, done = sum(map(len, pools.values())), 0
    entries: dict[Role, dict[str, Any]] = {}

    def count(n_images: int) -> None:
        if on_read is not None:
            on_read(done + n_images, total)

    try:
        for role, pool in pools.items():
            entries[role] = _write_part(folder, role, pool, count)
            done += len(pool)
    except OSError as error:
        raise RunError(f"cannot write into {folder}: {reason_of(error)}; mend that, and prepare again") from None
    left_out = [*source.left_out, *(item for pool in pools.values() for item in pool.unused)]
    description = {
        **FORMAT,
        "source": printable(source.name),
        "class_names": list(map(printable, source.class_names)),
        "image_size": source.train.image_size,
        "channels": source.train.items.n_channels,
        "multi_label": is_multi_label(source.train.labels),
        "test_size": source.test_size,
        "facts": source.facts,
        "left_out": [(printable(item.path), item.reason) for item in left_out],
        "parts": entries,
    }
    write_text(folder / PREPARED_NAME, json.dumps(description, indent=2) + "\n")
    left_out += [SkippedFile(name, reason) for entry in entries.values() for _, name, reason in entry["broken"]]
    n_images = {role: entry["images"] - len(entry["broken"]) for role, entry in entries.items()}
    return Prepared(folder, source.train.image_size, source.class_names, n_images, tuple(left_out))


def _write_part(folder: Path, role: Role, pool: Pool, count: Callable[[int], None]) -> dict[str, Any]:
    """Write the arrays of a part, and return what the description says of it."""
    digest, broken = hashlib.sha256(), dict[int, SkippedFile]()
    shape = (len(pool), pool.items.n_channels, pool.image_size, pool.image_size)
    with (folder / f"{role}_images.npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": shape})
        for start, images, lost in pool.read_parts():
            pixels = images.numpy().tobytes()
            file.write(pixels)
            digest.update(pixels)
            broken |= lost
            count(start + len(images))
    pool.without(broken)
    hashes = [(one.key, one.content()) for one in all_hashes([pool])]
    rows = [(key, -1 if content is None else content) for key, content in hashes]
    np.save(folder / f"{role}_identities.npy", np.array(rows, dtype=np.int64))
    np.save(folder / f"{role}_labels.npy", pool.labels)
    return {
        "images": len(pool),
        "digest": digest.hexdigest(),
        "identified_by": pool.items.hashed_by,
        "broken": [(row, printable(item.path), item.reason) for row, item in broken.items()],
    }
