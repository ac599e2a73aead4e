"""Image folders: what is read from a file, which files count, and what is refused."""

import struct
import zlib
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

import hba
from hba.data.arrays import from_dataset
from hba.data.reading import JPEG_SCALE, fitted, opened, read_image
from hba.errors import DataError

RED = (255, 0, 0)
GREEN = (0, 255, 0)
BLUE = (0, 0, 255)


def save(path: Path, image: Image.Image, **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path, **options)
    return path


def plain_image(
    color: tuple[int, ...] | int = RED,
    size: tuple[int, int] = (4, 4),
    mode: str = "RGB",
) -> Image.Image:
    return Image.new(mode, size, color)


def color_of(pixels: Tensor) -> tuple[int, ...]:
    """The colour of an image that has only one."""
    assert pixels.dtype == torch.uint8
    assert bool((pixels == pixels[:, :1, :1]).all())
    return tuple(pixels[:, 0, 0].tolist())


# What one file becomes.


@pytest.mark.parametrize("ending", ["png", "tif", "webp"])
def test_colours_are_kept_in_the_order_red_green_blue(
    tmp_path: Path, ending: str
) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (6, 6, 3), dtype=np.uint8)
    options = {"lossless": True} if ending == "webp" else {}
    path = save(tmp_path / f"a.{ending}", Image.fromarray(pixels), **options)
    assert np.array_equal(read_image(path, 6).permute(1, 2, 0).numpy(), pixels)


@pytest.mark.parametrize("ending", ["png", "tif"])
def test_all_16_bit_levels_are_scaled_to_8_bits(tmp_path: Path, ending: str) -> None:
    levels = np.arange(2**16, dtype=np.uint16).reshape(256, 256)
    image = read_image(
        save(tmp_path / f"a.{ending}", Image.fromarray(levels)), 256, (0, 65535)
    ).numpy()
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


# The file holds the quarters a b over c d; the table of the EXIF standard says how they
# are to be seen.
@pytest.mark.parametrize(
    ("orientation", "seen"),
    [
        (1, "abcd"),
        (2, "badc"),
        (3, "dcba"),
        (4, "cdab"),
        (5, "acbd"),
        (6, "cadb"),
        (7, "dbca"),
        (8, "bdac"),
    ],
)
def test_a_photo_stands_upright_as_its_exif_orientation_says(
    tmp_path: Path, orientation: int, seen: str
) -> None:
    quarters = np.array(
        [[LEVELS["a"], LEVELS["b"]], [LEVELS["c"], LEVELS["d"]]], dtype=np.uint8
    )
    exif = Image.Exif()
    exif[0x0112] = orientation
    for ending in ("jpg", "png"):
        path = save(
            tmp_path / f"photo.{ending}",
            Image.fromarray(quarters.repeat(16, 0).repeat(16, 1)),
            exif=exif,
        )
        middle = read_image(path, 32)[0, 8::16, 8::16].flatten().tolist()
        assert middle == pytest.approx([LEVELS[quarter] for quarter in seen], abs=3)
        for loaded in (Image.open(path), Image.open(path).convert("RGB")):
            assert torch.equal(
                from_dataset([(loaded, 0)], image_size=32).images[0],
                read_image(path, 32),
            )


def test_the_shorter_side_is_resized_and_the_middle_is_left_as_by_torchvision(
    tmp_path: Path,
) -> None:
    documented = v2.Compose([v2.Resize(16), v2.CenterCrop(16), v2.PILToTensor()])
    for size in (
        (30, 10),
        (10, 30),
        (33, 20),
        (7, 100),
        (1, 40),
        (8, 8),
        (501, 500),
        (43, 32),
    ):
        pixels = np.random.default_rng(0).integers(
            0, 256, (size[1], size[0], 3), dtype=np.uint8
        )
        image = read_image(save(tmp_path / "a.png", Image.fromarray(pixels)), 16)
        assert torch.equal(image, documented(Image.fromarray(pixels))), size


def test_large_jpegs_are_decoded_at_a_reduced_size_to_the_same_levels(
    tmp_path: Path,
) -> None:
    y, x = np.mgrid[:1200, :1600]
    waves = (
        127
        + 60 * np.sin(x / 90)
        + 50 * np.cos(y / 55)
        + np.random.default_rng(0).normal(0, 8, x.shape)
    )
    photo = Image.fromarray(waves.clip(0, 255).astype(np.uint8)).convert("RGB")
    path = save(tmp_path / "a.jpg", photo, quality=90)
    documented = v2.Compose([v2.Resize(64), v2.CenterCrop(64), v2.PILToTensor()])
    assert (
        read_image(path, 64).int() - documented(Image.open(path)).int()
    ).abs().max() <= 1
    with opened(path, draft=JPEG_SCALE * 64) as image:
        assert image.size == (800, 600)


