"""Images and labels in memory: converted where they can mean one thing only, refused in one line otherwise."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import Dataset, IterableDataset

import hba
from hba.data import EvaluationData, LabelledImages, SearchData, from_dataset
from hba.data.checks import checked_images, checked_labels
from hba.data.config import DataConfig
from hba.data.lazy_split import LazySplit
from hba.data.load import load_evaluation_data, load_search_data
from hba.errors import DataError, SettingsError

SETTINGS: dict[str, Any] = {"model": "wrn-10-1", "epochs": 2, "batch_size": 8, "device": "cpu"}
NAMES = ("left", "right")


def pixels(n: int = 16, channels: int = 3, seed: int = 0) -> Tensor:
    """Bright on the left or on the right, in turns."""
    images = torch.randint(0, 90, (n, channels, 8, 8), generator=torch.Generator().manual_seed(seed))
    images[::2, :, :, :4] += 150
    images[1::2, :, :, 4:] += 150
    return images.to(torch.uint8)


def labels(n: int = 16) -> Tensor:
    return torch.arange(n) % 2


def any_images(images: Any, labels: Any) -> LabelledImages:
    """Of any type, as a program without type checks makes them."""
    return LabelledImages(images, labels)


def search_data(convert: Callable[[Tensor], Any] = lambda images: images, channels: int = 3) -> SearchData:
    train, val = (any_images(convert(pixels(channels=channels, seed=seed)), labels()) for seed in (0, 1))
    return SearchData("small", NAMES, train, val)


CONVERSIONS: dict[str, Callable[[Tensor], Any]] = {
    "float": lambda images: images.float() / 255,
    "double": lambda images: images.double() / 255,
    "half": lambda images: images.half() / 255,
    "array": lambda images: images.numpy(),
    "array, channels last": lambda images: images.permute(0, 2, 3, 1).numpy(),
    "float array, channels last": lambda images: images.permute(0, 2, 3, 1).numpy() / np.float32(255),
    "reversed view": lambda images: images.flip(3).numpy()[..., ::-1],
}


@pytest.mark.parametrize("kind", CONVERSIONS)
def test_images_are_the_same_however_they_are_given(kind: str) -> None:
    expected, given = search_data(), search_data(CONVERSIONS[kind])
    assert given.train.fingerprint() == expected.train.fingerprint()
    assert given.train.mean_color() == expected.train.mean_color()


def test_a_search_and_an_evaluation_find_the_same_for_floats_in_0_to_1() -> None:
    found, expected = (hba.search(data, **SETTINGS) for data in (search_data(CONVERSIONS["float"]), search_data()))
    assert torch.equal(found.lam, expected.lam)
    assert [row["val_loss"] for row in found.metrics] == [row["val_loss"] for row in expected.metrics]
    assert found.schedule is not None
    assert found.schedule.fill == expected.schedule.fill  # type: ignore[union-attr]
    errors = [
        hba.evaluate(
            found.schedule, EvaluationData("small", NAMES, data.train, data.val), seeds=1, allow_seen=True, **SETTINGS
        ).rows
        for data in (search_data(CONVERSIONS["float"]), search_data())
    ]
    assert errors[0] == errors[1]


@pytest.mark.parametrize("kind", ["N1HW", "NHW", "NHW1"])
def test_one_channel_becomes_three_for_a_network_by_name(kind: str) -> None:
    convert = {"N1HW": lambda x: x, "NHW": lambda x: x[:, 0], "NHW1": lambda x: x.permute(0, 2, 3, 1).numpy()}[kind]
    grey = search_data(convert, channels=1)
    colour = search_data(lambda images: images.repeat(1, 3, 1, 1), channels=1)
    found, expected = hba.search(grey, **SETTINGS), hba.search(colour, **SETTINGS)
    assert torch.equal(found.lam, expected.lam)
    assert found.schedule is not None
    data = EvaluationData("small", NAMES, grey.train, LazySplit(lambda: grey.in_color().val, 16, 8))
    assert hba.evaluate(found.schedule, data, seeds=1, allow_seen=True, **SETTINGS).test_images == 16
    held_in_memory = EvaluationData("small", NAMES, grey.train, grey.val)
    assert hba.evaluate(found.schedule, held_in_memory, seeds=1, allow_seen=True, **SETTINGS).test_images == 16


def test_one_channel_stays_one_for_a_network_of_ones_own() -> None:
    seen: set[int] = set()

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bn, self.linear = nn.BatchNorm2d(1), nn.Linear(64, 2)

        def forward(self, x: Tensor) -> Any:
            seen.add(x.shape[1])
            return self.linear(self.bn(x).flatten(1))

    hba.search(search_data(channels=1), network=Network(), epochs=1, batch_size=8, device="cpu")
    assert seen == {1}


@pytest.mark.parametrize("kind", [np.uint8, np.int16, np.int32, np.uint16, np.int64, ">i4", list, torch.int32])
def test_labels_may_be_whole_numbers_of_any_type(kind: Any) -> None:
    given: Any = [0, 1, 3]
    if kind is not list:
        given = torch.tensor(given, dtype=kind) if isinstance(kind, torch.dtype) else np.array(given, dtype=kind)
    found = checked_labels(given, 3)
    assert (found.dtype, found.tolist()) == (torch.int64, [0, 1, 3])


@pytest.mark.parametrize(
    ("images", "said"),
    [
        (torch.full((2, 3, 8, 8), 200.0), r"got float32 from 200 to 200; give them as they are before normalisation"),
        (torch.full((2, 3, 8, 8), -0.5), r"got float32 from -0.5 to -0.5"),
        (torch.full((2, 3, 8, 8), float("nan")), r"got float32 with values that are not finite"),
        (torch.full((2, 3, 8, 8), 65535, dtype=torch.int32), r"got int32 from 65535 to 65535; for levels of 0 to 255"),
        (np.zeros((2, 3, 8, 8), dtype=np.uint16), r"must be uint8, or floating point in \[0, 1\], got uint16"),
        (torch.zeros(2, 3, 8, 8, dtype=torch.bool), r"got bool"),
        (torch.zeros(2, 8, 8, 8, dtype=torch.uint8), r"\(N, C, H, W\) or \(N, H, W, C\), .*, got \(2, 8, 8, 8\)"),
        (torch.zeros(2, 192, dtype=torch.uint8), r"got \(2, 192\)"),
        (torch.zeros(2, 3, 0, 8, dtype=torch.uint8), r"got \(2, 3, 0, 8\)"),
        (["a.png", "b.png"], r"images must be a tensor or an array of numbers, got list"),
        (None, r"images must be a tensor or an array of numbers, got NoneType"),
        ([[1, 2], [3]], r"images must be a tensor or an array of numbers, got list"),
    ],
)
def test_images_of_the_wrong_kind_are_refused_with_what_they_must_be(images: Any, said: str) -> None:
    with pytest.raises(DataError, match=said) as raised:
        any_images(images, [0, 1])
    assert len(str(raised.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (torch.tensor([0.0, 1.0]), r"labels must be whole numbers, .* got float32"),
        (torch.tensor([True, False]), r"labels must be whole numbers, .* got bool"),
        (
            torch.eye(3),
            r"one number for each of the 2 images, or a matrix \(2, classes\) of 0 and 1, got the shape \(3, 3",
        ),
        (torch.eye(2) / 2, r"a matrix of labels must hold 0 and 1 only, .*, got 0.5"),
        (torch.tensor([0, 1, 0]), r"one number for each of the 2 images, or a matrix .*, got the shape \(3,\)"),
        (
            ["cat", "dog"],
            r"labels must be a tensor or an array of numbers, got list of text; of class names take np\.unique\(",
        ),
    ],
)
def test_labels_of_the_wrong_kind_are_refused_with_what_they_must_be(given: Any, said: str) -> None:
    with pytest.raises(DataError, match=said):
        any_images(pixels(2), given)


@pytest.mark.parametrize(
    ("names", "train_labels", "said"),
    [
        (("a", "b"), [0, 4], r"labels must be 0 to 1, the numbers of the 2 class names, but the training images .* 4"),
        (("a", "b"), [-1, 1], r"training images have the label -1"),
        (("a", "b", "c"), [0, 1], r"there are 3 class names, but labels of 2 classes only: 0 to 1"),
        ("ab", [0, 1], r"class_names must be a list of names, one for each class, got 'ab'"),
    ],
)
def test_labels_that_do_not_go_with_the_class_names_are_refused(names: Any, train_labels: Any, said: str) -> None:
    val = LabelledImages(pixels(2), torch.tensor([0, 1]))
    for kind in (SearchData, EvaluationData):
        with pytest.raises(DataError, match=said):
            kind("small", names, any_images(pixels(2), train_labels), val)


def test_parts_that_do_not_fit_together_are_refused() -> None:
    train = LabelledImages(pixels(2), labels(2))
    wide = LabelledImages(torch.zeros(2, 3, 8, 9, dtype=torch.uint8), labels(2))
    with pytest.raises(DataError, match=r"one shape, got \(3, 8, 8\) \(training\) and \(3, 8, 9\) \(validation\)"):
        SearchData("small", NAMES, train, wide)
    empty = LabelledImages(pixels(2)[:0], labels(0))
    with pytest.raises(DataError, match="there must be at least one test image"):
        EvaluationData("small", NAMES, train, empty)
    tensors: Any = (pixels(2), labels(2))
    with pytest.raises(DataError, match=r"the validation images must be hba\.data\.LabelledImages, got tuple"):
        SearchData("small", NAMES, train, tensors)
    as_list: Any = list(NAMES)
    assert SearchData("small", as_list, train, train).class_names == NAMES


class Pairs(Dataset[Any]):
    """A Dataset of what it is given."""

    def __init__(self, *samples: Any) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Any:
        return self.samples[index]


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter([(Image.new("L", (8, 8), 7), 1)])


def test_a_dataset_of_pictures_tensors_and_arrays_becomes_images_in_memory() -> None:
    one = pixels(1)[0]
    array = one.permute(1, 2, 0).numpy()
    data = from_dataset(
        Pairs(
            (Image.fromarray(array), 0),
            (one, torch.tensor(1)),
            (one.float() / 255, np.int64(2)),
            (array, np.array(3)),
            (Image.fromarray(array).convert("RGBA"), 4),
        ),
        image_size=8,
    )
    assert data.labels.tolist() == [0, 1, 2, 3, 4]
    assert all(torch.equal(image, one) for image in data.images)
    assert from_dataset(Stream(), image_size=8).images.unique().tolist() == [7]


def test_images_of_a_dataset_are_fitted_as_those_of_a_folder_are() -> None:
    stripes = np.zeros((10, 30, 3), dtype=np.uint8)
    stripes[:, 10:20] = (0, 255, 0)
    data = from_dataset(Pairs((Image.fromarray(stripes), 0), (stripes, 0)), image_size=10)
    assert data.images.shape == (2, 3, 10, 10)
    assert torch.equal(data.images[0], data.images[1])
    assert data.images[0, 1].min() == 255


@pytest.mark.parametrize(
    ("sample", "said"),
    [
        ((pixels(1)[0], 0.5), r"labels must be whole numbers, .* but number 1 has 0.5"),
        ((pixels(1)[0], torch.eye(2)[0]), r"labels must be whole numbers, .* but number 1 has Tensor"),
        ((torch.randn(3, 8, 8, generator=torch.Generator().manual_seed(0)), 0), r"number 1 .* got float32 from -"),
        ((Image.new("I;16", (8, 8)), 0), r"number 1 of the dataset: it has more than 8 bits, mode I;16, and no levels"),
        ({"image": 1}, r"pairs \(image, label\), but number 1 is of the type dict"),
        (("a.png", 0), r"number 1 of the dataset: images must be .*"),
    ],
)
def test_what_is_no_pair_of_image_and_class_is_named_by_its_number(sample: Any, said: str) -> None:
    with pytest.raises(DataError, match=said):
        from_dataset(Pairs((pixels(1)[0], 0), sample), image_size=8)


def test_an_empty_dataset_and_what_is_none_are_refused() -> None:
    with pytest.raises(DataError, match="the dataset is empty"):
        from_dataset(Pairs(), image_size=8)
    number: Any = 3
    with pytest.raises(DataError, match=r"a Dataset of pairs \(image, label\) is needed, got int"):
        from_dataset(number, image_size=8)


@pytest.mark.parametrize("data", [pixels(2), 1, LabelledImages(pixels(2), labels(2))], ids=type)
def test_data_of_another_kind_are_refused_with_how_to_make_the_right_one(data: Any) -> None:
    with pytest.raises(SettingsError) as raised:
        hba.search(data, **SETTINGS)
    assert str(raised.value) == (
        "data must be a dataset's name, a folder or file, a Dataset or list of pairs (image, label), or SearchData, "
        f"got {type(data).__name__}; make images of arrays by hba.data.LabelledImages(images, labels), and of these "
        "hba.data.SearchData(name, class_names, train, val)"
    )
    with pytest.raises(SettingsError, match=r"EvaluationData\(name, class_names, train, test\)"):
        hba.evaluate("digits", data, **SETTINGS)
    wrong_stage: Any = search_data()
    with pytest.raises(SettingsError, match="or EvaluationData, got SearchData"):
        hba.evaluate("digits", wrong_stage, **SETTINGS)


def test_data_are_shown_in_one_line_without_their_pixels() -> None:
    data = search_data()
    images = "LabelledImages(16 images of 3x8x8, cpu)"
    assert repr(data) == f"SearchData('small', 2 classes: left, right, train={images}, val={images})"
    held = LazySplit(lambda: data.val, 16, 8)
    assert repr(EvaluationData("small", NAMES, data.train, held)) == (
        f"EvaluationData('small', 2 classes: left, right, train={images}, "
        "test=LazySplit(16 images of 8 pixels, not read yet))"
    )
    held.opened()
    assert repr(held) == "LazySplit(16 images of 8 pixels, read)"
    digits = load_search_data(DataConfig())
    assert "10 classes: 0, 1, 2, 3, 4 and 5 more, train" in repr(digits)
    assert len(repr(load_evaluation_data(DataConfig()))) < 250


def test_one_image_of_a_kind_is_left_as_it_is() -> None:
    images = pixels()
    assert checked_images(images) is images
    assert LabelledImages(images, labels()).in_color().images is images
