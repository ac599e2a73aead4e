"""Images of more than 8 bits: one scale from their levels to 8 bits for a whole data set, never one for each image."""

import contextlib
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np
from PIL import Image

from hba.data.decoding import opened, parts_of, room_for
from hba.data.encoded import ImageFile, first_bytes
from hba.errors import DataError

N_READERS = 8
DECODE_ERRORS = (Exception,)
"""What PIL raises for files that are broken, truncated, or of an absurd size: its readers fail in any way they like."""

Levels = tuple[float, float]
"""The levels that become black and white, 0 and 255."""

Kind = Literal["whole", "float", "colour"]
"""Whole numbers of up to 32 bits, floating point, or colours of 16 bits each."""

EIGHT_BIT_ENDINGS = frozenset({".jpg", ".jpeg", ".jpe", ".jfif", ".gif", ".webp", ".bmp"})
"""Of formats that hold 8 bits; their files are not opened to ask."""

CHECKED = 100
"""Images that are looked at to see whether a given scale, or colours of 16 bits, leave anything to be seen."""

NEARLY_BLACK = 0.1
"""Images that stay below this share of the scale are nearly black: 12 bits on a scale of 16 reach 0.06 of it."""

_PNG = b"\x89PNG\r\n\x1a\n"
_PNG_START = 26
_FLOAT_LIMITS = (1.0, 255.0, 65535.0)

Item = TypeVar("Item")


@dataclass(frozen=True)
class Deep:
    """An image of more than 8 bits, and between which levels it lies; for colours that is not looked up.

    path: its file, or the name of an image that is in none.
    """

    path: ImageFile | str
    kind: Kind
    lowest: float = 0.0
    highest: float = 0.0


def is_deep(image: Image.Image) -> bool:
    """Whether its levels are more than 8 bits can hold: PIL's modes I;16, I and F."""
    return image.mode.startswith("I") or image.mode == "F"


def to_8_bits(image: Image.Image, levels: Levels | None) -> Image.Image:
    """A deep image as mode L: levels[0] and below is 0, levels[1] and above is 255.

    ValueError for levels that are not finite, and where there is no scale.
    """
    if levels is None:
        raise ValueError(f"it has more than 8 bits, mode {image.mode}, and no levels say what is black and white")
    return Image.fromarray(values_in_8_bits(np.asarray(image, dtype=np.float64), levels))


def values_in_8_bits(values: np.ndarray, levels: Levels) -> np.ndarray:
    """Of levels as floating point, in any shape; uint8. ValueError for levels that are not finite."""
    low, high = levels
    return ((_finite(values) - low) * (255 / (high - low))).round().clip(0, 255).astype(np.uint8)


def levels_of_data(paths: Sequence[Path], given: Levels | None) -> tuple[Levels | None, tuple[str, ...]]:
    """levels_of for the images in these files."""
    return levels_of(deep_files(paths), given)


def levels_of(images: Generator[Deep], given: Levels | None) -> tuple[Levels | None, tuple[str, ...]]:
    """The one scale for all these images, and sentences that say so; None where no image has more than 8 bits.

    Without a scale given, it is found from the levels of all deep images: from 0, or the lowest level where that is
    below, to the next of 1, 3, 7, ..., 2^k - 1: 12 bits end at 4095. Floating-point images end at 1, 255 or
    65535 where they reach half of it, else at their highest level, as do all with levels below 0. DataError for images
    of both kinds, and for a scale that leaves them nearly black or white.
    """
    with contextlib.closing(images) as deep_images:
        found = list(islice(deep_images, None if given is None else CHECKED))
    grey = [deep for deep in found if deep.kind != "colour"]
    _check_colours([deep.path for deep in found if deep.kind == "colour" and not isinstance(deep.path, str)][:CHECKED])
    if not grey:
        return None, (() if given is None else ("levels have no effect: no image has more than 8 bits",))
    if given is not None:
        _check_given(given, grey)
    low, high = levels = given or _own_levels(grey)
    return levels, (f"in images of more than 8 bits, level {low:.7g} is black and {high:.7g} white",)


def _own_levels(grey: Sequence[Deep]) -> Levels:
    kinds = {deep.kind: deep for deep in grey}
    if len(kinds) > 1:
        shown = " and ".join(f"{kind} ({deep.path}, up to {deep.highest:.7g})" for kind, deep in sorted(kinds.items()))
        raise DataError(
            f"images of more than 8 bits must be of one kind, but there are {shown} numbers: convert them, or give the "
            "levels LOW,HIGH that are black and white in all of them"
        )
    lowest, highest = min(deep.lowest for deep in grey), max(deep.highest for deep in grey)
    high = highest if lowest < 0 else _limit(highest, is_float="float" in kinds)
    low = min(0.0, lowest)
    if high <= low:
        raise DataError(f"all images of more than 8 bits are black, {grey[0].path} first: there is nothing to learn")
    _check_outlier(grey, low, high)
    return low, high


