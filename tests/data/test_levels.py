"""Images of more than 8 bits: one scale for a whole data set, kept from the search to everything that follows."""

import json
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from in_memory import in_memory
from PIL import Image
from streamed_folders import SMALL

import hba
from hba.config.evaluation import EvaluationConfig
from hba.data import load_evaluation_data, load_search_data
from hba.data.config import DataConfig
from hba.data.folder import read_image
from hba.data.levels import Levels, levels_of_data
from hba.errors import DataError, RunError, SettingsError
from hba.utils.files import open_regular

SIDE = 8


def write(path: Path, *levels: float, kind: type[np.generic] = np.uint16) -> Path:
    """An image with these levels one under the other, as broad as high."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.repeat(np.array(levels, dtype=kind)[:, None], len(levels), axis=1)).save(path)
    return path


def write_folder(folder: Path, highest: int, n: int = 12) -> Path:
    """Two classes of noise in 16-bit files that reaches `highest`."""
    rng = np.random.default_rng(0)
    for name in ("cat", "dog"):
        (folder / name).mkdir(parents=True)
        for index in range(n):
            levels = rng.integers(0, highest + 1, (SIDE, SIDE)).astype(np.uint16)
            levels[0, :2] = (0, highest)
            Image.fromarray(levels).save(folder / name / f"{index:02}.png")
    return folder


def write_colours_of_16_bits(path: Path, highest: int) -> Path:
    """A PNG of three 16-bit channels, which Pillow reads but does not write."""
    pixels = np.full((SIDE, SIDE, 3), highest, dtype=">u2")
    lines = b"".join(b"\0" + line.tobytes() for line in pixels)

    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    header = struct.pack(">IIBBBBB", SIDE, SIDE, 16, 2, 0, 0, 0)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")
    )
    return path


def brightest(data: Any) -> int:
    return int(in_memory(data).images.max())


@pytest.mark.parametrize(
    ("kind", "levels", "expected"),
    [
        (np.uint16, (0, 700, 1000), (0, 1023)),
        (np.uint16, (5, 4095), (0, 4095)),
        (np.uint16, (0, 4096), (0, 8191)),
        (np.uint16, (0, 16000), (0, 16383)),
        (np.uint16, (0, 40000), (0, 65535)),
        (np.uint16, (0, 255), (0, 255)),
        (np.uint16, (0, 1), (0, 1)),
        (np.int32, (0, 100000), (0, 131071)),
        (np.int32, (-1024, 3071), (-1024, 3071)),
        (np.float32, (0, 0.75), (0, 1)),
        (np.float32, (0, 0.25), (0, 0.25)),
        (np.float32, (0, 1.5), (0, 1.5)),
        (np.float32, (0, 254.5), (0, 255)),
        (np.float32, (0, 65535), (0, 65535)),
        (np.float32, (-1.5, 0.5), (-1.5, 0.5)),
    ],
)
def test_the_scale_is_found_from_the_highest_level_of_all_images(
    tmp_path: Path, kind: type[np.generic], levels: tuple[float, ...], expected: Levels
) -> None:
    paths = [write(tmp_path / f"{index}.tif", *levels[index:], kind=kind) for index in range(len(levels))]
    found, facts = levels_of_data(paths, None)
    assert found == expected
    assert facts == (f"in images of more than 8 bits, level {expected[0]:g} is black and {expected[1]:g} white",)
    assert read_image(paths[0], len(levels), found).max() > 127


def test_images_of_8_bits_have_no_scale_and_do_not_change_that_of_others(tmp_path: Path) -> None:
    Image.new("L", (4, 4), 200).save(tmp_path / "grey.png")
    Image.new("RGB", (4, 4), (200, 0, 0)).save(tmp_path / "colour.tif")
    Image.new("RGB", (4, 4), (200, 0, 0)).save(tmp_path / "photo.jpg")
    (tmp_path / "broken.png").write_bytes(b"no image")
    paths = sorted(tmp_path.iterdir())
    assert levels_of_data(paths, None) == (None, ())
    assert levels_of_data(paths, (0, 4095)) == (None, ("levels have no effect: no image has more than 8 bits",))
    deep = write(tmp_path / "deep.png", 0, 4095)
    assert levels_of_data([*paths, deep], None)[0] == (0, 4095)
    assert read_image(tmp_path / "grey.png", 4, (0, 4095)).unique().tolist() == [200]


def test_images_of_one_data_set_keep_their_brightness_to_each_other(tmp_path: Path) -> None:
    write_folder(tmp_path, 4095)
    write(tmp_path / "cat" / "dark.png", 0, 819)
    data = load_evaluation_data(DataConfig(data=str(tmp_path), image_size=8, split_seed=1))
    assert data.levels == (0, 4095)
    # 819 is a fifth of 4095.
    assert sorted(in_memory(data.train).images.flatten(1).amax(1).tolist()) == [51, *[255] * (len(data.train) - 1)]


@pytest.mark.parametrize("layout", ["flat", "split"])
def test_levels_of_test_images_are_not_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str) -> None:
    train = write_folder(tmp_path if layout == "flat" else tmp_path / "train", 1023)
    if layout == "split":
        write_folder(tmp_path / "test", 4095)
    opened: set[Path] = set()

    def recording(path: Path) -> Any:
        opened.add(path)
        return open_regular(path)

    monkeypatch.setattr("hba.data.encoded.open_regular", recording)
    config = DataConfig(data=str(tmp_path), image_size=8)
    search = load_search_data(config)
    assert search.levels == (0, 1023)
    of_search = {path for path in opened if path.suffix == ".png"}
    assert len(of_search) == len(search.train) + len(search.val)
    opened.clear()
    evaluation = load_evaluation_data(config)
    assert {path for path in opened if path.suffix == ".png"} == of_search
    assert evaluation.levels == (0, 1023)
    assert of_search <= set(train.rglob("*.png"))


def test_the_scale_does_not_depend_on_how_many_images_are_used(tmp_path: Path) -> None:
    write_folder(tmp_path / "train", 700)
    write_folder(tmp_path / "val", 100, n=2)
    write(tmp_path / "val" / "dog" / "bright.png", 0, 3000)
    few = {"train_size": 2, "val_size": 2}
    datas = [load_search_data(DataConfig.make({"data": str(tmp_path), **sizes})) for sizes in ({}, few)]
    assert {data.levels for data in datas} == {(0, 4095)}
    assert load_evaluation_data(DataConfig(data=str(tmp_path))).levels == (0, 4095)


@pytest.mark.parametrize("stream", [False, True], ids=["memory", "streamed"])
def test_the_scale_is_kept_in_the_run_and_taken_by_resume_evaluate_and_apply(
    tmp_path: Path, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_folder(tmp_path / "images", 4000)
    settings: dict[str, Any] = {**SMALL, "stream": stream, "workers": 0}
    schedule = hba.search(folder, out=tmp_path / "run", **settings).schedule
    assert schedule is not None
    assert json.loads((tmp_path / "run" / "config.json").read_text())["levels"] == [0, 4095]
    assert schedule.provenance["settings"]["levels"] == [0, 4095]
    assert EvaluationConfig.like_search(schedule.provenance["settings"], {}).levels == (0, 4095)
    assert hba.search(out=tmp_path / "run", resume=True).finished
    with pytest.raises(SettingsError, match=r"levels \[0.0, 4095.0\] \(given \[0.0, 5000.0\]\)"):
        hba.search(out=tmp_path / "run", resume=True, levels=(0, 5000))
    hba.evaluate(schedule, folder, out=tmp_path / "results", **{**settings, "seeds": 1})
    results = json.loads((tmp_path / "results" / "results.json").read_text())
    assert results["settings"]["levels"] == results["levels"] == [0, 4095]
    from click.testing import CliRunner
    from hba.cli import main

    shown: list[list[int]] = []
    monkeypatch.setattr(
        "hba.cli.apply.draw_augmented",
        lambda schedule, images, path, **others: shown.append([int(image.max()) for image in images]),
    )
    dark = write(tmp_path / "dark.png", 0, 819)
    outcome = CliRunner().invoke(main, ["apply", str(tmp_path / "run"), str(dark), "--out", str(tmp_path / "grid.png")])
    assert outcome.exit_code == 0, outcome.output
    assert shown == [[51]]


def test_streamed_images_have_the_scale_of_those_in_memory(tmp_path: Path) -> None:
    write_folder(tmp_path, 1000)
    config = DataConfig(data=str(tmp_path), image_size=8, workers=0)
    kept, streamed = (load_search_data(config.model_copy(update={"stream": stream})) for stream in (False, True))
    for one, other in ((kept.train, streamed.train), (kept.val, streamed.val)):
        assert torch.equal(in_memory(one).images, torch.cat([images for images, _ in other.once(5)]))
    assert brightest(kept.train) == round(255 * 1000 / 1023)
    other_scale = load_search_data(config.model_copy(update={"stream": True, "levels": (0, 1000)}))
    assert other_scale.train.fingerprint() != streamed.train.fingerprint()


def test_a_run_on_another_scale_does_not_go_on(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "images", 4000)
    hba.search(folder, out=tmp_path / "run", stream=True, workers=0, **SMALL)
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    (tmp_path / "run" / "config.json").write_text(json.dumps({**config, "levels": [0, 5000]}))
    with pytest.raises(RunError, match="the images or their split changed"):
        hba.search(out=tmp_path / "run", resume=True)


def test_a_given_scale_is_used_and_what_lies_outside_is_black_or_white(tmp_path: Path) -> None:
    path = write(tmp_path / "a.png", 0, 1000, 2000, 3000, 4000)
    assert levels_of_data([path], (1000, 3000))[0] == (1000, 3000)
    assert read_image(path, 5, (1000, 3000))[0, :, 0].tolist() == [0, 0, 128, 255, 255]


@pytest.mark.parametrize(("levels", "colour"), [((0, 65535), "black"), ((5000, 9000), "black"), ((-900, -5), "white")])
def test_a_scale_that_leaves_nothing_to_see_is_refused(tmp_path: Path, levels: Levels, colour: str) -> None:
    with pytest.raises(DataError, match=f"images are nearly {colour}: those of 24 .* run from 0 to 4095; give levels"):
        levels_of_data(sorted(write_folder(tmp_path, 4095).rglob("*.png")), levels)


@pytest.mark.parametrize("levels", ["5", "a,b", "7,7", "9,1", "0,inf", "1,2,3"])
def test_what_is_no_pair_of_levels_is_refused_in_one_line(levels: str) -> None:
    with pytest.raises(SettingsError, match=r"^levels") as raised:
        DataConfig.make({"levels": levels})
    assert len(str(raised.value).splitlines()) == 1
    assert DataConfig.make({"levels": "-1000, 400.5"}).levels == (-1000, 400.5)


def test_one_image_far_brighter_than_the_others_is_named_instead_of_making_them_black(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{index}.png", 0, 4000 + index) for index in range(5)]
    hot = write(tmp_path / "hot.png", 0, 65535)
    with pytest.raises(DataError, match=r"end at level 4002.5, but .*hot\.png at 65535: .* such as 0,4002.5"):
        levels_of_data([*paths, hot], None)
    assert levels_of_data([*paths, hot], (0, 4095))[0] == (0, 4095)


def test_whole_and_floating_point_levels_together_are_refused(tmp_path: Path) -> None:
    whole, fraction = write(tmp_path / "a.png", 0, 4095), write(tmp_path / "b.tif", 0, 1, kind=np.float32)
    with pytest.raises(DataError, match=r"float \(.*b\.tif, up to 1\) and whole \(.*a\.png, up to 4095\) numbers"):
        levels_of_data([whole, fraction], None)


def test_colours_of_12_bits_in_16_are_refused_because_their_upper_8_bits_are_black(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.png and others have 16 bits for each colour.* \(up to 15 of 255\)"):
        levels_of_data([write_colours_of_16_bits(tmp_path / "a.png", 4095)], None)
    bright = write_colours_of_16_bits(tmp_path / "b.png", 65535)
    assert levels_of_data([tmp_path / "a.png", bright], None) == (None, ())
    assert read_image(bright, 8).min() == 255


def test_levels_that_are_not_finite_make_a_broken_image(tmp_path: Path) -> None:
    write_folder(tmp_path, 4095)
    bad = write(tmp_path / "cat" / "bad.tif", 0, float("nan"), kind=np.float32)
    with pytest.raises(DataError, match=r"bad\.tif \(its levels must be finite numbers\).*--skip-broken"):
        load_evaluation_data(DataConfig(data=str(tmp_path), split_seed=1))
    data = load_evaluation_data(DataConfig(data=str(tmp_path), split_seed=1, skip_broken=True))
    assert (data.levels, data.train.skipped) == ((0, 4095), (str(bad),))


def test_all_images_black_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"all images of more than 8 bits are black, .*a\.png first"):
        levels_of_data([write(tmp_path / "a.png", 0, 0)], None)
