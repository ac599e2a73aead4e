"""Datasets by name: digits from scikit-learn, and torchvision's CIFAR-10, CIFAR-100, SVHN and FashionMNIST."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

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


def _torchvision_source(name: str, open_part: Callable[..., Any], root: Path, download: bool) -> Source:
    """A torchvision dataset; open_part(root, train, download) opens one part, and the test part only when asked."""

    def part(train: bool) -> tuple[ArrayPool, tuple[str, ...]]:
        try:
            dataset = open_part(root=str(root), train=train, download=download)
        except RuntimeError as error:
            reason = str(error).splitlines()[0]
            raise DataError(
                f"{name} is not in {root} ({reason}); give its place with --data-root, or use --download"
            ) from None
        except OSError as error:
            raise DataError(f"{name} cannot be read from or downloaded to {root}: {error}") from None
        return _pool(dataset)

    pool, class_names = part(True)
    return Source(name, class_names, train=pool, test=lambda: part(False)[0])


def _pool(dataset: Any) -> tuple[ArrayPool, tuple[str, ...]]:
    images = torch.as_tensor(dataset.data)
    if images.ndim == 3:
        images = images[:, None]
    elif images.shape[-1] == 3:
        images = images.permute(0, 3, 1, 2)
    labels = np.asarray(dataset.targets if hasattr(dataset, "targets") else dataset.labels, dtype=np.int64)
    class_names = tuple(getattr(dataset, "classes", None) or (str(label) for label in range(labels.max() + 1)))
    return ArrayPool(images.contiguous(), labels), class_names


def _open_svhn(root: str, train: bool, download: bool) -> Any:
    from torchvision.datasets import SVHN

    return SVHN(root, split="train" if train else "test", download=download)


def _open(dataset_name: str, root: str, train: bool, download: bool) -> Any:
    import torchvision.datasets

    return getattr(torchvision.datasets, dataset_name)(root, train=train, download=download)


_TORCHVISION: Mapping[str, tuple[Callable[..., Any], int]] = MappingProxyType(
    {
        "cifar10": (partial(_open, "CIFAR10"), 32),
        "cifar100": (partial(_open, "CIFAR100"), 32),
        "svhn": (_open_svhn, 32),
        "fashionmnist": (partial(_open, "FashionMNIST"), 28),
    }
)

NATIVE_IMAGE_SIZES: Mapping[str, int] = MappingProxyType(
    {"digits": DIGITS_IMAGE_SIZE, **{name: size for name, (_, size) in _TORCHVISION.items()}}
)
"""Side in pixels of each dataset's images, to which digits are enlarged."""

DATASET_NAMES = tuple(NATIVE_IMAGE_SIZES)


def named_source(name: str, root: Path, download: bool) -> Source:
    """The dataset of that exact name; root holds torchvision's files."""
    if name == "digits":
        return digits_source()
    open_part, _ = _TORCHVISION[name]
    return _torchvision_source(name, open_part, root, download)