def _limit(highest: float, *, is_float: bool) -> float:
    """Where the scale of levels from 0 ends."""
    if is_float:
        return next((limit for limit in _FLOAT_LIMITS if limit / 2 < highest <= limit), highest)
    return float(2 ** int(highest).bit_length() - 1)


def _check_outlier(grey: Sequence[Deep], low: float, high: float) -> None:
    """One image far brighter than the others would make them nearly black."""
    usual = float(np.median([deep.highest for deep in grey]))
    if usual - low <= NEARLY_BLACK * (high - low):
        brightest = max(grey, key=lambda deep: deep.highest)
        raise DataError(
            f"half of the images of more than 8 bits end at level {usual:.7g}, but {brightest.path} at "
            f"{brightest.highest:.7g}: give the levels LOW,HIGH that are black and white, such as {low:.7g},{usual:.7g}"
        )


def _check_given(levels: Levels, grey: Sequence[Deep]) -> None:
    low, high = levels
    lowest, highest = min(deep.lowest for deep in grey), max(deep.highest for deep in grey)
    dark, bright = highest - low <= NEARLY_BLACK * (high - low), lowest >= high
    if dark or bright:
        raise DataError(
            f"with the levels {low:.7g},{high:.7g} images are nearly {'black' if dark else 'white'}: those of "
            f"{len(grey)} that were looked at run from {lowest:.7g} to {highest:.7g}; give levels of that size"
        )


def _check_colours(paths: Sequence[ImageFile]) -> None:
    """Pillow reads the upper 8 of a colour's 16 bits."""
    highest = -1
    for path in paths:
        with contextlib.suppress(*DECODE_ERRORS), opened(path) as image, room_for(image):
            highest = max(highest, int(np.asarray(image.convert("RGB")).max()))
    if 0 <= highest <= NEARLY_BLACK * 255:
        raise DataError(
            f"{paths[0]} and others have 16 bits for each colour, of which the upper 8 are read, and are nearly black "
            f"then (up to {highest} of 255); save them with 8 bits for each"
        )


def deep_files(paths: Sequence[Path]) -> Generator[Deep]:
    """Those of the images that are deep, in their order; broken ones are left to the reader of images."""
    return deep_among([path for path in paths if path.suffix.lower() not in EIGHT_BIT_ENDINGS], deep_or_none)


def deep_among(images: Sequence[Item], ask: Callable[[Item], Deep | None]) -> Generator[Deep]:
    """What `ask` says of the images, in their order, but None; asked by several threads."""
    chunk = 8 * N_READERS
    with ThreadPoolExecutor(N_READERS) as readers:
        for start in range(0, len(images), chunk):
            yield from filter(None, readers.map(ask, images[start : start + chunk]))


def deep_or_none(path: ImageFile) -> Deep | None:
    """None for a file of at most 8 bits, and for one that cannot be read."""
    try:
        if _is_shallow_png(path):
            return None
        with opened(path) as image, room_for(image):
            if is_deep(image):
                ends = [(values.min(), values.max()) for values in (_values(part) for _, part in parts_of(image))]
                kind: Kind = "float" if image.mode == "F" else "whole"
                return Deep(path, kind, float(min(low for low, _ in ends)), float(max(high for _, high in ends)))
            if _has_16_bit_colours(image):
                return Deep(path, "colour")
    except DECODE_ERRORS:
        pass
    return None


def _values(image: Image.Image) -> np.ndarray:
    return _finite(np.asarray(image, dtype=np.float64))


def _finite(values: np.ndarray) -> np.ndarray:
    if not np.isfinite(values).all():
        raise ValueError("its levels must be finite numbers")
    return values


def _is_shallow_png(path: ImageFile) -> bool:
    """Whether its first bytes already say that it is a PNG of at most 8 bits; there may be a million of them."""
    start = first_bytes(path, _PNG_START)
    return start.startswith(_PNG) and len(start) == _PNG_START and start[24] <= 8


def _has_16_bit_colours(image: Image.Image) -> bool:
    """By how the file's pixels are laid out, such as RGB;16B."""
    layouts = (tile[3][0] if isinstance(tile[3], tuple) else tile[3] for tile in getattr(image, "tile", ()))
    return any(";16" in str(layout) for layout in layouts)
