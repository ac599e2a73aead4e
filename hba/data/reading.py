"""Image files: opened, decoded, brought to 8 bits and fitted to a square. What cannot be read is refused here."""

import contextlib
import csv
import functools
import io
import logging
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TypeVar

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor
from torchvision.transforms.v2 import functional as TF

from hba.errors import DataError, RunError
from hba.utils.files import open_regular, reason_of, write_text

N_READERS = 8
"""Threads that read images into memory."""
NOT_READ = frozenset({"EPS"})
"""Formats that Pillow passes to another program: Ghostscript would run the code in an EPS file."""
LARGE = 2**24
"""Pixels. Of larger images only one is decoded at a time, which bounds the memory."""
NEARLY_BLACK = 0.1
"""Images below this share of the scale are nearly black: 12 bits on a scale of 16 bits reach 0.06 of it."""
CHECKED = 100
"""Images that are looked at to check levels that the user gives."""
LEFT_OUT_NAME = "left_out.csv"

Levels = tuple[float, float]
"""The levels that become black (0) and white (255) in images of more than 8 bits."""
In = TypeVar("In")
Out = TypeVar("Out")
_one_large = threading.Lock()


@dataclass(frozen=True)
class SkippedFile:
    """A file that is not used, or a folder without any used file, and the reason in a few words."""

    path: str
    reason: str


@dataclass(frozen=True, eq=False, repr=False)
class Encoded:
    """The bytes of an image file that are stored in another file. name: for messages."""

    name: str
    content: bytes

    def __str__(self) -> str:
        return self.name


ImageFile = Path | Encoded


@dataclass(frozen=True)
class Deep:
    """An image of more than 8 bits: its name, whether it is floating point, its lowest and highest level."""

    name: str
    is_float: bool
    lowest: float
    highest: float


def without_doubles(*parts: Iterable[SkippedFile]) -> tuple[SkippedFile, ...]:
    """The files of all parts, each path once, at its first place."""
    by_path: dict[str, SkippedFile] = {}
    for item in (item for part in parts for item in part):
        by_path.setdefault(item.path, item)
    return tuple(by_path.values())


def save_left_out(folder: Path, left_out: Sequence[SkippedFile]) -> None:
    """Write left_out.csv into the folder atomically; remove it where no file is left out."""
    path = folder / LEFT_OUT_NAME
    if not left_out:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise RunError(f"cannot remove {path}: {error.strerror}") from None
        return
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("path", "reason"))
    writer.writerows((printable(item.path), item.reason) for item in left_out)
    write_text(path, text.getvalue())


def printable(name: str) -> str:
    """The name as UTF-8 can hold it: the name of a file may hold any bytes."""
    return name.encode(errors="backslashreplace").decode()


def in_threads(function: Callable[[In], Out], items: Iterable[In]) -> Generator[Out]:
    """The results in the order of the items, computed by several threads. Closing it cancels what has not begun."""
    threads = ThreadPoolExecutor(N_READERS)
    try:
        yield from threads.map(function, items)
    finally:
        threads.shutdown(cancel_futures=True)


@functools.cache
def formats() -> tuple[str, ...]:
    """Names of the image formats that are read, as in Pillow and in its order."""
    Image.init()
    # Pillow logs what it then raises; without a handler, Python would print it.
    logging.getLogger("PIL").addHandler(logging.NullHandler())
    return tuple(name for name in Image.ID if name not in NOT_READ)


@functools.cache
def image_endings() -> frozenset[str]:
    """File endings of all formats that are read, such as .png, in lower case."""
    return frozenset(ending for ending, kind in Image.registered_extensions().items() if kind in formats())


@contextlib.contextmanager
def opened(file: ImageFile, draft: int | None = None) -> Iterator[Image.Image]:
    """An image of which only the header has been read.

    draft: side in pixels that a JPEG may be reduced to while it is decoded. DataError with the reason, in a few words,
    for anything that goes wrong inside: Pillow's readers raise exceptions of any kind for damaged files.
    """
    try:
        stream = io.BytesIO(file.content) if isinstance(file, Encoded) else open_regular(file)
        with stream, Image.open(stream, formats=formats()) as image:
            if draft is not None:
                image.draft("RGB", (draft, draft))
            with _one_large if image.width * image.height > LARGE else contextlib.nullcontext():
                yield image
    except UnidentifiedImageError:
        raise DataError("it is not an image of a format that is read") from None
    except Exception as error:
        raise DataError(reason_of(error)) from None


