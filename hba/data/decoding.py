"""Image files that may be anything: opened without waiting or running a program, decoded in bounded memory."""

import contextlib
import functools
import logging
import threading
from collections.abc import Callable, Iterator

from PIL import Image, UnidentifiedImageError

from hba.data.encoded import ImageFile, to_open

NOT_READ = frozenset({"EPS"})
"""Formats that Pillow hands to another program: Ghostscript runs what is in an EPS file."""

LARGE = 2**22
"""Pixels. Smaller images are decoded as they come."""

MOST_AT_ONCE = 2**27
"""Pixels of large images that all threads of a process decode at the same time; one image may have more."""

PIXELS_OF_PART = 2**20
"""Of a large image, that are converted at the same time."""

BLOCK_BYTES = 2**26
"""In which Pillow takes memory for a large image."""

LONGEST = 16
"""Times the shorter side: how much of a very long image is looked at, in its middle."""


@functools.cache
def formats() -> tuple[str, ...]:
    """Of the files that are read, as Pillow calls them, in its order."""
    Image.init()
    # It logs what it then raises. Without any handler, Python would print that.
    logging.getLogger("PIL").addHandler(logging.NullHandler())
    # Blocks so large go back to the system; smaller ones stay with the thread that had them.
    Image.core.set_block_size(BLOCK_BYTES)  # type: ignore[attr-defined]
    return tuple(name for name in Image.ID if name not in NOT_READ)


@contextlib.contextmanager
def opened(path: ImageFile) -> Iterator[Image.Image]:
    """The image, of which only the head has been read. OSError for a pipe or a device, and for what is no image."""
    with to_open(path) as file:
        try:
            image = Image.open(file, formats=formats())
        except UnidentifiedImageError:
            raise OSError("it is not an image of a format that is read") from None
        with image:
            yield image


class _Room:
    """How many pixels of large images are being decoded."""

    def __init__(self) -> None:
        self.taken = 0
        self.changed = threading.Condition()

    @contextlib.contextmanager
    def taken_by(self, pixels: int) -> Iterator[None]:
        pixels = min(pixels, MOST_AT_ONCE)
        with self.changed:
            self.changed.wait_for(lambda: self.taken + pixels <= MOST_AT_ONCE)
            self.taken += pixels
        try:
            yield
        finally:
            with self.changed:
                self.taken -= pixels
                self.changed.notify_all()


_ROOM = _Room()


@contextlib.contextmanager
def room_for(image: Image.Image) -> Iterator[None]:
    """To be entered before an image's pixels are read; waits until there is memory for those of a large one."""
    if _pixels(image) <= LARGE:
        yield
        return
    with _ROOM.taken_by(_pixels(image)):
        yield


def parts_of(image: Image.Image) -> Iterator[tuple[tuple[int, int, int, int], Image.Image]]:
    """A large image in strips, each with its box; any other whole."""
    width, height = image.size
    rows = height if _pixels(image) <= LARGE else max(1, PIXELS_OF_PART // width)
    for top in range(0, height, rows):
        box = (0, top, width, min(height, top + rows))
        yield box, image if rows == height else image.crop(box)


def in_parts(image: Image.Image, mode: str, convert: Callable[[Image.Image], Image.Image]) -> Image.Image:
    """What `convert` makes of the image, of that mode, pixel by pixel; of a large one strip by strip."""
    if _pixels(image) <= LARGE:
        return convert(image)
    whole = Image.new(mode, image.size)
    for box, part in parts_of(image):
        whole.paste(convert(part), box)
    return whole


def middle(image: Image.Image) -> Image.Image:
    """The image; of one that is very long, as much as can reach a square in its centre by any resizing filter."""
    width, height = image.size
    longest = LONGEST * min(width, height)
    if max(width, height) <= longest + 1:
        return image
    # As many pixels are cut off at both ends, so that the centre stays where it is.
    left, top = ((side - longest) // 2 if side > longest else 0 for side in (width, height))
    return image.crop((left, top, width - left, height - top))


def _pixels(image: Image.Image) -> int:
    width, height = image.size
    return width * height
