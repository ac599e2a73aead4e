"""Preparing images: decode and resize them once, into files that searches and evaluations map into memory.

Rows are only ever appended. How far the files are is noted after each chunk, so a run that is stopped in any way goes
on from the last chunk that was whole.
"""

import contextlib
import hashlib
import os
import shutil
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
import pydantic
import torch
from torch import Tensor

from hba.data.config import DataConfig, resolved_data
from hba.data.folder import FilePool
from hba.data.formats import PREPARED_NAME, PREPARING_NAME, format_of
from hba.data.identity import Part as Chosen
from hba.data.identity import identities, kind_of
from hba.data.images import OnRead, Pool, Source
from hba.data.labels import is_multi_label
from hba.data.load import with_levels
from hba.data.pictures import PicturePool
from hba.data.prepared import About, Part, PartEntry, file_of
from hba.data.skipped import SkippedFile
from hba.data.sources import find_source
from hba.data.splits import split
from hba.errors import DataError, RunError, SettingsError
from hba.utils.files import LOCK_NAME, MOST_BYTES, read_text, reason_of, run_lock, write_text
from hba.utils.text import size_of

BYTES_OF_CHUNK = 2**25
ROWS_OF_CHUNK = 512
"""At most; the hash of a part is one of its chunks' hashes, so its files are alike for alike chunks."""
IDLE = ("train_size", "val_size", "stream", "workers")
"""Settings of data that say nothing of prepared images."""
FREE = (*IDLE, "skip_broken", "download", "data_root")
"""Those that may be others when a call is resumed: what is decoded already is the same."""
HEAD_BYTES = 128
"""Of a .npy file, whatever the number of its rows."""


class Progress(pydantic.BaseModel):
    """preparing.json. asked: a hash of how images are decoded. rows, listed, digest and broken: of each part, so far.
    listed: a hash of what the images are called, and of their labels, sizes and times.
    """

    model_config = pydantic.ConfigDict(extra="forbid")

    asked: str
    rows: dict[Part, int] = pydantic.Field(default_factory=dict)
    listed: dict[Part, str] = pydantic.Field(default_factory=dict)
    digest: dict[Part, str] = pydantic.Field(default_factory=dict)
    broken: dict[Part, list[tuple[int, str, str]]] = pydantic.Field(default_factory=dict)

    def save(self, folder: Path) -> None:
        write_text(folder / PREPARING_NAME, self.model_dump_json())

    @classmethod
    def read(cls, folder: Path) -> Self:
        path = folder / PREPARING_NAME
        try:
            return cls.model_validate_json(read_text(path))
        except (OSError, ValueError) as error:
            raise RunError(f"{path} cannot be read ({reason_of(error)}); prepare anew with another --out") from None


@dataclass(frozen=True)
class Prepared:
    """What `prepare` has made. n_images: by part. left_out: files that are no images, or could not be read."""

    folder: Path
    image_size: int
    class_names: tuple[str, ...]
    n_images: Mapping[Part, int]
    left_out: tuple[SkippedFile, ...]


