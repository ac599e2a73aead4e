"""Image files: opened, decoded, converted to 8 bits and fitted to a square. Unreadable
files raise DataError.
"""

import contextlib
import csv
import functools
import importlib
import io
import logging
import mimetypes
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError
from torch import Tensor
from torchvision.transforms.v2 import functional as TF

from hba.errors import DataError
from hba.utils.files import open_regular, reason_of, write_text

NOT_READ = frozenset({"EPS"})
"""Formats that Pillow passes to another program: Ghostscript would run the code in an
EPS file.
"""
UNREAD = re.compile(
    r"\.(heic|heif|hif|jxl|svg|eps|dcm|nii|exr|hdr|svs|ndpi|dng|cr2|cr3|nef|arw|raf|orf|rw2)"
)
"""Endings of images in formats that Pillow does not read."""
JPEG_SCALE = 8
"""A JPEG may be decoded at a reduced size of at least this many times the requested one
(docs/data.md).
"""
TURNED = (5, 6, 7, 8)
"""Values of EXIF's orientation of images whose width and height are exchanged."""
MOST_BYTES = 800_000_000  # of an image while it is read
LEFT_OUT_NAME = "left_out.csv"
TO_PIXELS: Mapping[str, Callable[[Any], Any]] = {
    "L;2": lambda level: 85 * level,
    "L;4": lambda level: 17 * level,
    "RGB;16B": lambda color: tuple(level >> 8 for level in color),
}
"""From the transparent color in the header of a PNG to the pixels that Pillow makes, by
Pillow's raw mode.
"""

Levels = tuple[float, float]
"""The levels that become black (0) and white (255) in images of more than 8 bits."""
Fit = Callable[[Image.Image, int, Levels | None], Tensor]
"""A function of an upright image, a side in pixels and levels; returns a square, uint8
(3, side, side).
"""


class SkippedFile(NamedTuple):
    """A file that is not used, and the reason in a few words."""

    path: str
    reason: str


def save_left_out(folder: Path, left_out: Sequence[SkippedFile]) -> None:
    """Write left_out.csv into a folder atomically; remove it if nothing is left out."""
    path = folder / LEFT_OUT_NAME
    if not left_out:
        path.unlink(missing_ok=True)
        return
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(
        [SkippedFile._fields, *(map(printable, item) for item in left_out)]
    )
    write_text(path, buffer.getvalue())


def printable(name: str) -> str:
    """The name with escapes for what cannot be printed: it may hold any bytes.

    These are control characters and what UTF-8 cannot encode.
    """
    return re.sub(
        r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]",
        lambda match: match[0].encode("unicode_escape").decode(),
        name,
    )


@functools.cache
def formats() -> tuple[str, ...]:
    """Names of the image formats that are read, as in Pillow and in its order."""
    Image.init()
    if find_spec("pillow_heif") is not None:
        importlib.import_module("pillow_heif").register_heif_opener()
    # Pillow logs what it then raises; without a handler, Python would print it.
    logging.getLogger("PIL").addHandler(logging.NullHandler())
    return tuple(name for name in Image.ID if name not in NOT_READ)


@functools.cache
def image_endings() -> frozenset[str]:
    """File endings of all formats that are read, such as .png, in lower case."""
    format_names = formats()
    return frozenset(
        ending
        for ending, format_name in Image.registered_extensions().items()
        if format_name in format_names
    )


def why_unread(path: str | Path) -> str | None:
    """Why a file is not read, if its ending is not that of an image.

    None for another file.
    """
    ending = Path(path).suffix.lower()
    if ending in image_endings():
        return None
    more = (
        ", or pip install pillow-heif" if ending in (".heic", ".heif", ".hif") else ""
    )
    remedy = f"{ending[1:].upper()} is not read; convert it to JPEG{more}"
    return (
        remedy
        if UNREAD.fullmatch(ending)
        else "its ending is not that of an image; rename it if it is one"
    )


def is_unread_image(path: str | Path) -> bool:
    """Whether a file is an image that is not read.

    Its format is not read, or its ending is not known.
    """
    ending = Path(path).suffix.lower()
    if ending in image_endings() or UNREAD.fullmatch(ending):
        return ending not in image_endings()
    if (mimetypes.guess_type(path)[0] or "image").startswith("image"):
        with contextlib.suppress(DataError), opened(Path(path)):
            return True
    return False


