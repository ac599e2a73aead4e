"""Data sets by name: scikit-learn's digits; torchvision's CIFAR-10 and -100, SVHN and FashionMNIST; ImageNet."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from hba.data.arrays import ArrayItems
from hba.data.folder import class_folders, folder_pool
from hba.data.pool import Pool, Source
from hba.errors import DataError

DIGITS_TEST_SIZE = 1097
"""Of 1,797 digits; leaves 700 for training and validation."""

NATIVE_IMAGE_SIZES: Mapping[str, int] = MappingProxyType(
    {
        **{"digits": 16, "cifar10": 32, "cifar100": 32, "svhn": 32, "svhn-full": 32},
        **{"fashionmnist": 28, "imagenet": 224},
    }
)
"""Side in pixels of each data set's images, to which digits are enlarged."""
DATASET_NAMES = tuple(NATIVE_IMAGE_SIZES)
"""Of data sets that `hba.search` and `hba.evaluate` take by name."""

_CLASSES: Mapping[str, tuple[str, Sequence[Mapping[str, Any]], Mapping[str, Any]]] = MappingProxyType(
    {
        "cifar10": ("CIFAR10", [{"train": True}], {"train": False}),
        "cifar100": ("CIFAR100", [{"train": True}], {"train": False}),
        "fashionmnist": ("FashionMNIST", [{"train": True}], {"train": False}),
        "svhn": ("SVHN", [{"split": "train"}], {"split": "test"}),
        "svhn-full": ("SVHN", [{"split": "train"}, {"split": "extra"}], {"split": "test"}),
    }
)
"""torchvision's class, and its arguments for training and for testing. svhn is the core set of 73,257 training images,
svhn-full has the 531,131 extra ones too."""


def builtin_source(name: str, root: Path, download: bool, skip_broken: bool = False) -> Source:
    """The data set of that exact name. root: folder of torchvision's files, and of ImageNet's folder."""
    if name == "digits":
        return _digits_source()
    return _imagenet_source(root, skip_broken) if name == "imagenet" else _torchvision_source(name, root, download)


def _digits_source() -> Source:
    """scikit-learn's 1,797 images of handwritten digits, 8x8 in 17 grey levels; nothing to download."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = torch.from_numpy(np.round(digits.images * (255 / 16)).astype(np.uint8))[:, None]
    pool = Pool(ArrayItems(images), digits.target.astype(np.int64))
    return Source("digits", tuple(map(str, range(10))), train=pool, test_size=DIGITS_TEST_SIZE)


def _imagenet_source(root: Path, skip_broken: bool) -> Source:
    """ILSVRC 2012: root/imagenet/train/<wnid>/*.JPEG, and root/imagenet/val/<wnid>/*.JPEG as the test pool.

    The literature reports errors on the validation images, so no search may see them; a search takes its own out of
    train/. The labels of ILSVRC's test images were never published.
    """
    folder = root / "imagenet"
    for part in ("train", "val"):
        if not (folder / part).is_dir():
            raise DataError(
                f"imagenet is not in {root}: {folder / part} must hold one sub-folder of images for each class; give "
                "its place with --data-root (it cannot be downloaded)"
            )
    class_names = class_folders(folder / "train")
    pool = partial(folder_pool, class_names=class_names, skip_broken=skip_broken)
    return Source("imagenet", class_names, train=pool(folder / "train"), test=partial(pool, folder / "val"))


def _torchvision_source(name: str, root: Path, download: bool) -> Source:
    """A torchvision data set, whose test part is opened only when it is asked for."""
    import torchvision.datasets

    class_name, training, testing = _CLASSES[name]

    def part(arguments: Sequence[Mapping[str, Any]]) -> tuple[Pool, tuple[str, ...]]:
        with _explained(name, root):
            kind = getattr(torchvision.datasets, class_name)
            return _pool([kind(str(root), download=download, **one) for one in arguments])

    def check_test() -> None:
        # torchvision looks for the test files of all other data sets when it opens their training files.
        if class_name == "SVHN":
            with _explained(name, root):
                url, filename, md5 = torchvision.datasets.SVHN.split_list["test"]
                if download:
                    torchvision.datasets.utils.download_url(url, str(root), filename, md5)
                elif not (root / filename).is_file():
                    raise RuntimeError(f"there is no {filename}")

    pool, class_names = part(training)
    return Source(name, class_names, train=pool, test=lambda: part([testing])[0], check_test=check_test)


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


def _pool(parts: Sequence[Any]) -> tuple[Pool, tuple[str, ...]]:
    """The images of all torchvision data sets, one after the other, and the class names of the first."""
    images = []
    for part in parts:
        array = torch.as_tensor(part.data)
        if array.ndim == 3:
            images.append(array[:, None])
        else:
            images.append(array.permute(0, 3, 1, 2) if array.shape[-1] == 3 else array)
    targets = [part.targets if hasattr(part, "targets") else part.labels for part in parts]
    labels = np.concatenate([np.asarray(one) for one in targets])
    class_names = getattr(parts[0], "classes", None) or (str(label) for label in range(labels.max() + 1))
    return Pool(ArrayItems(torch.cat(images)), labels.astype(np.int64)), tuple(class_names)
