"""Preparing images: what stops it loses nothing, and what it cannot do it says."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from in_memory import in_memory
from PIL import Image
from streamed_folders import SIZE, write_folder
from test_levels import write_folder as write_deep_folder

import hba.data.preparing
from hba.data import load_search_data, prepare
from hba.data.config import DataConfig
from hba.errors import DataError, HbaError, RunError, SettingsError


def files_of(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(out.iterdir()) if path.name != ".lock"}


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hba.data.preparing, "ROWS_OF_CHUNK", 4)


@pytest.mark.parametrize("stopped_after", [1, 3])
@pytest.mark.parametrize("where", ["append", "save"])
def test_what_was_stopped_goes_on_to_the_same_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopped_after: int, where: str
) -> None:
    """Also between the pixels and the note of them, and with a half written row behind."""
    folder = write_folder(tmp_path / "images", 9)
    (folder / "cat" / "004.png").write_bytes(b"no picture")
    prepare(folder, tmp_path / "whole", image_size=SIZE, skip_broken=True)
    with monkeypatch.context() as patched:
        owner = hba.data.preparing._Array if where == "append" else hba.data.preparing.Progress
        before, calls = getattr(owner, where), [0]

        def stop(*arguments: Any) -> None:
            calls[0] += 1
            # Two appends to a chunk; the first save is that of the beginning.
            if calls[0] > (2 * stopped_after if where == "append" else 1 + stopped_after):
                raise KeyboardInterrupt
            before(*arguments)

        patched.setattr(owner, where, stop)
        with pytest.raises(KeyboardInterrupt):
            prepare(folder, tmp_path / "out", image_size=SIZE, skip_broken=True)
    with (tmp_path / "out" / "train_images.npy").open("ab") as file:
        file.write(b"half a row")
    with pytest.raises(DataError, match=r"half prepared: end that by hba prepare with --resume"):
        load_search_data(DataConfig(data=str(tmp_path / "out")))
    with pytest.raises(RunError, match=r"half prepared: add --resume"):
        prepare(folder, tmp_path / "out", image_size=SIZE, skip_broken=True)
    told: list[tuple[int, int]] = []
    found = prepare(
        folder, tmp_path / "out", image_size=SIZE, skip_broken=True, resume=True, on_read=lambda *n: told.append(n)
    )
    assert files_of(tmp_path / "out") == files_of(tmp_path / "whole")
    assert told[0] == (4 * stopped_after + 4, 18)
    assert told[-1] == (18, 18)
    assert found.n_images == {"train": 17}
    assert [item.path for item in found.left_out] == [str(folder / "cat" / "004.png")]


@pytest.mark.slow
def test_a_killed_command_goes_on_to_the_same_files(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "images", 120)
    prepare(folder, tmp_path / "whole", image_size=512)
    place = str(tmp_path / "out")
    command = [sys.executable, "-m", "hba", "prepare", str(folder), "--out", place, "--image-size", "512"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        while not (tmp_path / "out" / "train_images.npy").exists():
            time.sleep(0.01)
        time.sleep(0.2)
        process.send_signal(signal.SIGKILL)
    assert json.loads((tmp_path / "out" / "preparing.json").read_text())["rows"].get("train", 0) < 240
    subprocess.run([*command, "--resume"], check=True, stdout=subprocess.DEVNULL)
    # The hash is one of chunks, which are smaller in this process.
    whole, out = files_of(tmp_path / "whole"), files_of(tmp_path / "out")
    assert {name: out[name] for name in out if name.endswith(".npy")} == {
        name: whole[name] for name in whole if name.endswith(".npy")
    }


def test_broken_images_are_left_out_as_they_are_from_memory(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "images", 9)
    for broken in ("cat/001.png", "dog/002.png"):
        (folder / broken).write_bytes(b"no picture")
    with pytest.raises(DataError, match=r"cannot read the image .*001.png"):
        prepare(folder, tmp_path / "refused", image_size=SIZE)
    prepare(folder, tmp_path / "out", image_size=SIZE, skip_broken=True)
    plain = load_search_data(DataConfig(data=str(folder), image_size=SIZE, skip_broken=True))
    for stream in (False, True):
        found = load_search_data(DataConfig(data=str(tmp_path / "out"), image_size=SIZE, stream=stream))
        for one, other in ((plain.train, found.train), (plain.val, found.val)):
            ((images, labels),) = other.once(100)
            assert torch.equal(images, in_memory(one).images)
            assert torch.equal(labels, in_memory(one).labels)
        assert found.left_out == plain.left_out


def test_an_image_that_cannot_be_read_can_be_mended_and_the_rest_is_kept(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "images", 9)
    good = (folder / "dog" / "002.png").read_bytes()
    (folder / "dog" / "002.png").write_bytes(b"no picture")
    with pytest.raises(DataError):
        prepare(folder, tmp_path / "out", image_size=SIZE)
    assert json.loads((tmp_path / "out" / "preparing.json").read_text())["rows"] == {"train": 8}
    (folder / "dog" / "002.png").write_bytes(good)
    prepare(folder, tmp_path / "out", image_size=SIZE, resume=True)
    prepare(folder, tmp_path / "whole", image_size=SIZE)
    assert files_of(tmp_path / "out") == files_of(tmp_path / "whole")


def test_all_broken_is_refused(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "images", 4)
    for path in folder.rglob("*.png"):
        path.write_bytes(b"no picture")
    with pytest.raises(DataError, match="none of 8 images could be read"):
        prepare(folder, tmp_path / "out", image_size=SIZE, skip_broken=True)


def test_a_full_disk_is_one_line_and_can_be_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_folder(tmp_path / "images", 9)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(errno.ENOSPC, "No space left on device")))
        with pytest.raises(RunError, match=r"No space left on device"):
            prepare(folder, tmp_path / "full", image_size=SIZE)
    with monkeypatch.context() as patched:
        before = hba.data.preparing._Array.append
        calls = [0]

        def append(array: Any, rows: bytes) -> None:
            calls[0] += 1
            if calls[0] == 4:
                raise OSError(errno.ENOSPC, "No space left on device")
            before(array, rows)

        patched.setattr(hba.data.preparing._Array, "append", append)
        with pytest.raises(RunError, match=r"cannot write into .*: No space left on device; mend that, and go on with"):
            prepare(folder, tmp_path / "out", image_size=SIZE)
    prepare(folder, tmp_path / "out", image_size=SIZE, resume=True)
    prepare(folder, tmp_path / "whole", image_size=SIZE)
    assert files_of(tmp_path / "out") == files_of(tmp_path / "whole")


def test_too_little_room_is_said_before_anything_is_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_folder(tmp_path / "images", 9)
    usage = SimpleNamespace(free=18 * 3 * SIZE**2 - 1)
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)
    with pytest.raises(RunError, match=r"the images take 13[.]8 kB, but .*out has room for 3[.]5 kB: free some"):
        prepare(folder, tmp_path / "out", image_size=SIZE * 2)
    # As the line says.
    usage.free += 1
    prepare(folder, tmp_path / "out", image_size=SIZE)


def test_changed_images_and_settings_are_not_mixed_with_what_was_begun(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "images", 9)
    (folder / "dog" / "008.png").write_bytes(b"no picture")
    with pytest.raises(DataError):
        prepare(folder, tmp_path / "out", image_size=SIZE)
    with pytest.raises(RunError, match="the images or the settings have changed"):
        prepare(folder, tmp_path / "out", resume=True, image_size=16)
    first = folder / "cat" / "000.png"
    content = first.read_bytes()
    first.write_bytes(content + b"more")
    with pytest.raises(RunError, match="the images or the settings have changed"):
        prepare(folder, tmp_path / "out", image_size=SIZE, resume=True)
    first.rename(folder / "cat" / "0000.png")
    with pytest.raises(RunError, match="the images or the settings have changed"):
        prepare(folder, tmp_path / "out", image_size=SIZE, resume=True)


@pytest.mark.parametrize("highest", [4000, 8000])
def test_an_image_behind_is_refused_where_it_changes_the_scale_of_grey_levels(tmp_path: Path, highest: int) -> None:
    folder = write_deep_folder(tmp_path / "images", 4095)
    last = folder / "dog" / "last.png"
    last.write_bytes(b"no picture")
    with pytest.raises(DataError):
        prepare(folder, tmp_path / "out", image_size=SIZE)
    Image.fromarray(np.full((SIZE, SIZE), highest, dtype=np.uint16)).save(last)
    if highest < 4096:
        prepare(folder, tmp_path / "out", image_size=SIZE, resume=True)
        prepare(folder, tmp_path / "whole", image_size=SIZE)
        assert files_of(tmp_path / "out") == files_of(tmp_path / "whole")
    else:
        with pytest.raises(RunError, match="the images or the settings have changed"):
            prepare(folder, tmp_path / "out", image_size=SIZE, resume=True)


@pytest.mark.parametrize("remedy", ["skipped", "removed", "another added"])
def test_what_the_message_of_a_broken_image_says_keeps_what_is_decoded(remedy: str, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "images", 9)
    broken = folder / "dog" / "007.png"
    broken.write_bytes(b"no picture")
    with pytest.raises(DataError, match="mend or remove it, or use --skip-broken"):
        prepare(folder, tmp_path / "out", image_size=SIZE)
    if remedy != "skipped":
        broken.unlink()
    if remedy == "another added":
        (folder / "dog" / "010.png").write_bytes((folder / "cat" / "000.png").read_bytes())
    skip = remedy == "skipped"
    told: list[int] = []
    prepare(
        folder,
        tmp_path / "out",
        image_size=SIZE,
        resume=True,
        skip_broken=skip,
        on_read=lambda done, _: told.append(done),
    )
    # Three chunks of four were whole before the one with the seventeenth image.
    assert told[0] > 12
    prepare(folder, tmp_path / "whole", image_size=SIZE, skip_broken=skip)
    assert files_of(tmp_path / "out") == files_of(tmp_path / "whole")


def test_a_file_that_is_shorter_than_what_was_noted_is_not_filled_with_zeros(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "images", 9)
    (folder / "dog" / "008.png").write_bytes(b"no picture")
    with pytest.raises(DataError):
        prepare(folder, tmp_path / "out", image_size=SIZE)
    pixels = tmp_path / "out" / "train_images.npy"
    pixels.write_bytes(pixels.read_bytes()[:-1])
    with pytest.raises(RunError, match=r"train_images.npy is shorter than what was noted of it"):
        prepare(folder, tmp_path / "out", image_size=SIZE, skip_broken=True, resume=True)


def _prepared(place: Path) -> Path:
    prepare(place / "images", place / "done", image_size=SIZE)
    return place / "done"


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"train_size": 3}, SettingsError, "train_size has no effect on prepared images, of which all are kept"),
        ({"data": "done"}, SettingsError, "the images in .*done are prepared already; name those that they are made"),
        ({"out": "done"}, RunError, "done already holds prepared images: choose another --out"),
        ({"out": "images"}, RunError, "images must be a new or an empty folder, but holds .*; choose another --out"),
        ({"out": "new", "resume": True}, RunError, "there is nothing to resume in .*new; omit --resume"),
        ({"data": "nowhere"}, DataError, "no such folder or dataset"),
        ({"image_size": 4}, SettingsError, "image_size must be at least 8, got 4"),
    ],
)
def test_mistakes_are_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], error: type[HbaError], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write_folder(tmp_path / "images", 4)
    _prepared(tmp_path)
    with pytest.raises(error, match=message):
        prepare(**{"data": "images", "out": "out", "image_size": SIZE, **given})
    assert not (tmp_path / "new").exists()
    assert not (tmp_path / "images" / ".lock").exists()


def test_images_of_other_numbers_of_channels_are_refused(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    arrays: dict[str, Any] = {f"{part}_labels": np.arange(8) % 2 for part in ("train", "test")}
    for part, channels in (("train", 5), ("test", 4)):
        arrays[f"{part}_images"] = random.integers(0, 256, (8, SIZE, SIZE, channels), dtype=np.uint8)
    np.savez(tmp_path / "bands.npz", **arrays)
    with pytest.raises(DataError, match="all images must have 5 channels, as the first has, but number 0 of test_im"):
        prepare(tmp_path / "bands.npz", tmp_path / "out", image_size=SIZE)