@contextlib.contextmanager
def opened(file: Path | bytes, draft: int | None = None) -> Iterator[Image.Image]:
    """Open an image, and read only its header.

    Args:
        file: Its path or its content.
        draft: Side in pixels to which a JPEG may be reduced while it is decoded.

    Raises:
        DataError: With a short reason, for images of more than MOST_BYTES and any
            exception inside: Pillow's readers raise those of all kinds for damaged
            files.
    """
    try:
        stream = io.BytesIO(file) if isinstance(file, bytes) else open_regular(file)
        with stream, Image.open(stream, formats=formats()) as image:
            if draft is not None:
                image.draft("RGB", (draft, draft))
            is_plain = image.mode in ("RGB", "L", "1") and image.format in (
                "JPEG",
                "PNG",
                "TIFF",
                "BMP",
            )
            check_size(
                image.size, 9 if is_plain and not image.has_transparency_data else 18
            )
            if (
                image.format == "PNG"
                and (level := image.info.get("transparency")) is not None
            ):
                to_pixels = TO_PIXELS.get(str(image.tile[0].args), lambda same: same)
                image.info["transparency"] = to_pixels(level)
            yield image
    except UnidentifiedImageError:
        unread = isinstance(file, Path) and why_unread(file)
        raise DataError(
            unread or "it is not an image of a format that is read"
        ) from None
    except Exception as error:
        remedy = (
            "; reduce or crop it"
            if isinstance(error, Image.DecompressionBombError)
            else ""
        )
        raise DataError(f"{reason_of(error)}{remedy}") from None


def check_size(size: tuple[int, int], n_bytes: int = 9) -> None:
    """Check that an image fits into memory.

    Args:
        size: Width and height in pixels.
        n_bytes: For each pixel.

    Raises:
        DataError: For an image that would take more than MOST_BYTES.
    """
    most = MOST_BYTES // n_bytes
    if size[0] * size[1] > most:
        raise DataError(
            f"{size[0]:,} x {size[1]:,} pixels are more than {most / 1e6:.0f} million;"
            " reduce or crop it"
        )


def read_image(
    file: Path | bytes,
    image_size: int,
    levels: Levels | None = None,
    fit: Fit | None = None,
) -> Tensor:
    """Read one file, upright.

    Args:
        file: Its path or its content.
        image_size: Side of the result in pixels.
        levels: Those that become black and white in images of more than 8 bits.
        fit: How images are fitted to a square, by default `fitted`.

    Returns:
        uint8 (3, image_size, image_size).

    Raises:
        DataError: With the reason only.
    """
    with opened(file, draft=JPEG_SCALE * image_size) as image:
        ImageOps.exif_transpose(image, in_place=True)
        return (fit or fitted)(image, image_size, levels)


def upright_size(file: Path | bytes) -> tuple[int, int]:
    """Width and height of an upright image. DataError with the reason only."""
    with opened(file) as image:
        width, height = image.size
        is_turned = image.getexif().get(ExifTags.Base.Orientation) in TURNED
        return (height, width) if is_turned else (width, height)


def load_image(
    path: str | Path, image_size: int | None = None, levels: Levels | None = None
) -> Image.Image:
    """Read an image file as a search reads it.

    The image is upright by EXIF, of 8 bits, in RGB, with transparent pixels on white.
    As `loader` of torchvision's ImageFolder, this function gives a training the pixels
    of a search.

    Args:
        path: The file.
        image_size: Side in pixels, to which the shorter side is resized before the
            center is cropped. None keeps the size.
        levels: Those that become black and white in images with more than 8 bits, by
            default 0 and 65535.

    Raises:
        DataError: For a file that cannot be read.
    """
    try:
        if image_size is not None:
            return TF.to_pil_image(read_image(Path(path), image_size, levels))
        with opened(Path(path)) as image:
            ImageOps.exif_transpose(image, in_place=True)
            return in_rgb(image, levels).copy()
    except DataError as error:
        raise DataError(f"cannot read the image {path} ({error})") from None


def in_rgb(image: Image.Image, levels: Levels | None = None) -> Image.Image:
    """An upright Pillow image in RGB, of 8 bits, on white where it is transparent."""
    if is_deep(image):
        values = np.asarray(image)
        transparent = image.info.get("transparency")
        image = Image.fromarray(to_8_bits(values, levels))
        if transparent is not None:
            image.putalpha(
                Image.fromarray(
                    np.where(values == transparent, 0, 255).astype(np.uint8)
                )
            )
    if image.has_transparency_data:
        over = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", over.size, "white"), over)
    return image if image.mode == "RGB" else image.convert("RGB")


