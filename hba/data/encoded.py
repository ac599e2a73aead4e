"""An image file, in its place on the disk or within a larger file."""

from dataclasses import dataclass
from io import BytesIO
from pathlib import Path


@dataclass(frozen=True, eq=False, repr=False)
class Encoded:
    """The bytes of an image file that stand in another file. name: what a person calls it."""

    name: str
    content: bytes

    def __str__(self) -> str:
        return self.name


ImageFile = Path | Encoded


def to_open(file: ImageFile) -> Path | BytesIO:
    """What PIL opens."""
    return BytesIO(file.content) if isinstance(file, Encoded) else file


def first_bytes(file: ImageFile, count: int) -> bytes:
    """At most that many from its start."""
    if isinstance(file, Encoded):
        return file.content[:count]
    with file.open("rb") as opened:
        return opened.read(count)
