"""Which images a search has seen, told by a schedule's file. A later test can then tell whether it is on others.

Names are shorter than images and stay when a folder moves or is split otherwise, but numbered files of a training and
a test part share them. So an image of a folder is known by a hash of class, name and size in bytes, and where two agree
in it, by one of its content. So is an image in a table's file or a saved dataset. An image in memory, or in a file of
arrays, is known by its pixels. Prepared images keep by what the images were known that they are made of.
"""

import base64
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple

import numpy as np
from torch import Tensor

from hba.data.encoded import Encoded
from hba.data.folder import FilePool
from hba.data.images import ArrayPool, Images, LabelledImages, Pool, Source
from hba.data.listing import changing
from hba.data.npz import NpzPool
from hba.data.prepared import PreparedPool, known_again
from hba.data.saved import SavedPool
from hba.data.splits import Splits
from hba.utils.files import open_regular

MOST_KEPT = 4096
"""Of more images, those with the lowest hashes are kept: a sample that is the same one everywhere."""
BLOCK = 16 * 1024
"""Bytes that are hashed of the start, the middle and the end of a file."""

Kind = Literal["files", "pixels"]


class Identity(NamedTuple):
    """key: 32 bits that are cheap to have. source: 32 more, or the file that they are read from when asked for; None
    for those of a file that could not be read.
    """

    key: int
    source: int | Path | None

    def content(self) -> int | None:
        """None for a file that cannot be read."""
        return _content(self.source) if isinstance(self.source, Path) else self.source


class Part(NamedTuple):
    """Some images of a pool."""

    pool: Pool
    indices: np.ndarray


@dataclass(frozen=True, eq=False)
class Listing:
    """The images of a source by name or in memory, without reading any.

    chosen: those for training and validation of a search, or those to test on. everything: all pools that may be
    opened. n_images: in the pools for training and validation, the test split of a source without a test pool included.
    """

    class_names: tuple[str, ...]
    n_images: int
    chosen: tuple[Part, ...]
    everything: tuple[Pool, ...]

    @property
    def kind(self) -> Kind:
        """What its images are known by."""
        return kind_of(self.chosen[0].pool)

    @staticmethod
    def for_search(source: Source, splits: Splits) -> "Listing":
        chosen = (Part(source.train, splits.train), Part(source.val or source.train, splits.val))
        return Listing(source.class_names, _n_images(source), chosen, _pools(source))

    @staticmethod
    def for_test(source: Source, splits: Splits) -> "Listing":
        pools = _pools(source)
        if splits.test is not None:
            chosen = Part(source.train, splits.test)
        else:
            assert source.test is not None
            pool = source.test()
            chosen, pools = Part(pool, np.arange(len(pool.labels))), (*pools, pool)
        return Listing(source.class_names, _n_images(source), (chosen,), pools)


def _pools(source: Source) -> tuple[Pool, ...]:
    return (source.train, *([] if source.val is None else [source.val]))


def _n_images(source: Source) -> int:
    return sum(len(pool.labels) for pool in _pools(source))


@dataclass(frozen=True, eq=False)
class SeenImages:
    """The images that a search has trained and validated on, or a sample of them.

    n_images: how many they are, but for those that cannot be read. n_source: Listing.n_images; None for images in
    memory. hashes (k, 2): key and content of k of them, uint32, keys ascending; if they are fewer than n_images, those
    with the lowest keys.
    """

    kind: Kind
    n_images: int
    n_source: int | None
    hashes: np.ndarray

    @staticmethod
    def of_listing(listing: Listing) -> "SeenImages":
        return SeenImages._of(listing.kind, listing.n_images, identities(listing.chosen))

    @staticmethod
    def of_memory(parts: Iterable[LabelledImages]) -> "SeenImages":
        return SeenImages._of("pixels", None, (image for part in parts for image in of_pixels(part.images)))

    @staticmethod
    def _of(kind: Kind, n_source: int | None, images: Iterable[Identity]) -> "SeenImages":
        known = sorted(images, key=lambda image: image.key)
        pairs = [(image.key, content) for image in known[:MOST_KEPT] if (content := image.content()) is not None]
        n_images = len(known) if len(known) > MOST_KEPT else len(pairs)
        return SeenImages(kind, n_images, n_source, np.array(pairs, dtype=np.uint32).reshape(-1, 2))

    def to_json(self) -> dict[str, Any]:
        packed = base64.b64encode(self.hashes.astype("<u4").tobytes()).decode()
        return {"by": self.kind, "images": self.n_images, "of": self.n_source, "hashes": packed}

    @staticmethod
    def from_json(content: Any) -> "SeenImages | None":
        """None for what is not what to_json makes: a file may have been edited, or made by another version."""
        try:
            hashes = np.frombuffer(base64.b64decode(content["hashes"], validate=True), dtype="<u4").reshape(-1, 2)
            if content["by"] not in ("files", "pixels") or not isinstance(content["images"], int):
                return None
            return SeenImages(content["by"], content["images"], content["of"], hashes)
        except (TypeError, KeyError, ValueError):
            return None

    def count(self, tested: Iterable[Identity]) -> "SeenCount":
        """How many of the images that are tested have been seen. Contents are read only where keys agree."""
        is_sample = 0 < len(self.hashes) < self.n_images
        limit = int(self.hashes[-1, 0]) if is_sample else 2**32
        contents = self._contents()
        n_tested = n_compared = n_seen = 0
        for image in tested:
            n_tested += 1
            if image.key <= limit:
                n_compared += 1
                n_seen += image.key in contents and image.content() in contents[image.key]
        estimate = round(n_seen * n_tested / n_compared) if n_compared else 0
        return SeenCount(estimate if is_sample else n_seen, n_tested, is_sample)

    def share_among(self, there: Iterable[Identity]) -> float:
        """The share of what was seen that is still there, by key."""
        keys = {image.key for image in there}
        return float(np.mean([key in keys for key in self.hashes[:, 0].tolist()])) if len(self.hashes) else 0.0

    def _contents(self) -> Mapping[int, set[int]]:
        contents: dict[int, set[int]] = {}
        for key, content in self.hashes.tolist():
            contents.setdefault(key, set()).add(content)
        return contents