def read_image(file: ImageFile, image_size: int, levels: Levels | None = None) -> Tensor:
    """One file as uint8 (3, image_size, image_size): upright, RGB, shorter side resized, centre cropped.

    Transparent pixels are put on white; grey and palette images become RGB. levels: see Levels, needed for images of
    more than 8 bits. DataError, with the reason only, for a file that cannot be read.
    """
    with opened(file, draft=2 * image_size) as image:
        ImageOps.exif_transpose(image, in_place=True)
        return fitted(image, image_size, levels)


def fitted(image: Image.Image, image_size: int, levels: Levels | None = None) -> Tensor:
    """The same for a Pillow image that is upright."""
    image = _to_rgb(image, levels)
    width, height = image.size
    scale = image_size / min(width, height)
    size = [max(image_size, round(height * scale)), max(image_size, round(width * scale))]
    pixels = TF.pil_to_tensor(TF.resize(image, size, antialias=True))
    return TF.center_crop(pixels, [image_size, image_size])


def _to_rgb(image: Image.Image, levels: Levels | None) -> Image.Image:
    if is_deep(image):
        if levels is None:
            raise DataError(f"it has more than 8 bits, mode {image.mode}, and no levels say what is black and white")
        image = Image.fromarray(to_8_bits(np.asarray(image, dtype=np.float64), levels))
    if image.has_transparency_data:
        over = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", over.size, "white"), over)
    return image.convert("RGB")


def is_deep(image: Image.Image) -> bool:
    """Whether the image has more than 8 bits: Pillow's modes I;16, I and F."""
    return image.mode.startswith("I") or image.mode == "F"


def to_8_bits(values: np.ndarray, levels: Levels) -> np.ndarray:
    """Floating-point levels of any shape as uint8. DataError for values that are not finite."""
    if not np.isfinite(values).all():
        raise DataError("its levels must be finite numbers")
    low, high = levels
    return ((values - low) * (255 / (high - low))).round().clip(0, 255).astype(np.uint8)


def deep_or_none(file: ImageFile) -> Deep | None:
    """The range of levels of a file of more than 8 bits; None for other files, and for those that cannot be read."""
    with contextlib.suppress(DataError), opened(file) as image:
        if is_deep(image):
            values = np.asarray(image)
            if np.isfinite(values).all():
                return Deep(str(file), image.mode == "F", float(values.min()), float(values.max()))
    return None


def levels_of(images: Generator[Deep], given: Levels | None) -> tuple[Levels | None, tuple[str, ...]]:
    """One scale for all these images, and a sentence that names it; None where no image has more than 8 bits.

    Without given levels, the scale runs from 0, or the lowest level where that is negative, to the next of 1, 3, 7,
    ..., 2^k - 1: images of 12 bits end at 4095. Floating-point images end at 1, 255 or 65535 where they reach half of
    it, otherwise at their highest level, as do all with negative levels. DataError, which names --levels, for a scale
    on which images are nearly black or white, and for whole numbers beside floating point.
    """
    with contextlib.closing(images):
        found = list(islice(images, None if given is None else CHECKED))
    if not found:
        return None, (() if given is None else ("levels have no effect: no image has more than 8 bits",))
    low, high = levels = given or _own_levels(found)
    # A single very bright image must not make the others nearly black; a given scale may be meant for bright ones.
    highest = max(deep.highest for deep in found) if given else float(np.median([deep.highest for deep in found]))
    if highest - low <= NEARLY_BLACK * (high - low) or min(deep.lowest for deep in found) >= high:
        brightest = max(found, key=lambda deep: deep.highest)
        raise DataError(
            f"images of more than 8 bits are nearly black or white between the levels {low:.7g} and {high:.7g}: most "
            f"end at {highest:.7g}, {brightest.name} at {brightest.highest:.7g}; give the levels that become black and "
            f"white by --levels LOW,HIGH"
        )
    return levels, (f"in images of more than 8 bits, level {low:.7g} is black and {high:.7g} white",)


def _own_levels(found: Sequence[Deep]) -> Levels:
    lowest, highest = min(deep.lowest for deep in found), max(deep.highest for deep in found)
    low = min(0.0, lowest)
    if len({deep.is_float for deep in found}) > 1 or highest <= low:
        raise DataError(
            "images of more than 8 bits must be all whole numbers or all floating point, and not all black, "
            f"{found[0].name} first; convert some, or give the levels for all by --levels LOW,HIGH"
        )
    if lowest < 0:
        return low, highest
    if found[0].is_float:
        return low, next((limit for limit in (1.0, 255.0, 65535.0) if limit / 2 < highest <= limit), highest)
    return low, float(2 ** int(highest).bit_length() - 1)
