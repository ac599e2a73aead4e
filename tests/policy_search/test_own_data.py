"""A search on a torch Dataset, or on a list of pairs, is one on the same images in memory."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from search_problems import small_images
from torch import Tensor, nn
from torch.utils.data import Dataset, IterableDataset

import hba
from hba.data import LabelledImages, SearchData
from hba.errors import DataError, SettingsError

SETTINGS: dict[str, Any] = {"model": "wrn-10-1", "epochs": 2, "batch_size": 8, "train_steps": 1, "device": "cpu"}


class Pairs(Dataset[tuple[Tensor, int]]):
    """40 images; it counts how often each is read."""

    classes = ("left", "right")

    def __init__(self) -> None:
        self.images, self.reads = small_images(40, seed=0), [0] * 40

    def __len__(self) -> int:
        return 40

    def __getitem__(self, number: int) -> tuple[Tensor, int]:
        self.reads[number] += 1
        return self.images.images[number], int(self.images.labels[number])


def test_a_dataset_is_read_once_split_and_searched_on() -> None:
    dataset = Pairs()
    result = hba.search(dataset, image_size=8, val_size=10, **SETTINGS)
    assert result.schedule is not None
    assert dataset.reads == [1] * 40
    origin = result.schedule.provenance
    assert (origin["dataset"], origin["class_names"]) == ("Pairs", ["left", "right"])
    assert (origin["train_images"], origin["val_images"], origin["image_size"]) == (30, 10, 8)


def test_a_list_of_pil_images_gives_the_schedule_of_the_same_dataset() -> None:
    dataset = Pairs()
    pairs = [(Image.fromarray(image.permute(1, 2, 0).numpy()), label) for image, label in dataset]  # type: ignore[attr-defined]
    of_list, of_dataset = (hba.search(data, image_size=8, val_size=10, **SETTINGS) for data in (pairs, dataset))
    assert of_list.schedule is not None
    assert of_dataset.schedule is not None
    assert np.array_equal(of_list.schedule.values, of_dataset.schedule.values)


class Endless(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return iter(())


@pytest.mark.parametrize(
    ("data", "settings", "words"),
    [
        (Pairs(), {"skip_broken": True}, "skip_broken has no effect on a Dataset"),
        (Pairs(), {"workers": 2}, "workers has no effect on a Dataset"),
    ],
)
def test_settings_of_files_are_refused(data: Any, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        hba.search(data, **SETTINGS, **settings)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ([], "empty"),
        ((Pairs(), Pairs()), "a search takes one dataset"),
        (Endless(), "IterableDataset"),
        ([(torch.zeros(3, 8, 8, dtype=torch.uint8), 0, 1)], "pairs"),
    ],
)
def test_what_is_no_dataset_of_pairs_is_one_line(data: Any, words: str) -> None:
    with pytest.raises(DataError, match=words) as raised:
        hba.search(data, image_size=8, **SETTINGS)
    assert len(str(raised.value).splitlines()) == 1


@pytest.mark.parametrize("n_outputs", [2, 5])
def test_a_network_must_have_one_output_for_each_class(n_outputs: int) -> None:
    images = LabelledImages(small_images(24, seed=0).images, torch.arange(24) % 3)
    data = SearchData("mine", ("a", "b", "c"), images, images)
    network = nn.Sequential(nn.Flatten(), nn.Linear(3 * 64, n_outputs))
    with pytest.raises(SettingsError, match=rf"one output for each of 3 classes.*got \(2, {n_outputs}\)$"):
        hba.search(data, network=network, epochs=1, batch_size=8, device="cpu")
