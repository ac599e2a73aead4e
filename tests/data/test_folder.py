"""Image folders: what is read from a file, which files count, and what is refused."""

import struct
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from hba.data.folder import FilePool, folder_source, read_image
from hba.data.images import LabelledImages
from hba.errors import DataError

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


def folder_with(tmp_path: Path, *names: str) -> Path:
    for name in names:
        save(tmp_path / name, plain_image())
    return tmp_path


def files_of(pool: Any) -> list[str]:
    assert isinstance(pool, FilePool)
    return [path.name for path in pool.paths]


def read_all(folder: Path, size: int = 4, skip_broken: bool = False) -> LabelledImages:
    pool = folder_source(folder, skip_broken).train
    return pool.read(np.arange(len(pool.labels)), size)


# What one file becomes.


@pytest.mark.parametrize("ending", ["png", "bmp", "ppm", "tif", "webp"])
def test_colours_are_kept_in_the_order_red_green_blue(tmp_path: Path, ending: str) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (6, 6, 3), dtype=np.uint8)
    options = {"lossless": True} if ending == "webp" else {}
    path = save(tmp_path / f"a.{ending}", Image.fromarray(pixels), **options)
    assert np.array_equal(read_image(path, 6).permute(1, 2, 0).numpy(), pixels)


def test_grey_becomes_three_equal_channels(tmp_path: Path) -> None:
    pixels = np.arange(36, dtype=np.uint8).reshape(6, 6) * 7
    image = read_image(save(tmp_path / "a.png", Image.fromarray(pixels)), 6)
    assert all(np.array_equal(channel, pixels) for channel in image.numpy())


def test_black_and_white_becomes_0_and_255(tmp_path: Path) -> None:
    pixels = np.arange(36).reshape(6, 6) % 2 == 0
    image = read_image(save(tmp_path / "a.png", Image.fromarray(pixels)), 6)
    assert all(np.array_equal(channel, 255 * pixels) for channel in image.numpy())


