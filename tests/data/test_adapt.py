"""A torch Dataset, or a list of pairs, in the place of a folder: how it is split, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset
from torchvision.datasets import ImageFolder

import hba
from hba.data.adapt import as_evaluation_data, as_search_data, check_settings_of_dataset
from hba.data.config import DataConfig
from hba.data.load import load_search_data
from hba.errors import DataError, HbaError, SettingsError
from hba.policy_evaluation.plan import EvaluationPlan

SMALL: dict[str, Any] = {"model": "wrn-10-1", "epochs": 1, "batch_size": 8, "device": "cpu", "image_size": 8}


def pixels(n: int, seed: int) -> Tensor:
    return torch.randint(0, 256, (n, 3, 8, 8), generator=torch.Generator().manual_seed(seed)).to(torch.uint8)


class Pictures(Dataset[Any]):
    """Two classes in turns; counts how often each sample is read."""

    classes = ("cat", "dog")

    def __init__(self, n: int, seed: int = 0) -> None:
        self.images, self.reads = pixels(n, seed), [0] * n

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Image.Image, int]:
        self.reads[index] += 1
        return Image.fromarray(self.images[index].permute(1, 2, 0).numpy()), index % 2


def config(**settings: Any) -> DataConfig:
    return DataConfig.make({"data": "Pictures", "image_size": 8, **settings})


def as_list(kind: str, n: int = 20) -> list[tuple[Any, int]]:
    convert = {
        "PIL": lambda image: Image.fromarray(image.permute(1, 2, 0).numpy()),
        "uint8": lambda image: image,
        "float": lambda image: image.float() / 255,
        "array": lambda image: image.permute(1, 2, 0).numpy(),
    }[kind]
    return [(convert(image), number % 2) for number, image in enumerate(pixels(n, 0))]


def test_a_search_splits_a_dataset_as_the_training_images_of_a_folder_with_a_test_split(tmp_path: Path) -> None:
    for number, image in enumerate(pixels(20, 0)):
        folder = tmp_path / "photos" / "train" / Pictures.classes[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image.permute(1, 2, 0).numpy()).save(folder / f"{number:02}.png")
    for name in Pictures.classes:
        (tmp_path / "photos" / "test" / name).mkdir(parents=True)
        Image.new("RGB", (8, 8)).save(tmp_path / "photos" / "test" / name / "0.png")
    of_folder = load_search_data(config(data=str(tmp_path / "photos"), split_seed=3, val_size=6))
    dataset = ImageFolder(str(tmp_path / "photos" / "train"))
    data = as_search_data(dataset, config(split_seed=3, val_size=6))
    assert (data.name, data.class_names) == ("ImageFolder", ("cat", "dog"))
    assert (data.train.fingerprint(), data.val.fingerprint()) == (
        of_folder.train.fingerprint(),
        of_folder.val.fingerprint(),
    )
    assert (len(data.train), len(data.val)) == (14, 6)


def test_each_sample_is_read_once_and_a_fifth_validates() -> None:
    dataset, told = Pictures(20), list[tuple[int, int]]()
    data = as_search_data(dataset, config(), lambda done, total: told.append((done, total)))
    assert dataset.reads == [1] * 20
    assert told == [(number, 20) for number in range(1, 21)]
    assert (len(data.train), len(data.val), data.test_images) == (16, 4, None)
    assert sorted(data.val.labels.tolist()) == [0, 0, 1, 1]
    both = torch.cat([part.images for part in (data.train, data.val)])  # type: ignore[attr-defined]
    assert {image.numpy().tobytes() for image in both} == {image.numpy().tobytes() for image in dataset.images}
    fewer = as_search_data(dataset, config(train_size=6, val_size=2))
    assert (len(fewer.train), len(fewer.val)) == (6, 2)


@pytest.mark.parametrize("kind", ["PIL", "uint8", "float", "array"])
def test_a_list_of_pairs_is_a_dataset_of_numbered_classes(kind: str) -> None:
    data = as_search_data(as_list(kind), config())
    expected = as_search_data(Pictures(20), config())
    assert (data.name, data.class_names) == ("list", ("0", "1"))
    assert data.train.fingerprint() == expected.train.fingerprint()


def test_a_subset_has_the_classes_of_the_whole() -> None:
    assert as_search_data(Subset(Pictures(20), range(10)), config()).class_names == ("cat", "dog")
    assert as_search_data(TensorDataset(pixels(10, 0), torch.arange(10) % 2), config()).class_names == ("0", "1")


def test_an_evaluation_takes_a_pair_and_keeps_the_test_images_apart() -> None:
    train, test = Pictures(20), Pictures(10, seed=1)
    data = as_evaluation_data((train, test), config())
    assert (data.name, data.class_names, len(data.train), len(data.test)) == ("Pictures", ("cat", "dog"), 20, 10)
    assert torch.equal(data.test.images, test.images)  # type: ignore[union-attr]
    fewer = as_evaluation_data((train, test), config(train_size=6))
    assert sorted(fewer.train.labels.tolist()) == [0, 0, 0, 1, 1, 1]


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter(())


class NoLength(Dataset[Any]):
    def __getitem__(self, index: int) -> Any:
        return None


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (Stream(), r"^data must be a Dataset with a length, got the IterableDataset Stream; .* give list\(dataset\)$"),
        (DataLoader(Pictures(4)), r"^data must be a Dataset, got a DataLoader; give its \.dataset$"),
        (NoLength(), r"^data must be a Dataset with __len__ and __getitem__, got NoLength$"),
        ([], r"^the dataset is empty"),
        ([1], r"must have pairs \(image, label\), but number 0 is of the type int"),
        ([(pixels(1, 0)[0], -1)], r"^labels must be whole numbers, .* counted from 0, got -1$"),
        (
            as_list("PIL", 2),
            r"^the class '0' of list has 1 image, but needs at least 2, one each for training, val",
        ),
        (
            (Pictures(4), Pictures(4)),
            r"^a search takes one dataset, .* got a pair of them: give the training set alone",
        ),
    ],
    ids=["iterable", "loader", "no length", "empty", "no pairs", "negative label", "too few", "pair"],
)
def test_what_a_search_cannot_take_is_refused_in_one_line(data: Any, said: str) -> None:
    with pytest.raises(DataError, match=said):
        as_search_data(data, config())


@pytest.mark.parametrize("data", [Pictures(4), as_list("PIL", 4), tuple(as_list("PIL", 2))], ids=type)
def test_an_evaluation_of_a_single_dataset_is_refused_with_what_to_give(data: Any) -> None:
    with pytest.raises(
        DataError, match=r"^an evaluation needs a test split, .*: give a pair \(train, test\) of datasets$"
    ):
        hba.evaluate("digits", data, **SMALL)


@pytest.mark.parametrize("name", ["download", "stream", "workers", "classes", "skip_broken", "data_root"])
def test_a_setting_of_files_is_refused(name: str) -> None:
    with pytest.raises(
        SettingsError, match=f"^{name} has no effect on a Dataset, whose images are in memory; omit it$"
    ):
        check_settings_of_dataset({name: None})
    with pytest.raises(SettingsError, match=f"^{name} has no effect on a Dataset"):
        hba.evaluate("digits", (Pictures(8), Pictures(4)), **{**SMALL, name: True})


def test_what_was_searched_on_a_dataset_is_evaluated_on_a_pair_with_its_size() -> None:
    train, test = Pictures(24), Pictures(8, seed=1)
    searched = hba.search(as_search_data(train, config()), epochs=1, model="wrn-10-1", batch_size=8)
    assert searched.schedule is not None

    class Plans(hba.EvaluationCallback):
        read: tuple[int, int] = (0, 0)

        def images_read(self, done: int, total: int) -> None:
            self.read = (done, total)

        def planned(self, plan: EvaluationPlan) -> None:
            self.plan = plan

    callback = Plans()
    result = hba.evaluate(searched.schedule, (train, test), seeds=1, epochs=1, device="cpu", callback=callback)
    assert (result.train_images, result.test_images, result.config.data) == (24, 8, "Pictures")
    assert (callback.plan.config.side, callback.plan.model) == (8, "wrn-10-1")
    assert callback.read == (8, 8)
    assert result.searched[0].test_images_seen == 0
    with pytest.raises(HbaError, match="has seen 24 of the 24 test images"):
        hba.evaluate(searched.schedule, (train, train), seeds=1, epochs=1, device="cpu")
    with pytest.raises(HbaError, match="batch_size must be at most 24"):
        hba.evaluate(searched.schedule, (train, test), batch_size=25, device="cpu")


def test_numbers_of_a_pair_are_those_of_the_same_images_in_memory() -> None:
    train, test = Pictures(24), Pictures(8, seed=1)
    in_memory = as_evaluation_data((train, test), config())
    settings = {**SMALL, "seeds": 2}
    given = hba.evaluate("digits", (train, test), **settings)
    del settings["image_size"]
    assert given.rows == hba.evaluate("digits", in_memory, **settings).rows
    assert np.isfinite([row.mean or 0 for row in given.rows]).all()
