"""Images of more than 8 bits: one scale, by their type or as it is given."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from in_memory import config_of, in_memory
from PIL import Image

from hba.data import load_evaluation_data, load_search_data
from hba.errors import DataError, SettingsError


def write_folder(folder: Path, highest: float, dtype: Any = np.uint16) -> Path:
    """Two classes of ten images whose levels are evenly spread from 0 to at most the
    highest, for each split.
    """
    for split in ("train", "val", "test"):
        for name in "ab":
            (folder / split / name).mkdir(parents=True, exist_ok=True)
            for number in range(10):
                values = (
                    np.linspace(0, highest * (number + 1) / 10, 64)
                    .reshape(8, 8)
                    .astype(dtype)
                )
                Image.fromarray(values).save(
                    folder
                    / split
                    / name
                    / f"{number}.{'tif' if dtype == np.float32 else 'png'}"
                )
    return folder


def test_pixels_are_on_the_scale_of_their_type_or_on_the_given_one(
    tmp_path: Path,
) -> None:
    cases: tuple[
        tuple[float, Any, tuple[float, float] | None, tuple[float, float]], ...
    ] = (
        (60000, np.uint16, None, (0, 65535)),
        (0.9, np.float32, None, (0, 1)),
        (4095, np.uint16, (0, 4095), (0, 4095)),
        (4095, np.uint16, (100, 3000), (100, 3000)),
        (255, np.float32, (0, 255), (0, 255)),
    )
    for case, (highest, dtype, levels, (low, high)) in enumerate(cases):
        folder = write_folder(tmp_path / str(case), highest, dtype)
        search = load_search_data(config_of(folder, levels=levels))
        arrays = [
            np.asarray(Image.open(path), dtype=float)
            for path in sorted((folder / "train").rglob("*.*"))
        ]
        expected = (
            ((np.stack(arrays) - low) * (255 / (high - low))).round().clip(0, 255)
        )
        pixels = in_memory(search.train).images[:, 0].numpy()
        assert np.array_equal(pixels, expected)
        ((streamed, _),) = load_search_data(
            config_of(folder, levels=levels, stream=True, workers=0)
        ).train.once(100)
        assert np.array_equal(streamed[:, 0].numpy(), pixels)
    for bad_levels in ("0", "5,5", "9,1", "0,inf", "a,b", "1,2,3"):
        with pytest.raises(SettingsError, match="levels"):
            config_of(tmp_path, levels=bad_levels)


def test_scales_that_leave_nothing_to_see_are_refused_with_the_option(
    tmp_path: Path,
) -> None:
    folder = write_folder(tmp_path / "a", 4095)
    for levels in (None, (0, 60000), (-60000, -1)):
        with pytest.raises(DataError, match="--levels"):
            load_search_data(config_of(folder, levels=levels))
    # A few very bright or black images do not decide.
    for name, value in (("a/0", 60000), ("b/0", 0)):
        Image.fromarray(np.full((8, 8), value, dtype=np.uint16)).save(
            folder / "train" / f"{name}.png"
        )
    load_search_data(config_of(folder, levels=(0, 4095)))
    np.savez(
        tmp_path / "a.npz", images=np.full((20, 8, 8), 16.0), labels=np.arange(20) % 2
    )
    with pytest.raises(DataError, match=r"16.*--levels"):
        load_search_data(config_of(tmp_path / "a.npz"))
    # Images that are neither black nor white on the whole: bytes as floats, and
    # standardized ones.
    for images in (
        np.linspace(0, 255, 64),
        np.linspace(-2, 2, 64),
        np.linspace(-9, 65535, 64).astype(np.int32),
    ):
        np.savez(
            tmp_path / "a.npz",
            images=np.tile(images.reshape(8, 8), (20, 1, 1)),
            labels=np.arange(20) % 2,
        )
        with pytest.raises(
            DataError,
            match=rf"got {images.min():.7g} to {images.max():.7g}; .*--levels",
        ):
            load_search_data(config_of(tmp_path / "a.npz"))
        load_search_data(
            config_of(tmp_path / "a.npz", levels=(images.min(), images.max()))
        )
    # Of many images, one that is looked at only when it is read.
    images = np.tile(np.linspace(0, 1, 64).reshape(8, 8), (150, 1, 1))
    images[1] *= 2
    np.savez(tmp_path / "a.npz", train_images=images, train_labels=np.arange(150) // 75)
    with pytest.raises(DataError, match=r"number 1 .*0 to 2; .*--levels"):
        load_evaluation_data(
            config_of(tmp_path / "a.npz", split_seed=1, skip_broken=False)
        )


def test_levels_that_are_not_finite_make_a_broken_image(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, 1, np.float32)
    values = np.full((8, 8), np.nan, dtype=np.float32)
    Image.fromarray(values).save(folder / "train" / "a" / "0.tif")
    left_out = load_search_data(config_of(folder, skip_broken=True)).left_out
    assert [Path(item.path).name for item in left_out] == ["0.tif"]
    np.savez(
        tmp_path / "a.npz", images=np.full((20, 8, 8), np.nan), labels=np.arange(20) % 2
    )
    with pytest.raises(DataError, match="finite"):
        load_search_data(config_of(tmp_path / "a.npz"))
