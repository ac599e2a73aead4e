"""An image file, in its place on the disk or within a larger file."""

from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from hba.utils.files import open_regular


@dataclass(frozen=True, eq=False, repr=False)
class Encoded:
    """The bytes of an image file that stand in another file. name: what a person calls it."""

    name: str
    content: bytes

    def __str__(self) -> str:
        return self.name


ImageFile = Path | Encoded


def to_open(file: ImageFile) -> BinaryIO:
    """Its bytes, to be closed. OSError for a pipe or a device, which might never end."""
    return BytesIO(file.content) if isinstance(file, Encoded) else open_regular(file)


def first_bytes(file: ImageFile, count: int) -> bytes:
    """At most that many from its start."""
    if isinstance(file, Encoded):
        return file.content[:count]
    with open_regular(file) as opened:
        return opened.read(count)
