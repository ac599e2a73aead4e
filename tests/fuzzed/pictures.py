"""Image files of several formats that are broken: cut, with other bytes, or with a head that says what is not so."""

import io
import struct
import zlib
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
from hypothesis import strategies as st
from PIL import Image

from fuzzed.inputs import other_bytes

WIDTH, HEIGHT = 24, 20
SAVED: Mapping[str, tuple[tuple[str, Mapping[str, Any]], ...]] = {
    "png": (("RGB", {}), ("P", {}), ("I;16", {}), ("RGBA", {}), ("1", {})),
    "jpeg": (("RGB", {}), ("L", {}), ("CMYK", {}), ("RGB", {"progressive": True})),
    "tiff": (
        *(("RGB", {"compression": name}) for name in (None, "tiff_lzw", "tiff_adobe_deflate", "packbits", "jpeg")),
        *(("I;16", {}), ("1", {"compression": "group4"}), ("L", {"compression": "tiff_lzw"})),
    ),
    "gif": (("P", {}), ("L", {}), ("P", {"save_all": True, "append_images": 2})),
    "webp": (("RGB", {}), ("RGBA", {"lossless": True}), ("RGB", {"save_all": True, "append_images": 2})),
    "bmp": (("RGB", {}), ("P", {}), ("1", {}), ("RGBA", {})),
}
"""By the ending of a file's name: modes and options of Pillow. append_images: how many further frames."""

COUNTS = (0, 1, 2, 3, 4, 8, 255, 2048, 2**15, 2**16 - 1, 2**20, 2**31 - 1, 2**31, 2**32 - 1)
"""That a head may say."""
HEAD = 64
"""Bytes."""


@cache
def good(ending: str, number: int) -> bytes:
    """A whole file."""
    mode, options = SAVED[ending][number]
    image = _noise(mode)
    further = {"append_images": [_noise(mode)] * options["append_images"]} if "append_images" in options else {}
    file = io.BytesIO()
    image.save(file, ending, **{**options, **further})
    return file.getvalue()


def _noise(mode: str) -> Image.Image:
    random = np.random.default_rng(0)
    if mode == "I;16":
        return Image.fromarray(random.integers(0, 65536, (HEIGHT, WIDTH), dtype=np.uint16))
    return Image.fromarray(random.integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8)).convert(mode)


@st.composite
def pictures(draw: st.DrawFn, ending: str) -> bytes:
    """A file with that ending."""
    content = good(ending, draw(st.integers(0, len(SAVED[ending]) - 1)))
    what = draw(st.integers(0, 4))
    if what == 0:
        return draw(other_bytes(content))
    for _ in range(draw(st.integers(1, 3))):
        if what == 1 and ending == "png":
            content = _png_that_says(draw, content)
        elif what == 1 and ending == "tiff":
            content = _tiff_that_says(draw, content)
        elif what == 2:
            content = _number_at(content, draw(st.integers(0, HEAD)), draw(st.sampled_from(COUNTS)), "<")
        elif what == 3:
            place = draw(st.integers(0, len(content) - 1))
            content = content[:place] + bytes([content[place] ^ (1 << draw(st.integers(0, 7)))]) + content[place + 1 :]
        else:
            place = draw(st.integers(0, HEAD))
            content = content[:place] + bytes([draw(st.integers(0, 255))]) + content[place + 1 :]
    return content[: draw(st.integers(0, len(content)))] if draw(st.integers(0, 9)) == 0 else content


def _number_at(content: bytes, place: int, number: int, order: str, size: int = 4) -> bytes:
    new = struct.pack(f"{order}Q", number)[:size] if order == "<" else struct.pack(f"{order}Q", number)[-size:]
    return content[:place] + new + content[place + size :]


def _png_that_says(draw: st.DrawFn, content: bytes) -> bytes:
    """Another size, depth, colour or way to be read, with the checksum that goes with it."""
    place, size = draw(st.sampled_from([(16, 4), (20, 4), (24, 1), (25, 1), (26, 1), (27, 1), (28, 1)]))
    content = _number_at(content, place, draw(st.sampled_from(COUNTS)), ">", size)
    return content[:29] + struct.pack(">I", zlib.crc32(content[12:29])) + content[33:]


def _tiff_that_says(draw: st.DrawFn, content: bytes) -> bytes:
    """Another tag, type, count or value in one entry of its directory."""
    (start,) = struct.unpack("<I", content[4:8])
    (n_entries,) = struct.unpack("<H", content[start : start + 2].ljust(2, b"\0"))
    place = start + 2 + 12 * draw(st.integers(0, max(0, n_entries - 1)))
    offset, size = draw(st.sampled_from([(0, 2), (2, 2), (4, 4), (8, 2), (8, 4)]))
    return _number_at(content, place + offset, draw(st.sampled_from(COUNTS)), "<", size)
