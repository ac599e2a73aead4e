"""Named datasets: digits, and torchvision's from small files in their formats."""

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torchvision.datasets
from in_memory import in_memory
from PIL import Image
from scipy.io import savemat

from hba.data import LabelledImages, load_evaluation_data, load_search_data
from hba.data.arrays import NATIVE_IMAGE_SIZES, builtin_source
from hba.data.config import DataConfig
from hba.data.pool import Pool
from hba.errors import DataError
from hba.preprocessing import BASELINES

N_TRAIN = 60
N_TEST = 20


def read(pool: Pool, image_size: int) -> LabelledImages:
    return replace(pool, image_size=image_size).read()


def labels_of(n_images: int, n_classes: int = 10) -> np.ndarray:
    return np.arange(n_images) % n_classes


def pixels_of(n_images: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(n_images).integers(
        0, 256, (n_images, *shape), dtype=np.uint8
    )


# Digits.


def test_digits_are_scikit_learns_1797_images_in_17_levels_from_0_to_255() -> None:
    from sklearn.datasets import load_digits

    source = builtin_source("digits", Path("nowhere"), False)
    reference = load_digits()
    data = read(source.train, 8)
    assert data.images.shape == (1797, 3, 8, 8)
    assert source.class_names == tuple("0123456789")
    assert data.labels.tolist() == reference.target.tolist()
    levels = data.images[:, 0].numpy()
    assert np.abs(levels - reference.images * 255 / 16).max() <= 0.5
    assert (levels.min(), levels.max(), len(np.unique(levels))) == (0, 255, 17)
    assert torch.equal(data.images[:, 0], data.images[:, 1])
    assert torch.equal(data.images[:, 0], data.images[:, 2])


# CIFAR: pickled rows of 3,072 bytes, the red, green and blue plane one after the other.


def write_cifar(folder: Path, name: str, planes: np.ndarray, **labels: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    content = {"data": planes.reshape(len(planes), -1), **labels}
    (folder / name).write_bytes(pickle.dumps(content))


@pytest.fixture
def any_file_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """torchvision compares files to the checksums of the real ones; here it asks only
    whether they exist.
    """

    def exists(path: str, md5: str | None = None) -> bool:
        return Path(path).is_file()

    monkeypatch.setattr(torchvision.datasets.cifar, "check_integrity", exists)
    monkeypatch.setattr(torchvision.datasets.svhn, "check_integrity", exists)


@pytest.mark.usefixtures("any_file_is_whole")
def test_cifar10_is_read_from_its_five_training_files_and_its_test_file(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "cifar-10-batches-py"
    train = pixels_of(N_TRAIN, 3, 32, 32)
    test = pixels_of(N_TEST, 3, 32, 32)
    for batch in range(5):
        chosen = slice(12 * batch, 12 * (batch + 1))
        write_cifar(
            folder,
            f"data_batch_{batch + 1}",
            train[chosen],
            labels=labels_of(N_TRAIN)[chosen].tolist(),
        )
    write_cifar(folder, "test_batch", test, labels=labels_of(N_TEST).tolist())
    names = ["airplane", *(f"thing {index}" for index in range(1, 10))]
    (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": names}))
    source = builtin_source("cifar10", tmp_path, False)
    data = read(source.train, 32)
    assert np.array_equal(data.images, train)
    assert data.labels.tolist() == labels_of(N_TRAIN).tolist()
    assert source.class_names == tuple(names)
    assert source.test is not None
    assert np.array_equal(read(source.test(), 32).images, test)


# SVHN: Matlab files with X of shape (32, 32, 3, n) and the digit 0 labelled 10.


def write_svhn(root: Path, split: str, images: np.ndarray, digits: np.ndarray) -> None:
    labels = np.where(digits == 0, 10, digits)[:, None].astype(np.uint8)
    savemat(
        root / f"{split}_32x32.mat", {"X": images.transpose(1, 2, 3, 0), "y": labels}
    )


@pytest.mark.usefixtures("any_file_is_whole")
def test_svhn_and_the_full_svhn_which_has_the_extra_images_behind_the_core_set(
    tmp_path: Path,
) -> None:
    train = pixels_of(N_TRAIN, 32, 32, 3)
    extra = pixels_of(90, 32, 32, 3)
    write_svhn(tmp_path, "train", train, labels_of(N_TRAIN))
    with pytest.raises(DataError, match="svhn is not in"):
        builtin_source("svhn", tmp_path, False)
    write_svhn(tmp_path, "test", pixels_of(N_TEST, 32, 32, 3), labels_of(N_TEST))
    with pytest.raises(DataError, match="svhn-full is not in"):
        builtin_source("svhn-full", tmp_path, False)
    write_svhn(tmp_path, "extra", extra, labels_of(90)[::-1])
    core, full = (
        builtin_source(name, tmp_path, False) for name in ("svhn", "svhn-full")
    )
    assert core.class_names == full.class_names == tuple("0123456789")
    data = read(core.train, 32)
    whole = read(full.train, 32)
    assert np.array_equal(data.images.permute(0, 2, 3, 1), train)
    assert data.labels.tolist() == labels_of(N_TRAIN).tolist()
    assert np.array_equal(
        whole.images.permute(0, 2, 3, 1), np.concatenate([train, extra])
    )
    assert whole.labels.tolist() == [*labels_of(N_TRAIN), *labels_of(90)[::-1]]
    assert full.test is not None
    assert len(full.test().labels) == N_TEST
    assert BASELINES["svhn-full"] == BASELINES["svhn"]
    evaluation = load_evaluation_data(DataConfig(data="svhn", data_root=str(tmp_path)))
    assert evaluation.n_test is None, "only opening the file would tell"
    assert (len(evaluation.train), len(evaluation.test.opened())) == (N_TRAIN, N_TEST)


# ImageNet: a folder per class, of which val/ is what errors are reported on.


def write_imagenet(root: Path, parts: tuple[str, ...] = ("train", "val")) -> None:
    for split in parts:
        for label, wnid in enumerate(("n01440764", "n01443537", "n01484850")):
            (root / "imagenet" / split / wnid).mkdir(parents=True)
            for index in range(8 if split == "train" else 3):
                image = Image.new(
                    "RGB", (30, 20), (80 * label, 0, 255 if split == "train" else 0)
                )
                image.save(root / "imagenet" / split / wnid / f"{wnid}_{index}.JPEG")


def test_imagenet_is_searched_on_its_training_and_tested_on_its_validation_folder(
    tmp_path: Path,
) -> None:
    write_imagenet(tmp_path)
    config = DataConfig(data="imagenet", data_root=str(tmp_path), image_size=16)
    search = load_search_data(config)
    evaluation = load_evaluation_data(config)
    assert search.name == evaluation.name == "imagenet"
    assert search.class_names == ("n01440764", "n01443537", "n01484850")
    assert (len(search.train), len(search.val)) == (19, 5)
    for split in (search.train, search.val, evaluation.train):
        assert int(in_memory(split).images[:, 2].min()) > 200
    assert int(in_memory(evaluation.test).images[:, 2].max()) < 50
    assert len(evaluation.test.opened()) == 9
    assert NATIVE_IMAGE_SIZES["imagenet"] == 224