@pytest.mark.parametrize("ending", ["png", "tif"])
def test_all_16_bit_levels_are_scaled_to_8_bits(tmp_path: Path, ending: str) -> None:
    levels = np.arange(2**16, dtype=np.uint16).reshape(256, 256)
    image = read_image(save(tmp_path / f"a.{ending}", Image.fromarray(levels)), 256, (0, 65535)).numpy()
    # 65535 / 255 is 257: k * 257 is k, and everything goes to the nearest.
    assert np.array_equal(image[0].ravel(), (np.arange(2**16) + 128) // 257)
    assert image[0].ravel()[[0, 257, 32768, 65535]].tolist() == [0, 1, 128, 255]
    assert np.array_equal(image[0], image[1])
    assert np.array_equal(image[0], image[2])


@pytest.mark.parametrize(
    ("color", "expected"),
    [
        ((255, 0, 0, 255), RED),
        ((255, 0, 0, 0), (255, 255, 255)),
        ((0, 0, 0, 0), (255, 255, 255)),
        # Black at an opacity of 102 / 255 = 0.4 on white: 0.6 of 255.
        ((0, 0, 0, 102), (153, 153, 153)),
    ],
)
def test_transparent_pixels_lie_on_white(
    tmp_path: Path, color: tuple[int, int, int, int], expected: tuple[int, ...]
) -> None:
    assert color_of(read_image(save(tmp_path / "a.png", plain_image(color, mode="RGBA")), 4)) == expected


def test_grey_with_transparency_lies_on_white(tmp_path: Path) -> None:
    assert color_of(read_image(save(tmp_path / "a.png", plain_image((0, 102), mode="LA")), 4)) == (153,) * 3
    path = save(tmp_path / "b.png", plain_image(7, mode="L"), transparency=7)
    assert color_of(read_image(path, 4)) == (255, 255, 255)


def palette_image() -> Image.Image:
    image = Image.new("P", (4, 4), 1)
    image.putpalette([*BLUE, *GREEN, *RED])
    return image


def test_a_palette_image_has_its_palettes_colours(tmp_path: Path) -> None:
    assert color_of(read_image(save(tmp_path / "a.png", palette_image()), 4)) == GREEN


def test_a_transparent_colour_of_a_palette_lies_on_white(tmp_path: Path) -> None:
    assert color_of(read_image(save(tmp_path / "a.png", palette_image(), transparency=1), 4)) == (255, 255, 255)
    assert color_of(read_image(save(tmp_path / "b.png", palette_image(), transparency=2), 4)) == GREEN
    half = bytes([255, 153, 255])
    # Green at an opacity of 153 / 255 = 0.6.
    assert color_of(read_image(save(tmp_path / "c.png", palette_image(), transparency=half), 4)) == (102, 255, 102)


def test_a_jpeg_in_printing_colours_becomes_rgb(tmp_path: Path) -> None:
    path = save(tmp_path / "a.jpg", plain_image((0, 255, 255, 0), mode="CMYK"), quality=100)
    assert color_of(read_image(path, 4)) == pytest.approx(RED, abs=3)


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


def stripes(size: tuple[int, int], across: bool) -> Image.Image:
    """Red, green, blue; from left to right, or from top to bottom."""
    pixels = np.array([RED, GREEN, BLUE], dtype=np.uint8)
    width, height = size
    rows = pixels[None].repeat(width // 3, 1).repeat(height, 0)
    return Image.fromarray(rows if across else pixels[:, None].repeat(height // 3, 0).repeat(width, 1))


@pytest.mark.parametrize(("size", "across"), [((30, 10), True), ((10, 30), False), ((90, 30), True), ((9, 27), False)])
@pytest.mark.parametrize("ending", ["png", "jpg"])
def test_of_a_wide_or_tall_image_the_middle_is_left(
    tmp_path: Path, size: tuple[int, int], across: bool, ending: str
) -> None:
    image = read_image(save(tmp_path / f"a.{ending}", stripes(size, across), quality=100), 10)
    assert image.shape == (3, 10, 10)
    assert image[:, 3:7, 3:7].float().mean(dim=(1, 2)).tolist() == pytest.approx(GREEN, abs=6)
    assert image.float().mean(dim=(1, 2)).tolist() == pytest.approx(GREEN, abs=40)


@pytest.mark.parametrize("size", [(1, 1), (1, 40), (33, 20), (20, 33), (8, 8), (501, 500), (7, 100)])
def test_every_image_gets_the_size_asked_for(tmp_path: Path, size: tuple[int, int]) -> None:
    image = read_image(save(tmp_path / "a.png", plain_image((10, 20, 30), size)), 16)
    assert image.shape == (3, 16, 16)
    assert color_of(image) == (10, 20, 30)


def test_a_large_photo_keeps_what_is_where_when_it_is_made_small(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    photo = Image.fromarray(pixels.repeat(64, 0).repeat(64, 1))
    image = read_image(save(tmp_path / "a.jpg", photo, quality=95), 8)
    expected = np.asarray(photo.resize((8, 8), Image.Resampling.BILINEAR), dtype=int)
    assert np.abs(image.permute(1, 2, 0).numpy() - expected).mean() < 4


# Which files count.


def test_a_folder_of_classes_is_a_training_pool(tmp_path: Path) -> None:
    folder_with(tmp_path, "dog/b.png", "cat/z.png", "cat/a.png", "dog/a.png", "dog/c.png")
    source = folder_source(tmp_path)
    assert source.class_names == ("cat", "dog")
    assert source.train.labels.tolist() == [0, 0, 1, 1, 1]
    assert files_of(source.train) == ["a.png", "z.png", "a.png", "b.png", "c.png"]
    assert (source.name, source.val, source.test) == (str(tmp_path), None, None)


def test_train_val_and_test_folders_are_three_pools(tmp_path: Path) -> None:
    folder_with(tmp_path, "train/cat/1.png", "train/dog/2.png", "val/dog/3.png", "test/cat/4.png", "test/dog/5.png")
    source = folder_source(tmp_path)
    assert source.class_names == ("cat", "dog")
    assert (files_of(source.train), source.train.labels.tolist()) == (["1.png", "2.png"], [0, 1])
    assert source.val is not None
    assert (files_of(source.val), source.val.labels.tolist()) == (["3.png"], [1])
    assert source.test is not None
    assert (files_of(source.test()), source.test().labels.tolist()) == (["4.png", "5.png"], [0, 1])


def test_all_known_endings_count_in_upper_case_too(tmp_path: Path) -> None:
    names = ["a.PNG", "b.JPG", "c.Jpeg", "d.BMP", "e.ppm", "f.TIF", "g.tiff", "h.webp", "i.png"]
    folder_with(tmp_path, *(f"cat/{name}" for name in names))
    assert files_of(folder_source(tmp_path).train) == names
    assert len(read_all(tmp_path)) == len(names)


def test_hidden_and_other_files_and_hidden_folders_are_ignored(tmp_path: Path) -> None:
    folder_with(tmp_path, "cat/a.png", "cat/.b.png", "cat/._c.jpg", ".thumbnails/d.png", "cat/more/e.png")
    for name in ("notes.txt", "cat/Thumbs.db", "cat/labels.csv", "cat/png", "loose.png"):
        (tmp_path / name).write_bytes(b"no image")
    (tmp_path / "cat" / "folder.png").mkdir()
    source = folder_source(tmp_path)
    assert source.class_names == ("cat",)
    assert files_of(source.train) == ["a.png", "e.png"]
    left_out = {Path(item.path).name: item.reason for item in source.train.left_out}
    assert left_out == {
        "labels.csv": ".csv is not the ending of an image",
        "png": "no ending that tells an image",
        "loose.png": "not in the folder of a class",
    }


def test_copies_in_a_hidden_folder_of_a_class_are_ignored(tmp_path: Path) -> None:
    # Jupyter keeps copies of the images that it opened in such folders.
    folder_with(tmp_path, "cat/a.png", "cat/.ipynb_checkpoints/a-checkpoint.png")
    assert files_of(folder_source(tmp_path).train) == ["a.png"]


def test_links_to_files_count_and_broken_links_and_links_to_folders_do_not(tmp_path: Path) -> None:
    folder_with(tmp_path, "images/cat/a.png", "elsewhere/b.png")
    cat = tmp_path / "images" / "cat"
    (cat / "c.png").symlink_to(tmp_path / "elsewhere" / "b.png")
    (cat / "d.png").symlink_to(tmp_path / "nowhere.png")
    (cat / "more").symlink_to(tmp_path / "elsewhere")
    train = folder_source(tmp_path / "images").train
    assert files_of(train) == ["a.png", "c.png"]
    reasons = [item.reason for item in train.left_out]
    assert reasons == ["a link to a file that is not there", "links to folders are not followed"]


def test_files_of_sub_folders_are_sorted_folder_by_folder(tmp_path: Path) -> None:
    folder_with(tmp_path, "cat/b/2.png", "cat/b-c/1.png", "cat/a.png", "cat/b/sub/0.png", "cat/c.png")
    pool = folder_source(tmp_path).train
    assert isinstance(pool, FilePool)
    assert list(pool.paths) == sorted(pool.paths)
    assert len(pool.paths) == 5


def test_a_folder_that_cannot_be_listed_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder_with(tmp_path, "cat/a.png")

    def refuse(folder: Path) -> Any:
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr("hba.data.listing.os.scandir", refuse)
    with pytest.raises(DataError, match=r"cannot list the images in .* \(Permission denied\); make it readable"):
        folder_source(tmp_path)


def test_a_folder_that_lies_in_a_hidden_one_is_read(tmp_path: Path) -> None:
    folder_with(tmp_path / ".cache" / "images", "cat/a.png", "cat/more/b.png")
    assert files_of(folder_source(tmp_path / ".cache" / "images").train) == ["a.png", "b.png"]


# What is refused.


def truncated(image: Image.Image, form: str) -> bytes:
    whole = BytesIO()
    image.save(whole, form)
    return whole.getvalue()[: len(whole.getvalue()) // 2]


NOISE = Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8))
BROKEN = {
    "text.png": b"not an image at all",
    "empty.jpg": b"",
    "cut.jpg": truncated(NOISE, "JPEG"),
    "cut.png": truncated(NOISE, "PNG"),
    "cut.bmp": truncated(NOISE, "BMP"),
    "cut.webp": truncated(NOISE, "WEBP"),
    "cut.tif": truncated(NOISE, "TIFF"),
    "zeros.png": bytes(500),
    "header.png": b"\x89PNG\r\n\x1a\n",
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_image_is_named_in_one_line(tmp_path: Path, name: str) -> None:
    folder_with(tmp_path, "cat/a.png", "dog/z.png")
    (tmp_path / "dog" / name).write_bytes(BROKEN[name])
    with pytest.raises(DataError) as raised:
        read_all(tmp_path)
    assert str(tmp_path / "dog" / name) in str(raised.value)
    assert "--skip-broken" in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1


def test_skip_broken_leaves_broken_images_out_and_reports_them(tmp_path: Path) -> None:
    save(tmp_path / "cat/m.png", plain_image(RED))
    save(tmp_path / "dog/m.png", plain_image(GREEN))
    for name, content in BROKEN.items():
        (tmp_path / "cat" / name).write_bytes(content)
    data = read_all(tmp_path, skip_broken=True)
    assert data.labels.tolist() == [0, 1]
    assert [color_of(image) for image in data.images] == [RED, GREEN]
    assert sorted(data.skipped) == sorted(str(tmp_path / "cat" / name) for name in BROKEN)


def test_skip_broken_refuses_a_folder_in_which_nothing_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "a.png").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"none of 1 images could be read.*a\.png"):
        read_all(tmp_path, skip_broken=True)


def exif_with_a_text_as_image_width() -> bytes:
    """Two entries: ImageWidth, of the type text where a number belongs, and orientation 6."""
    entries = struct.pack("<HHI4s", 0x0100, 2, 4, b"abc\0") + struct.pack("<HHIHH", 0x0112, 3, 1, 6, 0)
    return b"Exif\0\0II*\0" + struct.pack("<IH", 8, 2) + entries + struct.pack("<I", 0)


def test_a_photo_with_broken_exif_data_is_read_or_counted_as_broken(tmp_path: Path) -> None:
    folder_with(tmp_path, "cat/good.png")
    save(tmp_path / "cat/photo.jpg", plain_image(size=(8, 8)), exif=exif_with_a_text_as_image_width())
    data = read_all(tmp_path, skip_broken=True)
    assert len(data) + len(data.skipped) == 2


def test_images_come_in_order_with_their_labels_and_progress_however_many_there_are(tmp_path: Path) -> None:
    n = 600
    for index in range(n):
        save(tmp_path / f"class{index % 3}" / f"{index:04}.bmp", plain_image((index % 256, index // 256, 0), (1, 1)))
    pool, progress = folder_source(tmp_path).train, []
    chosen = np.random.default_rng(0).permutation(n)
    data = pool.read(chosen, 1, lambda done, total: progress.append((done, total)))
    assert isinstance(pool, FilePool)
    numbers = data.images[:, 0, 0, 0].long() + 256 * data.images[:, 1, 0, 0].long()
    assert numbers.tolist() == [int(pool.paths[index].stem) for index in chosen]
    assert data.labels.tolist() == (numbers % 3).tolist()
    assert progress == [(done, n) for done in range(1, n + 1)]


def test_a_class_that_training_does_not_have_is_named(tmp_path: Path) -> None:
    folder_with(tmp_path, "train/cat/a.png", "val/cat/a.png", "val/bird/b.png", "test/fish/c.png")
    with pytest.raises(DataError, match="val has the class 'bird'"):
        folder_source(tmp_path)
    folder_with(tmp_path, "train/bird/a.png")
    source = folder_source(tmp_path)
    assert source.test is not None
    with pytest.raises(DataError, match="test has the class 'fish'"):
        source.test()


def test_folders_that_cannot_be_used_are_named_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no such folder: .*missing"):
        folder_source(tmp_path / "missing")
    with pytest.raises(DataError, match="has no classes"):
        folder_source(tmp_path)
    (tmp_path / "cat").mkdir()
    with pytest.raises(DataError, match=r"holds no images that can be read; use \.png"):
        folder_source(tmp_path)


def test_a_file_in_the_place_of_a_folder_is_called_a_file(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("a.png,cat\n")
    with pytest.raises(DataError, match=r"labels\.csv is a file; give a folder with one sub-folder of images"):
        folder_source(tmp_path / "labels.csv")


def test_of_a_folder_without_images_the_ending_that_was_found_is_named(tmp_path: Path) -> None:
    for name in ("cat/1.npy", "cat/2.npy", "dog/3.npy", "dog/read me"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(DataError) as raised:
        folder_source(tmp_path)
    assert str(raised.value) == (
        f"{tmp_path} holds no images that can be read, but 3 files ending in .npy; use .png, .jpg, .tif or another "
        "ending of an image"
    )


@pytest.mark.parametrize(("train", "val"), [("cat", "Cat"), ("caf\u00e9", "cafe\u0301")])
def test_a_class_that_is_written_otherwise_in_another_split_is_named_with_the_one_it_is_like(
    tmp_path: Path, train: str, val: str
) -> None:
    folder_with(tmp_path, f"train/{train}/a.png", "train/dog/a.png", f"val/{val}/a.png")
    with pytest.raises(DataError, match=f"has the class '{val}'.*they have '{train}', written otherwise"):
        folder_source(tmp_path)
