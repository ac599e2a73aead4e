"""A search in Python with the settings of an earlier one: images in memory, networks and algorithms of one's own."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from search_problems import SMALL_SETTINGS, WithDropout, small_data

import hba
from hba.data import LabelledImages, SearchData
from hba.errors import SettingsError

SETTINGS: dict[str, Any] = {**SMALL_SETTINGS, "seed": 4, "reward_draws": 2}


def stored(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return found


def test_images_in_memory_are_searched_again_with_the_same_settings(tmp_path: Path) -> None:
    first = hba.search(small_data(), out=tmp_path / "first", **SETTINGS)
    again = hba.search(small_data(), out=tmp_path / "again", config=tmp_path / "first", device="cpu")
    assert first.schedule is not None
    assert again.schedule is not None
    np.testing.assert_array_equal(first.schedule.values, again.schedule.values)
    assert stored(tmp_path / "first") == stored(tmp_path / "again")


def test_an_own_network_is_given_again(tmp_path: Path) -> None:
    network, settings = WithDropout(), {name: value for name, value in SETTINGS.items() if name != "model"}
    hba.search(small_data(), out=tmp_path / "first", network=network, **settings)
    with pytest.raises(SettingsError, match="network"):
        hba.search(small_data(), config=tmp_path / "first")
    result = hba.search(small_data(), config=tmp_path / "first", network=network, epochs=1)
    assert isinstance(result.network, WithDropout)


def test_a_search_that_began_at_a_schedule_begins_there_again(tmp_path: Path) -> None:
    """Also where its file is gone; another beginning that is given takes its place."""
    hba.search(small_data(), out=tmp_path / "first", init_from="digits", **{**SETTINGS, "epochs": 1})
    hba.search(small_data(), out=tmp_path / "again", config=tmp_path / "first", device="cpu")
    assert stored(tmp_path / "again") == stored(tmp_path / "first")
    hba.search(small_data(), out=tmp_path / "other", config=tmp_path / "first", initial_fraction=0.25, device="cpu")
    other = {"init": "fraction", "init_from": None, "initial_fraction": 0.25}
    assert stored(tmp_path / "other") == {**stored(tmp_path / "first"), **other}


CROPPED: dict[str, Any] = {"random_resized_crop": True, "epochs": 1, "device": "cpu"}


def test_images_in_memory_keep_the_network_size_that_a_baseline_gives(tmp_path: Path) -> None:
    """Of the earlier search's baseline, and where it is resumed of its own, not of the default's."""
    pixels = torch.randint(0, 256, (24, 3, 16, 16), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    images = LabelledImages(pixels, torch.arange(24) % 2)
    data = SearchData("noise", ("left", "right"), images, images)
    hba.search(data, out=tmp_path / "first", **{**SETTINGS, **CROPPED})
    assert stored(tmp_path / "first")["image_size"] < 16
    again = hba.search(data, out=tmp_path / "again", config=tmp_path / "first", device="cpu")
    assert again.finished
    assert stored(tmp_path / "again") == stored(tmp_path / "first")
    longer = hba.search(data, out=tmp_path / "first", resume=True, epochs=2, device="cpu")
    assert longer.finished
    assert stored(tmp_path / "first")["image_size"] == stored(tmp_path / "again")["image_size"]


def test_a_space_of_its_own_is_given_again(tmp_path: Path) -> None:
    space = hba.SearchSpace()
    hba.search(small_data(), out=tmp_path / "first", space=space, **SETTINGS)
    with pytest.raises(SettingsError, match="space"):
        hba.search(small_data(), config=tmp_path / "first")
    assert hba.search(small_data(), config=tmp_path / "first", space=space, epochs=1).schedule is not None