def prepare(
    data: str | Path,
    out: str | Path,
    *,
    resume: bool = False,
    on_read: OnRead | None = None,
    **settings: Any,
) -> Prepared:
    """Decode and resize all images of the data once, into the folder `out`, which stands for them from then on.

    data: as `hba.search` takes them, but in files. settings: fields of DataConfig that say how images are read, such as
    image_size, skip_broken, levels and classes. on_read: told how many images are done, of how many. resume: go on with
    what an interrupted call has left in `out`.

    A search or an evaluation on `out` finds what it finds on the data with the same image_size: the same splits, pixels
    and colours. Test images are decoded too, but no search opens them. Raises DataError for data that cannot be used,
    SettingsError for settings that have no effect, and RunError where `out` cannot be written, holds something else, or
    has no room.
    """
    if idle := [name for name in settings if name in IDLE]:
        raise SettingsError(f"{idle[0]} has no effect on prepared images, of which all are kept; omit it")
    config = DataConfig.make(resolved_data({**settings, "data": str(data)}))
    if Path(config.data).exists() and format_of(config.data) == "prepared":
        raise SettingsError(f"the images in {config.data} are prepared already; name those that they are made of")
    folder = Path(out)
    if folder.is_dir():
        # Before a claim leaves its file in a folder of somebody else's.
        _check_out(folder, resume=resume)
    with run_lock(folder):
        _check_out(folder, resume=resume)
        source, levels = _read_with(config)
        pools = _pools(source)
        progress = _begun(folder, _asked(config, source, levels), pools, resume=resume)
        writer = _Writer(folder, config.stored_size, progress, pools, on_read)
        _check_room(folder, writer)
        progress.save(folder)
        entries = {part: writer.part(part, pool) for part, pool in pools.items()}
        _finish(folder, _about(source, config, levels, entries, writer.channels))
    broken = [SkippedFile(name, reason) for entry in entries.values() for _, name, reason in entry.broken]
    unused = [item for pool in pools.values() for item in pool.left_out]
    n_images = {part: entry.images - len(entry.broken) for part, entry in entries.items()}
    return Prepared(folder, config.stored_size, source.class_names, n_images, (*source.left_out, *unused, *broken))


def _check_out(folder: Path, *, resume: bool) -> None:
    if (folder / PREPARED_NAME).exists():
        raise RunError(f"{folder} already holds prepared images: choose another --out")
    is_half = (folder / PREPARING_NAME).exists()
    if is_half and not resume:
        raise RunError(f"{folder} holds images that are half prepared: add --resume, or choose another --out")
    if resume and not is_half:
        raise RunError(f"there is nothing to resume in {folder}; omit --resume")
    if not is_half and (others := [entry.name for entry in folder.iterdir() if entry.name != LOCK_NAME]):
        raise RunError(f"{folder} must be a new or an empty folder, but holds {others[0]}; choose another --out")


def _read_with(config: DataConfig) -> tuple[Source, tuple[float, float] | None]:
    """The source, with the levels that a search on it would find."""
    source = find_source(config)
    if not isinstance(source.train, PicturePool):
        return source, None
    return with_levels(source, split(source, None, None, config.split_seed), config.levels)


def _pools(source: Source) -> dict[Part, Pool]:
    test = None if source.test is None else source.test()
    found: dict[Part, Pool | None] = {"train": source.train, "val": source.val, "test": test}
    return {part: pool for part, pool in found.items() if pool is not None}


def _finish(folder: Path, about: About) -> None:
    text = about.model_dump_json(indent=2) + "\n"
    if len(text) > MOST_BYTES:
        raise RunError(
            f"{folder} would list {text.count(chr(10)):,} lines of files that are no images, or broken ones, more than "
            "can be read again: move them away, and go on with --resume"
        )
    write_text(folder / PREPARED_NAME, text)
    (folder / PREPARING_NAME).unlink(missing_ok=True)


def _asked(config: DataConfig, source: Source, levels: tuple[float, float] | None) -> str:
    """A hash of how images are decoded, and of what their labels mean. levels: found, where the settings say auto."""
    digest = hashlib.sha256(config.model_dump_json(exclude=set(FREE)).encode())
    if levels is not None:
        digest.update(str(levels).encode())
    digest.update("\0".join(source.class_names).encode(errors="surrogateescape"))
    return digest.hexdigest()


def _listed(before: str, pool: Pool, indices: np.ndarray) -> str:
    """A hash of what comes before, and of each image its name, its label, and of a file size and time."""
    for index in indices.tolist():
        digest = hashlib.sha256(before.encode() + pool.labels[index].tobytes())
        digest.update(_name_of(pool, index).encode(errors="surrogateescape"))
        if isinstance(pool, FilePool):
            found = pool.paths[index].stat()
            digest.update(f" {found.st_size} {found.st_mtime_ns}".encode())
        before = digest.hexdigest()
    return before


