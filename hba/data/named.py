"""Datasets by name: digits from scikit-learn, torchvision's CIFAR-10, CIFAR-100, SVHN and FashionMNIST, ImageNet."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hba.data.folder import imagenet_source
from hba.data.images import ArrayPool, Source
from hba.errors import DataError

DIGITS_IMAGE_SIZE = 16
DIGITS_TEST_SIZE = 1097
"""Of 1,797 digits; leaves 700, of which the search takes 200 for training and 500 for validation."""


def digits_source() -> Source:
    """scikit-learn's 1,797 images of handwritten digits, 8x8 in 17 grey levels; nothing to download."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    levels = np.round(digits.images * (255 / 16)).astype(np.uint8)
    pool = ArrayPool(torch.from_numpy(levels)[:, None], digits.target.astype(np.int64))
    return Source(
        name="digits",
        class_names=tuple(str(digit) for digit in range(10)),
        train=pool,
        test_size=DIGITS_TEST_SIZE,
    )


Open = Callable[[str, bool, bool], Sequence[Any]]
"""From (root, is it the training part, download) to torchvision's datasets that make up that part."""


def _torchvision_source(name: str, open_part: Open, root: Path, download: bool) -> Source:
    """A torchvision dataset. The test part is opened only when asked for."""

    def part(train: bool) -> tuple[ArrayPool, tuple[str, ...]]:
        with _explained(name, root):
            datasets = open_part(str(root), train, download)
        return _pool(datasets)

    def check_test() -> None:
        # torchvision looks for the test files of all other datasets when it opens their training files.
        if name.startswith("svhn"):
            with _explained(name, root):
                _find_svhn_test(root, download)

    pool, class_names = part(True)
    return Source(name, class_names, train=pool, test=lambda: part(False)[0], check_test=check_test)


@contextlib.contextmanager
def _explained(name: str, root: Path) -> Iterator[None]:
    """What torchvision raises for missing files and failed downloads, as a DataError that says what to do."""
    try:
        yield
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise DataError(
            f"{name} is not in {root} ({reason}); give its place with --data-root, or use --download"
        ) from None
    except OSError as error:
        raise DataError(f"{name} cannot be read from or downloaded to {root}: {error}") from None


def _find_svhn_test(root: Path, download: bool) -> None:
    """Download the file without opening it, or see that it is there."""
    from torchvision.datasets import SVHN
    from torchvision.datasets.utils import download_url

    url, filename, md5 = SVHN.split_list["test"]
    if download:
        download_url(url, str(root), filename, md5)
    elif not (root / filename).is_file():
        raise RuntimeError(f"there is no {filename}")


def _pool(datasets: Sequence[Any]) -> tuple[ArrayPool, tuple[str, ...]]:
    """The images of all datasets, one after the other, and the class names of the first."""
    images = torch.cat([_channels_first(torch.as_tensor(dataset.data)) for dataset in datasets])
    labels = np.concatenate(
        [np.asarray(dataset.targets if hasattr(dataset, "targets") else dataset.labels) for dataset in datasets]
    ).astype(np.int64)
    class_names = getattr(datasets[0], "classes", None) or (str(label) for label in range(labels.max() + 1))
    return ArrayPool(images, labels), tuple(class_names)


def _channels_first(images: Tensor) -> Tensor:
    if images.ndim == 3:
        return images[:, None]
    return images.permute(0, 3, 1, 2) if images.shape[-1] == 3 else images


def _open_svhn(train_splits: Sequence[str], root: str, train: bool, download: bool) -> Sequence[Any]:
    from torchvision.datasets import SVHN

    return [SVHN(root, split=split, download=download) for split in (train_splits if train else ("test",))]


def _open(dataset_name: str, root: str, train: bool, download: bool) -> Sequence[Any]:
    import torchvision.datasets

    return [getattr(torchvision.datasets, dataset_name)(root, train=train, download=download)]


_TORCHVISION: Mapping[str, tuple[Open, int]] = MappingProxyType(
    {
        "cifar10": (partial(_open, "CIFAR10"), 32),
        "cifar100": (partial(_open, "CIFAR100"), 32),
        "svhn": (partial(_open_svhn, ("train",)), 32),
        "svhn-full": (partial(_open_svhn, ("train", "extra")), 32),
        "fashionmnist": (partial(_open, "FashionMNIST"), 28),
    }
)
"""svhn is the core set of 73,257 training images, svhn-full has the 531,131 extra ones too."""

NATIVE_IMAGE_SIZES: Mapping[str, int] = MappingProxyType(
    {"digits": DIGITS_IMAGE_SIZE, **{name: size for name, (_, size) in _TORCHVISION.items()}, "imagenet": 224}
)
"""Side in pixels of each dataset's images, to which digits are enlarged."""

DATASET_NAMES = tuple(NATIVE_IMAGE_SIZES)
"""Of datasets that `hba.search` and `hba.evaluate` take by name."""


def named_source(name: str, root: Path, download: bool, skip_broken: bool = False) -> Source:
    """The dataset of that exact name; root holds torchvision's files, and ImageNet's folder."""
    if name == "digits":
        return digits_source()
    if name == "imagenet":
        return imagenet_source(root, skip_broken)
    open_part, _ = _TORCHVISION[name]
    return _torchvision_source(name, open_part, root, download)