def test_images_that_need_too_much_memory_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = save(tmp_path / "long.png", Image.new("L", (200_000, 8)))
    large = save(tmp_path / "large.png", Image.new("RGBA", (300, 200)))
    assert read_image(long, 8).shape == (3, 8, 8)
    with pytest.raises(DataError, match="crop"):
        read_image(long, 64)
    monkeypatch.setattr("hba.data.reading.MOST_BYTES", 18 * 300 * 200)
    assert read_image(large, 8).shape == (3, 8, 8)
    monkeypatch.setattr("hba.data.reading.MOST_BYTES", 18 * 300 * 200 - 1)
    for limit in (None, 20_000):
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
        with pytest.raises(DataError, match="reduce"):
            read_image(large, 8)


def png_with_transparent_color(
    path: Path, rows: np.ndarray, bits: int, color: tuple[int, ...]
) -> Path:
    """A PNG as its specification says: rows (H, bytes) of grey or RGB levels, and a
    tRNS chunk with one color.
    """

    def chunk(chunk_type: bytes, content: bytes) -> bytes:
        return (
            struct.pack(">I", len(content))
            + chunk_type
            + content
            + struct.pack(">I", zlib.crc32(chunk_type + content))
        )

    width = rows.shape[1] * 8 // (bits * len(color))
    head = struct.pack(
        ">IIBBBBB", width, len(rows), bits, 2 if len(color) == 3 else 0, 0, 0, 0
    )
    content = b"".join(b"\0" + row.tobytes() for row in rows)
    chunks = (
        (b"IHDR", head),
        (b"tRNS", struct.pack(f">{len(color)}H", *color)),
        (b"IDAT", zlib.compress(content)),
    )
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n"
        + b"".join(chunk(*arguments) for arguments in (*chunks, (b"IEND", b"")))
    )
    return path


def test_a_transparent_color_of_any_depth_becomes_white(tmp_path: Path) -> None:
    for bits, n_channels in ((1, 1), (2, 1), (4, 1), (8, 1), (16, 1), (8, 3), (16, 3)):
        most = 2**bits - 1
        see_through = (most // 3, *[0] * (n_channels - 1))
        opaque = (
            most - most // 3,
            *[0] * (n_channels - 1),
        )
        levels = np.array([[see_through] * 8] * 4 + [[opaque] * 8] * 4).reshape(8, -1)
        rows = levels.astype(">u2" if bits == 16 else np.uint8).view(np.uint8)
        if bits < 8:
            rows = np.packbits(
                np.unpackbits(rows[..., None], axis=-1)[..., -bits:].reshape(8, -1),
                axis=-1,
            )
        image = read_image(
            png_with_transparent_color(tmp_path / "a.png", rows, bits, see_through), 8
        )
        expected = [round(255 * level / most) for level in opaque] * (3 // n_channels)
        assert image[:, :4].unique().tolist() == [255], (bits, n_channels)
        assert (
            image[:, 4:].amin(dim=(1, 2)).tolist()
            == image[:, 4:].amax(dim=(1, 2)).tolist()
            == expected
        )


def test_an_image_folder_gives_a_training_the_pixels_of_a_search(
    tmp_path: Path,
) -> None:
    draw = np.random.default_rng(0)
    colors = draw.integers(0, 256, (24, 40, 3), dtype=np.uint8)
    turned = Image.Exif()
    turned[0x0112] = 6
    save(tmp_path / "a" / "upright.png", Image.fromarray(colors), exif=turned)
    save(
        tmp_path / "a" / "alpha.png",
        Image.fromarray(draw.integers(0, 256, (24, 40, 4), dtype=np.uint8)),
    )
    save(
        tmp_path / "a" / "deep.png",
        Image.fromarray(draw.integers(0, 65536, (24, 40)).astype(np.uint16)),
    )
    save(tmp_path / "a" / "palette.gif", Image.fromarray(colors).convert("P"))
    data = ImageFolder(
        str(tmp_path),
        v2.PILToTensor(),
        loader=partial(hba.data.load_image, image_size=16),
    )
    for (path, _), (pixels, _) in zip(data.samples, data, strict=True):
        assert torch.equal(pixels, read_image(Path(path), 16)), path
        whole = hba.data.load_image(path)
        assert whole.size == ((24, 40) if "upright" in path else (40, 24))
        assert torch.equal(fitted(whole, 16), pixels)
    (tmp_path / "a" / "broken.png").write_bytes(b"nothing")
    with pytest.raises(DataError, match=r"broken\.png"):
        hba.data.load_image(tmp_path / "a" / "broken.png")
