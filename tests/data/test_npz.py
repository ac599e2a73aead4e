"""Arrays in a .npz file: what they may be called, which pixels they become, and what is refused."""

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from in_memory import in_memory
from PIL import Image

from hba.data import load_evaluation_data, load_search_data
from hba.data.config import DataConfig
from hba.data.folder import read_image
from hba.data.npz import npz_source
from hba.errors import DataError

LABELS = np.repeat([0, 1], 10)


def noise(*shape: int, dtype: str = "uint8", top: int = 256) -> np.ndarray:
    return np.random.default_rng(0).integers(0, top, shape).astype(dtype)


def saved(folder: Path, **arrays: Any) -> Path:
    np.savez(folder / "a.npz", **arrays)
    return folder / "a.npz"


def config_of(file: Path, **settings: Any) -> DataConfig:
    return DataConfig.make({"data": str(file), "image_size": 8, **settings})


def refusal(file: Path) -> str:
    with pytest.raises(DataError) as raised:
        in_memory(load_evaluation_data(config_of(file)).test)
    message = str(raised.value)
    assert len(message.splitlines()) == 1
    return message.replace(str(file.parent) + "/", "")


@pytest.mark.parametrize(
    "names",
    ["{part}_{kind}", "{kind}_{part}", "{kind}-{part}", "{part}.{kind}"],
)
@pytest.mark.parametrize("kinds", [("images", "labels"), ("x", "y"), ("X", "Y")], ids="-".join)
def test_splits_and_arrays_have_their_usual_names(names: str, kinds: tuple[str, str], tmp_path: Path) -> None:
    """MedMNIST has train_images and train_labels, Keras x_train and y_train."""
    arrays = {}
    for number, part in enumerate(("train", "valid", "test")):
        arrays[names.format(part=part, kind=kinds[0])] = np.full((4, 8, 8), number, np.uint8)
        arrays[names.format(part=part, kind=kinds[1])] = np.array([0, 1, 0, 1])
    file = saved(tmp_path, **arrays, meta=np.arange(3))
    search, evaluation = load_search_data(config_of(file)), load_evaluation_data(config_of(file))
    shown = [in_memory(part).images.unique().tolist() for part in (search.train, search.val, evaluation.test)]
    assert shown == [[0], [1], [2]]
    assert search.train.labels.tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("shape", [(20, 8, 8), (20, 8, 8, 1), (20, 8, 8, 3), (20, 1, 8, 8), (20, 3, 8, 8)])
def test_all_shapes_become_three_channels(shape: tuple[int, ...], tmp_path: Path) -> None:
    images = noise(*shape)
    source = npz_source(saved(tmp_path, images=images, labels=LABELS))
    read = source.train.read(np.arange(20), 8).images
    expected = torch.from_numpy(images)
    if len(shape) == 3:
        expected = expected[:, None]
    elif shape[3] in (1, 3):
        expected = expected.permute(0, 3, 1, 2)
    assert torch.equal(read, expected.expand(-1, 3, -1, -1))


def test_other_sizes_are_resized_as_pil_resizes_the_same_image_in_a_file(tmp_path: Path) -> None:
    images = noise(20, 11, 30, 3)
    Image.fromarray(images[4]).save(tmp_path / "4.png")
    read = npz_source(saved(tmp_path, images=images, labels=LABELS)).train.read(np.array([4]), 8)
    assert torch.equal(read.images[0], read_image(tmp_path / "4.png", 8))


@pytest.mark.parametrize("channels", [1, 3])
def test_16_bits_get_one_scale_of_all_images_that_is_told(channels: int, tmp_path: Path) -> None:
    """12 bits end at 4095; the test images, which are brighter, do not count."""
    train = noise(20, 8, 8, channels, dtype="uint16", top=4096)
    test = noise(20, 8, 8, channels, dtype="uint16", top=60000)
    file = saved(tmp_path, train_images=train, train_labels=LABELS, test_images=test, test_labels=LABELS)
    data = load_evaluation_data(config_of(file))
    assert data.levels == (0, 4095)
    assert data.facts == ("in images of more than 8 bits, level 0 is black and 4095 white",)
    expected = np.round(train.astype(float) * 255 / 4095).astype(np.uint8).transpose(0, 3, 1, 2)
    assert np.array_equal(in_memory(data.train).images, np.broadcast_to(expected, (20, 3, 8, 8)))
    of_test = in_memory(data.test).images.numpy()
    assert np.array_equal(of_test[:, 0], np.minimum(np.round(test[..., 0] * (255 / 4095)), 255))
    half = in_memory(load_evaluation_data(config_of(file, levels=(0, 8190))).train).images
    assert np.array_equal(half[:, 0], np.round(train[..., 0] * (255 / 8190)))


