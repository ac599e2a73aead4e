"""Images of more than 8 bits: one scale for a data set."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from in_memory import in_memory
from opened_images import record_images
from PIL import Image

from hba.data import load_evaluation_data, load_search_data
from hba.data.config import DataConfig
from hba.data.reading import Levels
from hba.errors import DataError, SettingsError


def write_folder(
    folder: Path, highest: float, dtype: Any = np.uint16, n: int = 10, parts: tuple[str, ...] = ("",)
) -> Path:
    """Two classes of images whose levels are evenly spread from 0 to the highest; the last one reaches it."""
    for part in parts:
        for label, name in enumerate("ab"):
            (folder / part / name).mkdir(parents=True, exist_ok=True)
            for number in range(n):
                top = highest if number == n - 1 and label else highest * (number + 1) / (n + 1)
                values = np.linspace(0, top, 64).reshape(8, 8).astype(dtype)
                Image.fromarray(values).save(
                    folder / part / name / f"{number}.{'tif' if dtype == np.float32 else 'png'}"
                )
    return folder


def config_of(data: Path, **settings: Any) -> DataConfig:
    return DataConfig.make({"data": str(data), "image_size": 8, **settings})


def levels_in(data: Path, **settings: Any) -> Levels | None:
    search, evaluation = (
        load_search_data(config_of(data, **settings)),
        load_evaluation_data(config_of(data, **settings)),
    )
    assert search.levels == evaluation.levels
    return search.levels


def test_the_scale_is_found_from_the_levels_of_all_images(tmp_path: Path) -> None:
    cases: tuple[tuple[float, Any, float], ...] = (
        (4095, np.uint16, 4095), (3000, np.uint16, 4095), (255, np.uint16, 255), (40000, np.uint16, 65535),
        (0.9, np.float32, 1), (200, np.float32, 255), (60000, np.float32, 65535), (3000, np.float32, 3000),
    )  # fmt: skip
    for number, (highest, dtype, expected) in enumerate(cases):
        # The highest level is in all parts, as it is in the training and validation images.
        folder = write_folder(tmp_path / str(number), highest, dtype, parts=("train", "val", "test"))
        assert levels_in(folder) == (0, expected)
        levels = load_search_data(config_of(folder)).levels
        arrays = [np.asarray(Image.open(path), dtype=float) for path in sorted((folder / "train").rglob("*.*"))]
        pixels = in_memory(load_search_data(config_of(folder)).train).images[:, 0].numpy()
        assert levels is not None
        expected_pixels = (np.stack(arrays) * (255 / levels[1])).round().clip(0, 255)
        assert np.array_equal(pixels, expected_pixels)
        ((streamed, _),) = load_search_data(config_of(folder, stream=True, workers=0)).train.once(100)
        assert np.array_equal(streamed[:, 0].numpy(), pixels)


def test_images_of_8_bits_have_no_scale(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, 200, np.uint8)
    assert levels_in(folder) is None
    search = load_search_data(config_of(folder, levels=(0, 100)))
    assert (search.levels, len(search.facts)) == (None, 1)
    assert search.train.fingerprint() == load_search_data(config_of(folder)).train.fingerprint()


def test_levels_of_test_images_are_not_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_folder(tmp_path / "a", 1000, parts=("train", "test"))
    Image.fromarray(np.full((8, 8), 60000, dtype=np.uint16)).save(folder / "test" / "a" / "0.png")
    assert levels_in(folder) == (0, 1023)
    folder = write_folder(tmp_path / "b", 1000)
    opened = record_images(monkeypatch)
    search = load_search_data(config_of(folder))
    assert len(set(opened)) == len(search.train) + len(search.val) == 16
    # Nor does the scale depend on how many images are used.
    assert load_search_data(config_of(folder, train_size=4, val_size=4)).levels == search.levels


def test_a_given_scale_is_used_and_what_lies_outside_is_black_or_white(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, 4095, parts=("train", "val", "test"))
    assert levels_in(folder, levels=(100, 3000)) == (100, 3000)
    pixels = in_memory(load_search_data(config_of(folder, levels=(100, 3000))).train).images
    assert (int(pixels.min()), int(pixels.max())) == (0, 255)
    for levels in ("0", "5,5", "9,1", "0,inf", "a,b", "1,2,3"):
        with pytest.raises(SettingsError, match="levels"):
            config_of(folder, levels=levels)


def test_scales_that_leave_nothing_to_see_are_refused_with_the_option(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "a", 1000, parts=("train", "test"))
    for levels in ((0, 60000), (-60000, -1)):
        with pytest.raises(DataError, match="--levels"):
            load_search_data(config_of(folder, levels=levels))
    Image.fromarray(np.full((8, 8), 60000, dtype=np.uint16)).save(folder / "train" / "a" / "0.png")
    with pytest.raises(DataError, match=r"0\.png.*--levels"):
        load_search_data(config_of(folder))
    write_folder(tmp_path / "b", 1000, parts=("train",))
    write_folder(tmp_path / "b", 1000, np.float32, parts=("train",))
    with pytest.raises(DataError, match="--levels"):
        load_search_data(config_of(tmp_path / "b"))
    with pytest.raises(DataError, match="black"):
        load_search_data(config_of(write_folder(tmp_path / "c", 0)))


def test_levels_that_are_not_finite_make_a_broken_image(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, 1, np.float32, parts=("train", "test"))
    values = np.full((8, 8), np.nan, dtype=np.float32)
    Image.fromarray(values).save(folder / "train" / "a" / "0.tif")
    left_out = load_search_data(config_of(folder, skip_broken=True, val_size=2, train_size=18)).left_out
    assert [Path(item.path).name for item in left_out] == ["0.tif"]
    np.savez(tmp_path / "a.npz", images=np.full((20, 8, 8), np.nan), labels=np.arange(20) % 2)
    with pytest.raises(DataError, match="finite"):
        load_search_data(config_of(tmp_path / "a.npz"))