def _name_of(pool: Pool, index: int) -> str:
    return pool.name_of(index) if isinstance(pool, PicturePool) else str(index)


def _begun(folder: Path, asked: str, pools: Mapping[Part, Pool], *, resume: bool) -> Progress:
    """RunError where what is there already was made of other images, or otherwise; what comes behind may change."""
    if not resume:
        return Progress(asked=asked)
    progress = Progress.read(folder)
    changed = progress.asked != asked
    for part, done in progress.rows.items():
        pool = pools.get(part)
        if pool is None or len(pool.labels) < done:
            changed = True
        elif not changed:
            changed = _listed("", pool, np.arange(done)) != progress.listed[part]
    if changed:
        raise RunError(
            f"the images or the settings have changed since {folder} was begun; prepare anew with another --out"
        )
    return progress


class _Array:
    """A .npy file that rows are appended to."""

    def __init__(self, path: Path, dtype: str, shape: tuple[int, ...], n_rows: int) -> None:
        """n_rows: how many are there already; what follows them in the file is removed."""
        size = HEAD_BYTES + n_rows * int(np.prod(shape[1:])) * np.dtype(dtype).itemsize
        if n_rows and path.stat().st_size < size:
            raise RunError(f"{path} is shorter than what was noted of it; prepare anew with another --out")
        self.file: BinaryIO = path.open("r+b" if n_rows else "wb")
        np.lib.format.write_array_header_1_0(self.file, {"descr": dtype, "fortran_order": False, "shape": shape})
        assert self.file.tell() == HEAD_BYTES
        self.file.seek(size)
        self.file.truncate()

    def append(self, rows: bytes) -> None:
        self.file.write(rows)
        self.file.flush()
        os.fsync(self.file.fileno())


