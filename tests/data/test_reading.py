"""Image folders: what is read from a file, which files count, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from hba.data.reading import read_image

RED, GREEN, BLUE = (255, 0, 0), (0, 255, 0), (0, 0, 255)


def save(path: Path, image: Image.Image, **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path, **options)
    return path


def plain_image(color: tuple[int, ...] | int = RED, size: tuple[int, int] = (4, 4), mode: str = "RGB") -> Image.Image:
    return Image.new(mode, size, color)


def color_of(pixels: Tensor) -> tuple[int, ...]:
    """The colour of an image that has only one."""
    assert pixels.dtype == torch.uint8
    assert bool((pixels == pixels[:, :1, :1]).all())
    return tuple(pixels[:, 0, 0].tolist())


# What one file becomes.


@pytest.mark.parametrize("ending", ["png", "tif", "webp"])
def test_colours_are_kept_in_the_order_red_green_blue(tmp_path: Path, ending: str) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (6, 6, 3), dtype=np.uint8)
    options = {"lossless": True} if ending == "webp" else {}
    path = save(tmp_path / f"a.{ending}", Image.fromarray(pixels), **options)
    assert np.array_equal(read_image(path, 6).permute(1, 2, 0).numpy(), pixels)


@pytest.mark.parametrize("ending", ["png", "tif"])
def test_all_16_bit_levels_are_scaled_to_8_bits(tmp_path: Path, ending: str) -> None:
    levels = np.arange(2**16, dtype=np.uint16).reshape(256, 256)
    image = read_image(save(tmp_path / f"a.{ending}", Image.fromarray(levels)), 256, (0, 65535)).numpy()
    # 65535 / 255 is 257: k * 257 is k, and everything goes to the nearest.
    assert np.array_equal(image[0].ravel(), (np.arange(2**16) + 128) // 257)
    assert image[0].ravel()[[0, 257, 32768, 65535]].tolist() == [0, 1, 128, 255]
    assert np.array_equal(image[0], image[1])
    assert np.array_equal(image[0], image[2])


def test_grey_palette_and_transparent_images_become_colours(tmp_path: Path) -> None:
    """Transparent pixels lie on white."""
    palette = plain_image(1, mode="P")
    palette.putpalette([*BLUE, *GREEN, *RED])
    for image, expected in (
        (plain_image(77, mode="L"), (77, 77, 77)),
        (palette, GREEN),
        (plain_image((255, 0, 0, 255), mode="RGBA"), RED),
        (plain_image((0, 0, 0, 0), mode="RGBA"), (255, 255, 255)),
        # Black at an opacity of 102 / 255 = 0.4 on white: 0.6 of 255.
        (plain_image((0, 0, 0, 102), mode="RGBA"), (153, 153, 153)),
    ):
        assert color_of(read_image(save(tmp_path / "a.png", image), 4)) == expected


LEVELS = {"a": 20, "b": 90, "c": 160, "d": 230}


# The file holds the quarters a b over c d; the table of the EXIF standard says how they are to be seen.
@pytest.mark.parametrize(
    ("orientation", "seen"),
    [(1, "abcd"), (2, "badc"), (3, "dcba"), (4, "cdab"), (5, "acbd"), (6, "cadb"), (7, "dbca"), (8, "bdac")],
)
@pytest.mark.parametrize("ending", ["jpg", "png"])
def test_a_photo_stands_upright_as_its_exif_orientation_says(
    tmp_path: Path, orientation: int, seen: str, ending: str
) -> None:
    quarters = np.array([[LEVELS["a"], LEVELS["b"]], [LEVELS["c"], LEVELS["d"]]], dtype=np.uint8)
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = save(tmp_path / f"photo.{ending}", Image.fromarray(quarters.repeat(16, 0).repeat(16, 1)), exif=exif)
    middle = read_image(path, 32)[0, 8::16, 8::16].flatten().tolist()
    assert middle == pytest.approx([LEVELS[quarter] for quarter in seen], abs=3)


@pytest.mark.parametrize("size", [(30, 10), (10, 30), (33, 20), (7, 100), (1, 40), (8, 8), (501, 500)])
def test_the_shorter_side_is_resized_as_by_pil_and_the_middle_is_left(tmp_path: Path, size: tuple[int, int]) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    found = read_image(save(tmp_path / "a.png", Image.fromarray(pixels)), 16)
    width, height = (max(16, round(side * 16 / min(size))) for side in size)
    resized = Image.fromarray(pixels).resize((width, height), Image.Resampling.BILINEAR)
    left, top = round((width - 16) / 2), round((height - 16) / 2)
    expected = np.asarray(resized.crop((left, top, left + 16, top + 16)))
    assert np.array_equal(found.permute(1, 2, 0).numpy(), expected)
