"""Images in memory: what is converted, what is refused, and torch Datasets in the place
of a folder.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from in_memory import in_memory
from PIL import Image
from torch import Tensor
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset
from torchvision.datasets import ImageFolder

import hba
from hba.data import (
    EvaluationData,
    LabelledImages,
    SearchData,
    from_dataset,
    load_evaluation_data,
    load_search_data,
)
from hba.data.config import DataConfig
from hba.data.load import check_data, name_of_dataset
from hba.errors import DataError, HbaError

BYTES = torch.from_numpy(
    np.random.default_rng(0).integers(0, 256, (6, 3, 8, 8), dtype=np.uint8)
)
LABELS = torch.arange(6) % 2
MATRIX = torch.tensor([[1, 0], [0, 1], [1, 1], [0, 0], [1, 0], [0, 1]])


def check_refusal(named: str, make: Any) -> None:
    with pytest.raises(HbaError) as raised:
        make()
    assert len(str(raised.value).splitlines()) == 1
    assert named in str(raised.value), (named, str(raised.value))


def test_images_and_labels_are_the_same_however_they_are_given() -> None:
    many: list[Any] = [
        BYTES.numpy(),
        BYTES.permute(0, 2, 3, 1),
        BYTES.float() / 255,
        (BYTES.double() / 255).numpy(),
    ]
    for images in many:
        assert torch.equal(LabelledImages(images, LABELS).images, BYTES)
    assert LabelledImages(BYTES[:, 0], LABELS).images.shape == (6, 1, 8, 8)
    many = [
        LABELS.int(),
        LABELS.numpy().astype(">i2"),
        LABELS.tolist(),
        LABELS.numpy().astype(np.uint8),
    ]
    for labels in many:
        read_labels = LabelledImages(BYTES, labels).labels
        assert read_labels.dtype == torch.int64
        assert torch.equal(read_labels, LABELS)
    many = [MATRIX, MATRIX.bool(), MATRIX.float().numpy(), MATRIX.tolist()]
    for matrix in many:
        assert torch.equal(LabelledImages(BYTES, matrix).labels, MATRIX.bool())
    for shape, channels in (
        ((6, 8, 8, 4), 4),
        ((6, 4, 8, 8), 4),
        ((6, 1, 8, 8), 1),
        ((6, 8, 8, 2), 2),
    ):
        assert (
            LabelledImages(torch.zeros(shape, dtype=torch.uint8), LABELS).n_channels
            == channels
        )


def test_what_cannot_be_images_or_labels_is_refused() -> None:
    for images, named in (
        (BYTES.float(), "float32"),
        (BYTES.float() * float("nan"), "float32"),
        (torch.zeros(6, 8, 8, 8, dtype=torch.uint8), "(6, 8, 8, 8)"),
        (BYTES[0, 0], "(8, 8)"),
        (["a"] * 6, "list"),
    ):
        check_refusal(named, lambda images=images: LabelledImages(images, LABELS))
    for labels, named in (
        (LABELS[:5], "(5,)"),
        (LABELS.float().log(), "finite"),
        (LABELS.float()[:, None], "float32"),
        (["cat"] * 6, "text"),
        (MATRIX * 2, "0 and 1"),
        (torch.eye(2)[LABELS], "argmax"),
    ):
        check_refusal(named, lambda labels=labels: LabelledImages(BYTES, labels))


def test_parts_must_fit_the_class_names_and_each_other() -> None:
    data = LabelledImages(BYTES, LABELS)
    matrix = LabelledImages(BYTES, MATRIX)
    assert SearchData("d", ["a", "b"], data, data).class_names == ("a", "b")  # type: ignore[arg-type]
    for names, train, val, named in (
        (("a", "b"), LabelledImages(BYTES, LABELS - 1), data, "-1"),
        (("a", "b"), data, LabelledImages(BYTES[:0], LABELS[:0]), "val images"),
        (("a", "b"), data, LabelledImages(BYTES[:, :, :4], LABELS), "shape"),
        (("a", "b"), data, matrix, "multi-label"),
        (("a", "b", "c"), matrix, matrix, "3 class names"),
        (("a", "b"), matrix, LabelledImages(BYTES, MATRIX * 0), "val images"),
        (("a", "b"), BYTES, data, "train images"),
    ):
        check_refusal(
            named,
            lambda names=names, train=train, val=val: SearchData(
                "d", names, train, val
            ),
        )
    for wrong in (BYTES, 1, data, EvaluationData("d", ("a", "b"), data, data)):
        check_refusal("SearchData", lambda wrong=wrong: check_data(wrong, SearchData))
    grey = LabelledImages(BYTES[:, :1], LABELS)
    search = SearchData("d", ("a", "b"), grey, grey).in_color()
    assert torch.equal(in_memory(search.train).images, BYTES[:, :1].repeat(1, 3, 1, 1))
    assert "\n" not in repr(search)


# Datasets of torch.


class Pictures(Dataset[Any]):
    """Pairs of images of a kind and labels; counts how often each is read."""

    def __init__(self, n_images: int, pixel_type: str = "PIL") -> None:
        self.n_images = n_images
        self.pixel_type = pixel_type
        self.read = [0] * n_images

    def __len__(self) -> int:
        return self.n_images

    def __getitem__(self, index: int) -> Any:
        self.read[index] += 1
        pixels = np.full((8, 8, 3), 10 * index, dtype=np.uint8)
        tensor = torch.from_numpy(pixels).permute(2, 0, 1)
        images = {
            "PIL": Image.fromarray(pixels),
            "array": pixels,
            "uint8": tensor,
            "float": tensor / 255,
        }
        return images[self.pixel_type], index % 2


def config(**settings: Any) -> DataConfig:
    return DataConfig(data="Pictures", image_size=8, **settings)


def test_a_search_splits_a_dataset_as_the_training_images_of_a_folder_with_a_test_split(
    tmp_path: Path,
) -> None:
    random = np.random.default_rng(0)
    for split, n_images in (("train", 15), ("test", 2)):
        for name in ("cat", "dog"):
            (tmp_path / split / name).mkdir(parents=True)
            for number in range(n_images):
                pixels = random.integers(0, 256, (12, 10, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(
                    tmp_path / split / name / f"{number:02}.png"
                )
    settings: dict[str, Any] = {"train_size": 12, "val_size": 6, "split_seed": 3}
    loaded = load_search_data(config(**settings), None, ImageFolder(tmp_path / "train"))
    expected = load_search_data(
        DataConfig(data=str(tmp_path), image_size=8, **settings)
    )
    assert loaded.class_names == expected.class_names
    assert loaded.train.fingerprint() == expected.train.fingerprint()
    assert loaded.val.fingerprint() == expected.val.fingerprint()


def test_datasets_of_all_kinds_are_read_once() -> None:
    for pixel_type in ("PIL", "uint8", "float", "array"):
        pictures = Pictures(20, pixel_type)
        data = load_search_data(config(), None, pictures)
        assert pictures.read == [1] * 20
        assert (len(data.train), len(data.val), data.class_names) == (16, 4, ("0", "1"))
        assert data.test_images is None
        colors = in_memory(data.train).images[:, 0, 0, 0] // 10 % 2
        assert torch.equal(colors.long(), in_memory(data.train).labels)
    assert (
        len(
            load_search_data(
                config(), None, [Pictures(20)[number] for number in range(20)]
            ).train
        )
        == 16
    )
    named = Pictures(20)
    named.classes = ["cat", "dog"]  # type: ignore[attr-defined]
    assert load_search_data(config(), None, Subset(named, range(12))).class_names == (
        "cat",
        "dog",
    )
    pair = load_evaluation_data(config(train_size=10), None, (named, Pictures(6)))
    assert (len(pair.train), pair.n_test, pair.class_names) == (10, 6, ("cat", "dog"))


def folders(place: Path, **classes: Sequence[str]) -> Mapping[str, ImageFolder]:
    """Image folders by name; the red of an image is 10 times the place of its class in
    the alphabet.
    """
    for split, names in classes.items():
        for name in names:
            (place / split / name).mkdir(parents=True)
            for number in range(6):
                image = Image.new("RGB", (8, 8), (10 * "abcdef".index(name), 0, 0))
                image.save(place / split / name / f"{number}.png")
    return {split: ImageFolder(place / split) for split in classes}


def test_the_labels_of_a_pair_of_datasets_are_matched_by_name(tmp_path: Path) -> None:
    datasets = folders(tmp_path, train="abc", fewer="bc", more="bcd", last="cab")
    train = datasets["train"]
    last = datasets["last"]
    last.classes = list("cab")
    last.samples = [(path, (label + 1) % 3) for path, label in last.samples]

    def load_test(
        second: Any, first: Any = train
    ) -> tuple[list[float], tuple[str, ...]]:
        data = load_evaluation_data(config(), None, (first, second))
        test = in_memory(data.test)
        return (
            test.images[:, 0, 0, 0] // 10 - test.labels
        ).unique().tolist(), data.class_names

    for second in (
        datasets["fewer"],
        last,
        Subset(datasets["fewer"], [0, 7]),
        Subset(Subset(train, range(18)), [3]),
    ):
        assert load_test(second) == ([0], ("a", "b", "c"))
    assert load_test(
        ConcatDataset([datasets["fewer"], datasets["fewer"]]),
        ConcatDataset([train, train]),
    )[0] == [0]
    # Pairs without names are taken by number.
    assert load_test([train[number] for number in range(18)]) == ([0], ("a", "b", "c"))
    changed = ImageFolder(
        str(tmp_path / "train"), target_transform=lambda label: 2 - label
    )
    assert load_test(changed, changed)[1] == ("0", "1", "2")
    for first, second, named in (
        (train, datasets["more"], "'d'"),
        (train, changed, "target_transform"),
        (changed, train, "target_transform"),
        (changed, datasets["fewer"], "target_transform"),
        (ConcatDataset([train, datasets["fewer"]]), train, "ConcatDataset"),
    ):
        check_refusal(
            named, lambda first=first, second=second: load_test(second, first)
        )


def test_what_is_no_dataset_of_pairs_is_refused() -> None:
    pictures = Pictures(4)
    image = Image.new("RGB", (8, 8))
    for data, named in (
        ((pictures, pictures), "pair"),
        (DataLoader(pictures), "DataLoader"),
        ([], "at least one pair"),
        ([1, 2], "item 0"),
        ([(image, 0), (image, 0.5)], "item 1"),
        ([(torch.zeros(4, 8, 8), 0)], "got 4"),
        ([(image, -1), (image, 1)], "-1"),
        ([(image, 0)] * 4 + [(image, 1)], "'1'"),
    ):
        check_refusal(named, lambda data=data: load_search_data(config(), None, data))
    check_refusal(
        "(train, test)",
        lambda: load_evaluation_data(config(), None, pictures),  # type: ignore[arg-type]
    )
    check_refusal("workers", lambda: name_of_dataset(pictures, {"workers": 1}))
    check_refusal("item 0", lambda: from_dataset([(5, 0)], image_size=8))
    with pytest.raises(DataError):
        hba.search((pictures, pictures), epochs=1)


def test_data_move_and_tell_themselves_apart() -> None:
    first = LabelledImages(BYTES, LABELS)
    other_images = [
        LabelledImages(BYTES.flip(0), LABELS),
        LabelledImages(BYTES, 1 - LABELS),
        LabelledImages(BYTES.view(6, 3, 4, 16), LABELS),
        LabelledImages(BYTES[:5], LABELS[:5]),
    ]
    assert len({images.fingerprint() for images in (first, *other_images)}) == 5
    assert first.to(torch.device("cpu")).fingerprint() == first.fingerprint()
    levels: Tensor = BYTES.double() / 255
    assert first.mean_color() == pytest.approx(
        levels.mean(dim=(0, 2, 3)).tolist(), abs=1e-6
    )
    assert first.mean_and_std()[1] == pytest.approx(
        levels.std(dim=(0, 2, 3), correction=0).tolist(), abs=1e-6
    )
    assert LabelledImages(BYTES * 0, LABELS).mean_and_std()[1] == (1.0, 1.0, 1.0)