@pytest.mark.parametrize("dtype", ["int64", "float32", "float64"])
def test_8_bits_in_wider_numbers_stay_what_they_are(dtype: str, tmp_path: Path) -> None:
    images = noise(20, 8, 8, 3, dtype=dtype)
    read = load_evaluation_data(config_of(saved(tmp_path, images=images, labels=LABELS))).train
    plain = load_evaluation_data(config_of(saved(tmp_path, images=images.astype(np.uint8), labels=LABELS))).train
    assert read.fingerprint() == plain.fingerprint()


def test_images_that_are_no_numbers_are_left_out_where_that_is_asked_for(tmp_path: Path) -> None:
    images = np.random.default_rng(0).random((20, 8, 8))
    images[3, 0, 0] = np.nan
    parts = {"train_images": images, "train_labels": LABELS, "test_images": images[4:], "test_labels": LABELS[4:]}
    file = saved(tmp_path, **parts)
    assert refusal(file) == (
        "cannot read the image number 3 of train_images in a.npz (its levels must be finite numbers); mend or remove "
        "it, or use --skip-broken"
    )
    data = load_evaluation_data(config_of(file, skip_broken=True))
    assert len(data.train) == 19
    assert [Path(item.path).name for item in data.left_out] == ["a.npz"]


OBJECTS = np.array([f"class {label}" for label in LABELS], dtype=object)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"a": LABELS}, "a.npz must hold the arrays images and labels, or train_images and train_labels (and val_, te"),
        ({}, "a.npz must hold the arrays images and labels, or train_images and train_labels (and val_, test_), got n"),
        ({"images": noise(20, 8, 8)}, "a.npz has the array images, but no labels of train beside it; add them"),
        (
            {"images": noise(20, 8, 8, 8)},
            "images of a.npz must have the shape (N, H, W), (N, H, W, C) or (N, C, H, W),",
        ),
        ({"images": noise(20, 8)}, "images of a.npz must have the shape (N, H, W), (N, H, W, C) or (N, C, H, W), with"),
        (
            {"images": noise(20, 0, 8)},
            "images of a.npz must have the shape (N, H, W), (N, H, W, C) or (N, C, H, W), wi",
        ),
        ({"images": noise(19, 8, 8)}, "images of a.npz must have one image for each of the 20 labels, got 19"),
        ({"images": noise(20, 8, 8, dtype="bool")}, "images of a.npz must hold numbers, best uint8, got bool"),
        ({"images": noise(20, 8, 8, dtype="complex64")}, "images of a.npz must hold numbers, best uint8, got complex6"),
        (
            {"labels": noise(20, 14)},
            "labels of a.npz must hold 0 and 1 only, whether an image has the class of the column",
        ),
        (
            {"labels": noise(20, 2, 2)},
            "labels of a.npz must have the shape (N,), (N, 1) or (N, classes), got (20, 2, 2)",
        ),
        ({"labels": LABELS / 2}, "labels of a.npz has 0.5, no whole number: only classes can be learned"),
        ({"labels": np.where(LABELS, np.nan, 1)}, "labels of a.npz has no label for number 10: remove it and its imag"),
        ({"labels": np.zeros(20)}, "a.npz has one class only, '0': add images of another"),
        ({"images_2": LABELS, "labels": LABELS}, "the array 'images_2' of a.npz has the split '2', but splits must be"),
        ({"x": LABELS, "images": LABELS}, "a.npz has two arrays of train images, "),
        (
            {"labels": OBJECTS},
            "cannot read the arrays of a.npz (it holds Python objects, which could run code); save them anew",
        ),
    ],
)
def test_arrays_that_cannot_be_used_are_refused(arrays: dict[str, Any], message: str, tmp_path: Path) -> None:
    whole = {"images": noise(20, 8, 8), "labels": LABELS} if set(arrays) & {"images", "labels"} else {}
    whole = (
        {} if list(arrays) == ["images"] and arrays["images"].shape == (20, 8, 8) and "no labels" in message else whole
    )
    assert refusal(saved(tmp_path, **{**whole, **arrays})).startswith(message)


def test_a_broken_file_is_refused_in_one_line_wherever_it_ends(tmp_path: Path) -> None:
    whole = saved(tmp_path, images=noise(20, 8, 8), labels=LABELS).read_bytes()
    for length in range(0, len(whole), 301):
        (tmp_path / "a.npz").write_bytes(whole[:length])
        assert refusal(tmp_path / "a.npz").startswith("cannot read the arrays of a.npz (")
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        for name in ("images.npy", "labels.npy"):
            buffer = io.BytesIO()
            np.save(buffer, LABELS)
            archive.writestr(name, buffer.getvalue()[:-9])
    assert refusal(tmp_path / "a.npz").startswith("cannot read the arrays of a.npz (")


def test_a_test_of_more_bits_than_the_training_images_is_refused(tmp_path: Path) -> None:
    wide = noise(20, 8, 8, dtype="uint16", top=4096)
    parts = {"train_images": noise(20, 8, 8), "train_labels": LABELS, "test_images": wide, "test_labels": LABELS}
    assert "number 0 of test_images in a.npz (it is uint16, and no levels" in refusal(saved(tmp_path, **parts))
