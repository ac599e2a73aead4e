"""Images in arrays: .npz files, torch Datasets, and the data sets that scikit-learn and torchvision have by name."""

import contextlib
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset
from torchvision.transforms.v2 import functional as TF

from hba.data.folder import class_folders, folder_pool
from hba.data.images import CHANNELS, MOST_CHANNELS, LabelledImages, OnRead, channels_axis, checked_images
from hba.data.labels import (
    check_truth_values,
    check_two_classes,
    class_name,
    is_multi_label,
    labels_of,
    multi_label_fact,
    split_role,
)
from hba.data.leakage import ImageHash, hash_of_pixels
from hba.data.pool import Items, Pool, ReadPart, Source
from hba.data.reading import Deep, Levels, fitted, to_8_bits
from hba.errors import DataError
from hba.utils.files import reason_of

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

IMAGES, LABELS = ("images", "x"), ("labels", "y")
"""What arrays are called, with or without a split's name before or after it: train_images, x_test."""


@dataclass(frozen=True, eq=False)
class ArrayItems(Items):
    """Images in memory, uint8 (N, C, H, W); one channel becomes three."""

    images: Tensor

    def read_batch(self, numbers: np.ndarray, image_size: int, levels: Levels | None) -> ReadPart:
        images = self.images[torch.from_numpy(numbers)]
        if images.shape[-2:] != (image_size, image_size):
            images = TF.resize(images, [image_size, image_size], antialias=True)
        return (images.repeat(1, 3, 1, 1) if images.shape[1] == 1 else images), []

    def name(self, number: int) -> str:
        return str(number)

    def hash(self, number: int) -> ImageHash:
        return hash_of_pixels(self.images[number].numpy())


@dataclass(frozen=True, eq=False)
class NpzItems(Items):
    """The images of an array in a file, which is read when it is first needed. All types but uint8 count as deep."""

    file: Path
    array: str
    n_labels: int

    @cached_property
    def images(self) -> np.ndarray:
        """(N, H, W) or (N, H, W, C) with C above 1. DataError for anything else."""
        images = _array(self.file, self.array)
        axis = channels_axis(images.shape, first=3)
        is_grey = images.ndim == 3 and 0 not in images.shape[1:]
        if images.shape[:1] != (self.n_labels,) or images.dtype.kind not in "uif" or not (axis or is_grey):
            raise DataError(
                f"{self.array} of {self.file} must hold numbers, best uint8, of the shape (N, H, W), (N, H, W, C) or "
                f"(N, C, H, W), one image for each of the {self.n_labels} labels, with 1, 3 or fewer channels than "
                f"pixels a side, at most {MOST_CHANNELS}, got {images.dtype} of {images.shape}"
            )
        images = images.transpose(0, 2, 3, 1) if axis == 1 else images
        return images[..., 0] if images.ndim == 4 and images.shape[3] == 1 else images

    @property
    def n_channels(self) -> int:  # type: ignore[override]
        return self.images.shape[3] if self.images.ndim == 4 else 3

    def name(self, number: int) -> str:
        return f"number {number} of {self.array} in {self.file}"

    def read(self, number: int, image_size: int, levels: Levels | None) -> Tensor:
        values = np.ascontiguousarray(self.images[number])
        if values.dtype != np.uint8:
            if levels is None and np.isfinite(values).all():
                raise DataError(f"it is {values.dtype}, and no levels say what is black and white")
            values = to_8_bits(values.astype(np.float64), levels or (0, 1))
        if values.ndim == 3 and values.shape[2] not in CHANNELS:
            channels = (fitted(Image.fromarray(channel), image_size)[:1] for channel in np.moveaxis(values, 2, 0))
            return torch.cat(list(channels))
        return fitted(Image.fromarray(values), image_size)

    def deep(self, number: int) -> Deep | None:
        values = self.images[number]
        if values.dtype == np.uint8 or not np.isfinite(values).all():
            return None
        return Deep(self.name(number), values.dtype.kind == "f", float(values.min()), float(values.max()))

    def hash(self, number: int) -> ImageHash:
        pixels = self.images[number]
        return hash_of_pixels(pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1))


def npz_source(file: Path, skip_broken: bool = False) -> Source:
    """Arrays `images` and `labels`, or such for each split: `train_images`, `train_labels`, `test_images`, ...

    Arrays `x` and `y` are the same. images (N, H, W) or (N, H, W, C); labels (N,) or (N, 1), numbers or names, which
    are sorted as text, as the classes of a folder are. Images come class by class, each class in the order of the
    array. Labels (N, classes) of 0 and 1 are several of an image; their classes are named by the number of the column,
    and images keep their order. The images of a test split are not read before they are asked for.
    DataError for files that cannot be used.
    """
    parts = _parts(file)
    arrays = {part: _array(file, name) for part, (_, name) in parts.items()}
    is_matrix = is_multi_label(arrays["train"]) and arrays["train"].shape[1] > 1
    if is_matrix:
        class_names = tuple(map(str, range(arrays["train"].shape[1])))
    else:
        class_names = tuple(sorted(set(_class_labels(arrays["train"], f"{parts['train'][1]} of {file}"))))
        check_two_classes(class_names, file)

    def pool(part: str) -> Pool:
        images, name = parts[part]
        where, labels = f"{name} of {file}", arrays[part]
        if is_matrix:
            if labels.shape[1:] != (len(class_names),):
                raise DataError(f"{where} must have the shape (N, {len(class_names)}), got {labels.shape}")
            check_truth_values(labels, where)
            labels, order = labels.astype(bool), np.arange(len(labels))
        else:
            names = [[name] for name in _class_labels(labels, where)]
            labels = labels_of(names, class_names, f"the split {part} of {file}")
            order = labels.argsort(stable=True)
        return Pool(NpzItems(file, images, len(labels)), labels[order], skip_broken, numbers=order)

    train = pool("train")
    facts = (multi_label_fact(train.labels),) if is_matrix else ()
    val, test = pool("val") if "val" in parts else None, partial(pool, "test") if "test" in parts else None
    return Source(str(file), class_names, train, val, test, facts=facts)