def fitted(image: Image.Image, image_size: int, levels: Levels | None = None) -> Tensor:
    """An upright Pillow image in_rgb, the shorter side resized, centre cropped.

    This is done by torchvision's Resize and CenterCrop.
    """
    check_size((image_size, image_size * max(image.size) // min(image.size)))
    pixels = TF.pil_to_tensor(
        TF.resize(in_rgb(image, levels), [image_size], antialias=True)
    )
    return TF.center_crop(pixels, [image_size, image_size])


def fitted_whole(
    image: Image.Image, image_size: int, levels: Levels | None = None
) -> Tensor:
    """An upright Pillow image in_rgb, the longer side resized, the rest black."""
    height, width = whole_size(image.size, image_size)
    pixels = TF.pil_to_tensor(
        TF.resize(in_rgb(image, levels), [height, width], antialias=True)
    )
    return TF.pad(pixels, margins_of(height, width, image_size))


def resized_mask(mask: np.ndarray, side: int) -> np.ndarray:
    """A mask uint8 (H, W), whose longer side is resized; the nearest pixel is taken."""
    height, width = whole_size((mask.shape[1], mask.shape[0]), side)
    rows, columns = map(_nearest_places, mask.shape, (height, width))
    return mask[np.ix_(rows, columns)]


def _nearest_places(n_from: int, n_to: int) -> np.ndarray:
    """Of n_from pixels in a row, the nearest one to each of n_to, int64 (n_to,).

    Of two that are as near, as for half the size, the first and the second are taken in
    turn. PIL takes the second. Masks would be half a pixel to one side of their images,
    and a flip would move them to the other side.
    """
    numbers = np.arange(n_to)
    places, remainders = np.divmod((2 * numbers + 1) * n_from, 2 * n_to)
    is_between = remainders == 0
    is_odd = numbers % 2 == 1
    nearest: np.ndarray = places - (is_between & is_odd)
    return nearest


def whole_mask(mask: np.ndarray, side: int, fill: int) -> np.ndarray:
    """A mask that is resized like its image, uint8 (side, side).

    Args:
        mask: The mask, as resized_mask returns it.
        side: Of the result, in pixels.
        fill: The value of pixels outside of the mask.
    """
    left, top, right, bottom = margins_of(len(mask), mask.shape[1], side)
    return np.pad(mask, ((top, bottom), (left, right)), constant_values=fill)


def whole_size(size: tuple[int, int], side: int) -> tuple[int, int]:
    """Height and width of an image whose longer side is resized.

    Args:
        size: Its width and height.
        side: The longer side of the result, in pixels.
    """
    width, height = (max(1, round(side * length / max(size))) for length in size)
    return height, width


def without_margins(pixels: Tensor, size: tuple[int, int]) -> Tensor:
    """The part (..., H, W) of maps (..., side, side) that shows the image.

    Args:
        pixels: The maps of an image that was fitted as a whole.
        size: Width and height of the image itself.
    """
    side = pixels.shape[-1]
    height, width = whole_size(size, side)
    left, top, _, _ = margins_of(height, width, side)
    return pixels[..., top : top + height, left : left + width]


def margins_of(height: int, width: int, side: int) -> list[int]:
    """Pixels on the left, top, right and bottom around the middle of a square."""
    left, top = (side - width) // 2, (side - height) // 2
    return [left, top, side - width - left, side - height - top]


def is_deep(image: Image.Image) -> bool:
    """Whether the image has more than 8 bits: Pillow's modes I;16, I and F."""
    return image.mode.startswith("I") or image.mode == "F"


def to_8_bits(values: np.ndarray, levels: Levels | None = None) -> np.ndarray:
    """Convert levels of any shape to uint8.

    Args:
        values: The levels.
        levels: Those that become black and white, by default 0 and 1 for floating
            point, else 0 and 65535.

    Raises:
        DataError: For values that are not finite, or outside of the default levels.
    """
    if values.dtype == np.uint8:
        return values
    if not np.isfinite(values).all():
        raise DataError("its levels must be finite numbers")
    low, high = levels or ((0, 1) if values.dtype.kind == "f" else (0, 65535))
    if levels is None and not low <= values.min() <= values.max() <= high:
        extremes = f"got {values.min():.7g} to {values.max():.7g}"
        remedy = "give those that become black and white with --levels LOW,HIGH"
        raise DataError(
            f"levels of {values.dtype} must be in [{low}, {high}], {extremes}; {remedy}"
        )
    scaled = values.astype(np.float64)
    # In place, for the memory of large images.
    scaled -= low
    scaled *= 255 / (high - low)
    return scaled.round(out=scaled).clip(0, 255, out=scaled).astype(np.uint8)