@dataclass
class _Writer:
    """Writes one part after the other."""

    folder: Path
    image_size: int
    progress: Progress
    pools: Mapping[Part, Pool]
    on_read: OnRead | None
    channels: int = field(init=False)

    def __post_init__(self) -> None:
        self.channels = _channels(self.pools["train"], self.image_size)

    @property
    def bytes_of_row(self) -> int:
        return self.channels * self.image_size**2

    @property
    def rows_of_chunk(self) -> int:
        return max(1, min(ROWS_OF_CHUNK, BYTES_OF_CHUNK // self.bytes_of_row))

    def part(self, part: Part, pool: Pool) -> PartEntry:
        """What is still missing of a part's files, and what is to be said of it."""
        try:
            self._append(part, pool)
            _save(file_of(self.folder, part, "labels"), _labels(pool))
        except OSError as error:
            raise RunError(
                f"cannot write into {self.folder}: {reason_of(error)}; mend that, and go on with --resume"
            ) from None
        broken = self.progress.broken.get(part, [])
        if len(broken) == len(pool.labels):
            raise DataError(f"none of {len(broken)} images could be read, {broken[0][1]} first")
        return PartEntry(
            images=len(pool.labels),
            digest=self.progress.digest[part],
            identified_by=kind_of(pool),
            unused=tuple((label, _text(item.path), item.reason) for label, item in getattr(pool, "unused", ())),
            broken=tuple(broken),
        )

    def _append(self, part: Part, pool: Pool) -> None:
        n, done = len(pool.labels), self.progress.rows.get(part, 0)
        shape = (n, self.channels, self.image_size, self.image_size)
        images = _Array(file_of(self.folder, part, "images"), "|u1", shape, done)
        known = _Array(file_of(self.folder, part, "identities"), "<i8", (n, 2), done)
        broken = self.progress.broken.setdefault(part, [])
        before = sum(self.progress.rows.get(other, 0) for other in self.pools if other != part)
        total = sum(len(each.labels) for each in self.pools.values())
        with contextlib.closing(images.file), contextlib.closing(known.file):
            for start in range(done, n, self.rows_of_chunk):
                indices = np.arange(start, min(n, start + self.rows_of_chunk))
                listed = _listed(self.progress.listed.get(part, ""), pool, indices)
                pixels, lost = self._pixels(pool, indices)
                images.append(pixels)
                known.append(_identities(pool, indices))
                broken += lost
                digest = hashlib.sha256(self.progress.digest.get(part, "").encode() + pixels)
                self.progress.digest[part] = digest.hexdigest()
                self.progress.listed[part] = listed
                self.progress.rows[part] = int(indices[-1]) + 1
                self.progress.save(self.folder)
                if self.on_read is not None:
                    self.on_read(before + self.progress.rows[part], total)

    def _pixels(self, pool: Pool, indices: np.ndarray) -> tuple[bytes, list[tuple[int, str, str]]]:
        """A black picture stands for each that could not be read."""
        shape = (self.channels, self.image_size, self.image_size)
        rows, lost = torch.zeros(len(indices), *shape, dtype=torch.uint8), []
        with contextlib.closing(_pictures(pool, indices, self.image_size)) as pictures:
            for place, picture in enumerate(pictures):
                if isinstance(picture, SkippedFile):
                    lost.append((int(indices[place]), _text(picture.path), picture.reason))
                elif picture.shape == shape:
                    rows[place] = picture
                else:
                    raise DataError(
                        f"all images must have {self.channels} channels, as the first has, but "
                        f"{_name_of(pool, indices[place])} has {picture.shape[0]}"
                    )
        return rows.numpy().tobytes(), lost


def _pictures(pool: Pool, indices: np.ndarray, image_size: int) -> Generator[Tensor | SkippedFile]:
    if isinstance(pool, PicturePool):
        yield from pool.pictures(indices, image_size)
    else:
        yield from pool.read(indices, image_size).images


def _channels(pool: Pool, image_size: int) -> int:
    """Of the first image that can be read; 3 where it is none of the first ones."""
    first = np.arange(min(len(pool.labels), 8))
    with contextlib.closing(_pictures(pool, first, image_size)) as pictures:
        return next((len(picture) for picture in pictures if isinstance(picture, Tensor)), 3)


def _identities(pool: Pool, indices: np.ndarray) -> bytes:
    """Keys and contents, -1 for what could not be read."""
    pairs = ((one.key, one.content()) for one in identities([Chosen(pool, indices)]))
    return np.array([(key, -1 if content is None else content) for key, content in pairs], dtype="<i8").tobytes()


def _labels(pool: Pool) -> np.ndarray:
    return pool.labels.astype(np.bool_ if is_multi_label(pool.labels) else np.int64)


def _save(path: Path, array: np.ndarray) -> None:
    with path.open("wb") as file:
        np.save(file, array, allow_pickle=False)


def _check_room(folder: Path, writer: _Writer) -> None:
    """RunError where the images that are still missing cannot fit."""
    missing = sum(len(pool.labels) - writer.progress.rows.get(part, 0) for part, pool in writer.pools.items())
    needed, free = missing * writer.bytes_of_row, shutil.disk_usage(folder).free
    if needed > free:
        raise RunError(
            f"the images take {size_of(needed)}, but {folder} has room for {size_of(free)}: free some, choose another "
            "--out, or a smaller --image-size"
        )


def _about(
    source: Source,
    config: DataConfig,
    levels: tuple[float, float] | None,
    entries: Mapping[Part, PartEntry],
    channels: int,
) -> About:
    return About(
        source=_text(source.name),
        class_names=tuple(map(_text, source.class_names)),
        image_size=config.stored_size,
        channels=channels,
        multi_label=is_multi_label(source.train.labels),
        levels=levels,
        found_by=config.split_seed if levels is not None and config.levels is None else None,
        test_size=source.test_size,
        facts=source.facts,
        left_out=tuple((_text(item.path), item.reason) for item in source.left_out),
        parts=dict(entries),
    )


def _text(name: str) -> str:
    """A name may hold bytes that are no text; JSON cannot."""
    return name.encode(errors="backslashreplace").decode()
