"""Hashes of the images that a search has seen, stored in the schedule's file, to find
them among test images later.

Names are cheap to hash and survive a moved folder or another split, but numbered files
of a training and a test part have the same names. So an image file is identified by a
hash of its class, name and size in bytes, and if two of these agree, by a second hash
of its content. Images in tables and saved datasets are hashed the same way; images in
memory or in arrays by their pixels. Prepared images keep the hashes of the original
images.
"""

import base64
import contextlib
import io
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple

import numpy as np

from hba.utils.files import open_regular

MOST_KEPT = 4096
"""Largest number of stored hashes: those with the lowest keys, so that the sample is
the same everywhere.
"""
BLOCK = 16 * 1024
"""Number of bytes that are hashed at the start, in the middle and at the end of a file.
"""

Kind = Literal["files", "pixels"]
"""What the hashes of images are computed from."""


class ImageHash(NamedTuple):
    """Two hashes of an image."""

    key: int
    """32 bits that are cheap to compute."""
    source: int | Path | None
    """32 more bits, or the file to compute them from when needed; None if unreadable.
    """

    def content(self) -> int | None:
        """The second hash; None for a file that cannot be read."""
        if not isinstance(self.source, Path):
            return self.source
        try:
            with open_regular(self.source) as file:
                return _digest(file, os.fstat(file.fileno()).st_size)
        except OSError:
            return None


class SeenCount(NamedTuple):
    """How many of the tested images a search has seen."""

    n_seen: int
    """Number of tested images that the search has seen."""
    n_tested: int
    """Number of tested images."""
    is_estimate: bool
    """Whether n_seen is an estimate, because only a sample could be compared."""


@dataclass(frozen=True, eq=False)
class SeenImages:
    """The images that a search has trained and validated on, or a sample of them."""

    kind: Kind
    """What the hashes are computed from."""
    n_images: int
    """Number of images that can be read."""
    hashes: np.ndarray
    """uint32 (k, 2): key and content of k of the images, by ascending key; if k is
    below n_images, those with the lowest keys.
    """

    @staticmethod
    def of(kind: Kind, images: Iterable[ImageHash]) -> "SeenImages":
        ordered = sorted(images, key=lambda image: image.key)
        pairs = [
            (image.key, content)
            for image in ordered[:MOST_KEPT]
            if (content := image.content()) is not None
        ]
        n_images = len(ordered) if len(ordered) > MOST_KEPT else len(pairs)
        return SeenImages(
            kind, n_images, np.array(pairs, dtype=np.uint32).reshape(-1, 2)
        )

    def to_json(self) -> dict[str, Any]:
        packed = base64.b64encode(self.hashes.astype("<u4").tobytes()).decode()
        return {"by": self.kind, "images": self.n_images, "hashes": packed}

    @staticmethod
    def from_json(content: Any) -> "SeenImages | None":
        """Read the content of to_json; None for anything else.

        A file may be edited, or written by another version.
        """
        try:
            hashes = np.frombuffer(
                base64.b64decode(content["hashes"], validate=True), dtype="<u4"
            ).reshape(-1, 2)
            return SeenImages(content["by"], int(content["images"]), hashes)
        except (TypeError, KeyError, ValueError):
            return None

    def overlap(self, tested: Iterable[ImageHash]) -> SeenCount:
        """How many of the tested images have been seen.

        Contents are hashed only where keys agree.
        """
        is_sample = 0 < len(self.hashes) < self.n_images
        limit = int(self.hashes[-1, 0]) if is_sample else 2**32
        seen = set(map(tuple, self.hashes.tolist()))
        images = list(tested)
        keys = {key for key, _ in seen}
        n_compared = sum(image.key <= limit for image in images)
        n_seen = sum(
            image.key in keys and (image.key, image.content()) in seen
            for image in images
        )
        estimate = round(n_seen * len(images) / n_compared) if n_compared else 0
        return SeenCount(estimate if is_sample else n_seen, len(images), is_sample)


def all_hashes(pools: Iterable[Any]) -> Iterator[ImageHash]:
    return (
        pool.items.hash(number) for pool in pools for number in pool.numbers.tolist()
    )


def hash_of_pixels(image: np.ndarray) -> ImageHash:
    """Hash an image (C, H, W). One channel has the same hash as three equal ones."""
    image = np.repeat(image, 3, axis=0) if len(image) == 1 else image
    digest = blake2b(str(image.shape).encode(), digest_size=8)
    digest.update(image.tobytes())
    return ImageHash(*np.frombuffer(digest.digest(), dtype="<u4").tolist())


def hash_of_file(file: Path | bytes, known_as: str) -> ImageHash:
    """Hash a file. One that has disappeared has no content.

    Args:
        file: Its path or content.
        known_as: Class and name of the image.
    """
    if (size := size_of(file)) is None:
        return ImageHash(0, None)
    key = blake2b(b"%d\0%s" % (size, os.fsencode(known_as)), digest_size=4).digest()
    source = _digest(io.BytesIO(file), size) if isinstance(file, bytes) else file
    return ImageHash(int.from_bytes(key, "little"), source)


def size_of(file: Path | bytes) -> int | None:
    """Size in bytes; None for a file that has disappeared since it was listed."""
    with contextlib.suppress(OSError):
        return len(file) if isinstance(file, bytes) else file.stat().st_size
    return None


def _digest(file: BinaryIO, size: int) -> int:
    digest = blake2b(digest_size=4)
    for start in (0, (size - BLOCK) // 2, size - BLOCK):
        file.seek(max(0, start))
        digest.update(file.read(BLOCK))
    return int.from_bytes(digest.digest(), "little")