def _parts(file: Path) -> Mapping[str, tuple[str, str]]:
    """By split, the names of its arrays of images and of labels. DataError where one of the two is missing."""
    names = list(_opened(file, lambda arrays: arrays.files))
    found: dict[str, dict[str, str]] = {}
    for name in names:
        words = [word for word in re.split(r"[\W_]+", name.casefold()) if word]
        kinds = [kind for kind, known in (("images", IMAGES), ("labels", LABELS)) if set(words) & set(known)]
        if len(kinds) == 1:
            rest = " ".join(word for word in words if word not in (*IMAGES, *LABELS))
            role = split_role(rest, f"the array {name!r} of {file}") if rest else "train"
            if found.setdefault(role, {}).setdefault(kinds[0], name) != name:
                raise DataError(f"{file} has two arrays of {role} {kinds[0]}, {found[role][kinds[0]]} and {name}")
    if "train" not in found or any(len(arrays) < 2 for arrays in found.values()):
        raise DataError(
            f"{file} must hold the arrays images and labels, or train_images and train_labels (and val_, test_), got "
            f"{', '.join(names) or 'none'}"
        )
    return {role: (arrays["images"], arrays["labels"]) for role, arrays in found.items()}


def _array(file: Path, name: str) -> np.ndarray:
    return np.asarray(_opened(file, lambda arrays: arrays[name]))


def _opened(file: Path, ask: Callable[[Any], Any]) -> Any:
    """What `ask` returns for the opened file. Nothing in it can run code."""
    try:
        if not zipfile.is_zipfile(file):
            raise ValueError("it is no .npz file")
        with np.load(file, allow_pickle=False) as arrays:
            return ask(arrays)
    except Exception as error:
        # A damaged file makes NumPy and zipfile raise exceptions of any kind.
        raise DataError(
            f"cannot read the arrays of {file} ({reason_of(error)}); save them anew by numpy.savez"
        ) from None


def _class_labels(labels: np.ndarray, where: str) -> list[str]:
    """The name of each label's class."""
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1 or not len(labels):
        raise DataError(f"{where} must have the shape (N,), (N, 1) or (N, classes), not empty, got {labels.shape}")
    names = [class_name(label, where) for label in labels.tolist()]
    if None in names:
        raise DataError(f"{where} has no label for number {names.index(None)}: remove it and its image")
    return [str(name) for name in names]


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
    if not all((folder / part).is_dir() for part in ("train", "val")):
        raise DataError(
            f"{folder} must hold the folders train and val of imagenet, which cannot be downloaded; give the folder "
            "around imagenet by --data-root"
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
    except (RuntimeError, OSError) as error:
        raise DataError(
            f"{name} is not in {root} ({reason_of(error)}); give its place with --data-root, or use --download"
        ) from None


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


def from_dataset(
    dataset: Dataset[Any] | Iterable[Any],
    *,
    image_size: int,
    levels: Levels | None = None,
    on_read: OnRead | None = None,
) -> LabelledImages:
    """The images of a Dataset, such as torchvision's, as `hba.data.SearchData` takes them.

    dataset: of pairs (image, label), each read once; random transforms are drawn once. An image is PIL's, or a tensor
    (C, H, W) or array (H, W, C), uint8 or floating point in [0, 1]; it is fitted as the images of a folder are: the
    shorter side is resized to image_size pixels, and the centre cropped. levels: those that become black and white in
    PIL images of more than 8 bits. on_read: called with the numbers of images that are read and of all, where the
    dataset has a length. DataError for anything but such pairs.
    """
    images: list[Tensor] = []
    labels: list[int] = []
    for number, sample in enumerate(_samples(dataset)):
        if not (isinstance(sample, tuple | list) and len(sample) == 2):
            kind = type(sample).__name__
            raise DataError(f"the dataset must have pairs (image, label), but number {number} is of the type {kind}")
        image, label = sample
        try:
            images.append(fitted(_picture(image), image_size, levels))
        except ValueError as error:
            raise DataError(f"number {number} of the dataset: {error}") from None
        label = label.item() if isinstance(label, Tensor | np.generic | np.ndarray) and label.ndim == 0 else label
        if isinstance(label, bool) or not isinstance(label, int) or label < 0:
            raise DataError(f"labels must be whole numbers from 0, but number {number} has {label}")
        labels.append(label)
        if on_read is not None and isinstance(dataset, Sized):
            on_read(number + 1, len(dataset))
    if not images:
        raise DataError("the dataset is empty: there must be at least one image")
    return LabelledImages(torch.stack(images), torch.tensor(labels))


def _samples(dataset: Any) -> Iterator[Any]:
    """In the order of the indices where there is a length, else of its own iterator."""
    if hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__"):
        return (dataset[index] for index in range(len(dataset)))
    try:
        return iter(dataset)
    except TypeError:
        raise DataError(f"a Dataset of pairs (image, label) is needed, got {type(dataset).__name__}") from None


def _picture(image: Any) -> Image.Image:
    if isinstance(image, Image.Image):
        return image
    pixels = checked_images((image if isinstance(image, Tensor) else np.asarray(image))[None])[0]
    if len(pixels) not in CHANNELS:
        raise DataError(f"it has {len(pixels)} channels; give images of other than 1 or 3 as hba.data.LabelledImages")
    picture: Image.Image = TF.to_pil_image(pixels)
    return picture