class SeenCount(NamedTuple):
    """How many of n_tested images a search has seen; an estimate where only a sample of them could be compared."""

    n_seen: int
    n_tested: int
    is_estimate: bool


def seen_by_search(listing: Listing | None, parts: tuple[Images, Images], is_named: bool) -> dict[str, Any] | None:
    """What a schedule's file tells of the images of its search; None for named datasets, whose splits their settings
    tell, and for images of an unknown kind.
    """
    if listing is not None:
        return SeenImages.of_listing(listing).to_json()
    in_memory = [part for part in parts if isinstance(part, LabelledImages)]
    if is_named or len(in_memory) < len(parts):
        return None
    return SeenImages.of_memory(in_memory).to_json()


def identities(parts: Iterable[Part]) -> Iterator[Identity]:
    """Of the images of these parts, in their order; of a file, its name and size are looked up, no more, of others the
    whole image.
    """
    for pool, indices in parts:
        if isinstance(pool, FilePool):
            yield from (_of_file(pool, index) for index in indices)
        elif isinstance(pool, SavedPool):
            yield from (_of_row(pool, index) for index in indices)
        elif isinstance(pool, NpzPool):
            yield from (_of_array(pool.pixels(index)) for index in indices)
        elif isinstance(pool, ArrayPool):
            yield from of_pixels(pool.images[indices])
        elif isinstance(pool, PreparedPool):
            yield from itertools.starmap(Identity, known_again(pool, indices))


def of_pixels(images: Tensor) -> Iterator[Identity]:
    """Of images (N, C, H, W) in memory; those of one channel are the same as with three equal ones."""
    images = images.expand(-1, 3, -1, -1) if images.shape[1] == 1 else images
    return map(_of_pixels, images.cpu().numpy())


def _of_pixels(image: np.ndarray) -> Identity:
    digest = blake2b(str(image.shape).encode(), digest_size=8)
    digest.update(image.tobytes())
    key, content = np.frombuffer(digest.digest(), dtype="<u4").tolist()
    return Identity(key, content)


def _of_array(pixels: np.ndarray) -> Identity:
    """Of an image (H, W) or (H, W, C) of an array; the same as of_pixels has of it."""
    return _of_pixels(np.stack([pixels] * 3) if pixels.ndim == 2 else pixels.transpose(2, 0, 1))


def kind_of(pool: Pool) -> Kind:
    if isinstance(pool, PreparedPool):
        return pool.entry.identified_by
    return "files" if isinstance(pool, FilePool | SavedPool) else "pixels"


def _of_file(pool: FilePool, index: int) -> Identity:
    path = pool.paths[index]
    try:
        size = path.stat().st_size
    except OSError as error:
        raise changing(error) from None
    return Identity(_key(size, pool.known_as(index)), path)


def _of_row(pool: SavedPool, index: int) -> Identity:
    """As of the same file in a folder of its class."""
    try:
        file = pool.file_of(index)
        if isinstance(file, Encoded):
            content = _digest(BytesIO(file.content), len(file.content))
            return Identity(_key(len(file.content), pool.known_as(index)), content)
        return Identity(_key(file.stat().st_size, pool.known_as(index)), file)
    except (OSError, ValueError):
        # A broken row is the same as another broken one of its class and name.
        return Identity(_key(0, pool.known_as(index)), 0)


def _key(size: int, name: str) -> int:
    return _number(blake2b(b"%d\0%s" % (size, os.fsencode(name)), digest_size=4).digest())


def _content(path: Path) -> int | None:
    try:
        with open_regular(path) as file:
            return _digest(file, os.fstat(file.fileno()).st_size)
    except OSError:
        return None


def _digest(file: BinaryIO, size: int) -> int:
    digest = blake2b(digest_size=4)
    for start in (0, (size - BLOCK) // 2, size - BLOCK):
        file.seek(max(0, start))
        digest.update(file.read(BLOCK))
    return _number(digest.digest())


def _number(digest: bytes) -> int:
    return int.from_bytes(digest, "little")
