"""Image files that are no pictures, far too large, or very long: read or refused, in bounded memory and time."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from peak_memory import printed_by
from PIL import Image
from torchvision.transforms.v2 import functional as TF

from hba.data import decoding
from hba.data.folder import folder_source, read_image
from hba.data.listing import files_in, image_endings
from hba.errors import DataError

SIZE = 8
SAMPLES_PER_PIXEL = bytes.fromhex("15010300")
"""The tag of a TIFF file, and the type of its number."""
MODES = ("RGB", "RGBA", "L", "LA", "P", "1", "CMYK", "I;16")


def noise(width: int, height: int, mode: str = "RGB", seed: int = 0) -> Image.Image:
    random = np.random.default_rng(seed)
    if mode == "I;16":
        return Image.fromarray(random.integers(0, 65536, (height, width), dtype=np.uint16))
    if mode == "P":
        return noise(width, height).quantize(16)
    bands = len(Image.new(mode, (1, 1)).getbands())
    if mode == "1":
        return noise(width, height, "L").convert("1")
    pixels = random.integers(0, 256, (height, width, bands), dtype=np.uint8)
    return Image.frombytes(mode, (width, height), pixels.tobytes())


@pytest.mark.parametrize("mode", MODES)
def test_a_large_image_is_converted_to_the_same_pixels(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.tif"
    image = noise(50, 37, mode)
    image.save(path)
    expected = read_image(path, SIZE, (0, 65535))
    monkeypatch.setattr(decoding, "LARGE", 100)
    monkeypatch.setattr(decoding, "PIXELS_OF_PART", 120)
    assert torch.equal(read_image(path, SIZE, (0, 65535)), expected)


@pytest.mark.parametrize("size", [(400, 2), (2, 400), (64, 4), (65, 4)])
def test_of_a_very_long_image_the_centre_is_the_same(size: tuple[int, int], tmp_path: Path) -> None:
    image = noise(*size)
    image.save(tmp_path / "a.png")
    scale = SIZE / min(size)
    whole = [max(SIZE, round(side * scale)) for side in (size[1], size[0])]
    expected = TF.center_crop(TF.pil_to_tensor(TF.resize(image, whole, antialias=True)), [SIZE, SIZE])
    found = read_image(tmp_path / "a.png", SIZE)
    assert torch.equal(found, expected)


@pytest.mark.parametrize("size", [(20_000, 1), (1, 20_000), (1, 1)])
def test_an_image_of_one_line_is_read(size: tuple[int, int], tmp_path: Path) -> None:
    Image.new("RGB", size, (10, 200, 30)).save(tmp_path / "a.png")
    found = read_image(tmp_path / "a.png", 1024)
    assert found.shape == (3, 1024, 1024)
    assert found.flatten(1).unique(dim=1).flatten().tolist() == [10, 200, 30]


def test_large_images_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "LARGE", 10)
    monkeypatch.setattr(decoding, "MOST_AT_ONCE", 250)
    at_once, most, lock = 0, 0, threading.Lock()
    together = threading.Barrier(2, timeout=10)

    def decode() -> None:
        nonlocal at_once, most
        with decoding.room_for(Image.new("L", (10, 10))):
            with lock:
                at_once += 1
                most = max(most, at_once)
            # Two can be here at a time, and are.
            together.wait()
            with lock:
                at_once -= 1

    threads = [threading.Thread(target=decode) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 2
    with decoding.room_for(Image.new("L", (100, 100))):
        pass


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def make_postscript(path: Path) -> None:
    """A format that Pillow hands to a program."""
    Image.new("RGB", (4, 4)).save(path, "EPS")


def make_text(path: Path) -> None:
    path.write_text("no image")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
@pytest.mark.parametrize("make", [make_pipe, make_device, make_postscript, make_text, Path.touch, Path.mkdir])
def test_what_is_no_image_is_refused_at_once(make: Callable[[Path], object], tmp_path: Path) -> None:
    make(tmp_path / "a.png")
    with pytest.raises(OSError, match=r"it is no regular file|it is not an image|Is a directory"):
        read_image(tmp_path / "a.png", SIZE)


def test_postscript_is_no_image() -> None:
    assert {".eps", ".ps"}.isdisjoint(image_endings())
    assert {".png", ".jpg", ".gif", ".tif", ".webp", ".bmp"} <= image_endings()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        noise(4, 4).save(tmp_path / name / "a.png")
    return tmp_path


def test_links_that_lead_to_themselves_are_left_out(folder: Path) -> None:
    (folder / "cat" / "loop.png").symlink_to("loop.png")
    (folder / "cat" / "up").symlink_to("..")
    (folder / "bird").symlink_to("bird")
    source = folder_source(folder)
    assert source.class_names == ("cat", "dog")
    images, others = files_in(folder / "cat")
    assert [path.name for path in images] == ["a.png"]
    assert [(Path(item.path).name, item.reason) for item in others] == [
        ("loop.png", "a link to a file that is not there"),
        ("up", "links to folders are not followed"),
    ]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_a_pipe_is_left_out_by_what_it_is(folder: Path) -> None:
    os.mkfifo(folder / "cat" / "b.png")
    _, others = files_in(folder / "cat")
    assert [item.reason for item in others] == ["no file, but a pipe, a socket or a device"]


def test_folders_may_lie_in_each_other_more_deeply_than_functions(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder / "cat")
    for _ in range(1200):
        os.mkdir("d")  # noqa: PTH102 a path so long cannot be given at once
        os.chdir("d")
    noise(4, 4).save("deep.png")
    images, _ = files_in(folder / "cat")
    assert [path.name for path in images] == ["a.png", "deep.png"]
    monkeypatch.chdir(folder)
    subprocess.run(["rm", "-rf", str(folder / "cat")], check=True)


def test_names_may_be_any_bytes(folder: Path) -> None:
    names = [b"a b.png", b"a\nb.png", b"\xff\xfe.png", b"\x1b[31m.png", b"-x.png", b"%s.png", "λ.png".encode()]
    for name in names:
        with open(os.path.join(os.fsencode(folder / "cat"), name), "wb") as file:  # noqa: PTH118, PTH123 bytes
            noise(4, 4).save(file, "PNG")
    images, others = files_in(folder / "cat")
    assert {os.fsencode(path.name) for path in images} == {b"a.png", *names}
    assert others == []
    (folder / "dog" / "a\n\x1b.png").write_bytes(b"broken")
    pool = folder_source(folder).train
    with pytest.raises(DataError, match=r"a\\n\\x1b\.png \(it is not an image of a format that is read\)"):
        pool.read(np.arange(len(pool.labels)), SIZE)


CODE = """
import sys
from pathlib import Path
import numpy as np
from hba.data.folder import folder_source
pool = folder_source(Path(sys.argv[1])).train
before = peak_bytes()
pool.read(np.arange(len(pool.labels)), 32)
print(peak_bytes() - before)
"""


@pytest.mark.slow
def test_a_folder_of_decompression_bombs_takes_no_gigabytes(folder: Path) -> None:
    """Ten of 169 million pixels, 21 kB each. They took 6.6 GB once."""
    for number in range(10):
        Image.new("1", (13_000, 13_000)).save(folder / "cat" / f"{number}.png")
    (added,) = printed_by(CODE, folder)
    assert 0 < int(added) < 1.5e9


def test_what_pillow_logs_of_an_image_is_not_printed(tmp_path: Path) -> None:
    """In a process of its own: pytest gives the log a handler, which keeps Python from printing it."""
    noise(6, 6).save(tmp_path / "a.tif")
    content = bytearray((tmp_path / "a.tif").read_bytes())
    at = content.index(SAMPLES_PER_PIXEL)
    content[at + 8 : at + 10] = (2048).to_bytes(2, "little")
    (tmp_path / "a.tif").write_bytes(content)
    code = "import sys, pathlib; from hba.data.folder import read_image; read_image(pathlib.Path(sys.argv[1]), 8)"
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "a.tif")], capture_output=True, text=True)
    assert done.returncode == 1
    assert "More samples per pixel" not in done.stderr.partition("Traceback")[0]
