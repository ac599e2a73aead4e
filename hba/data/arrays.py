"""Images in arrays: .npz files, torch Datasets, and the named data sets of scikit-learn
and torchvision.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor
from torch.utils.data import Dataset
from torchvision.transforms.v2 import functional as TF

from hba.data.folder import folder_source
from hba.data.images import (
    CHANNELS,
    SHAPES,
    LabelledImages,
    OnRead,
    channels_axis,
    checked_images,
)
from hba.data.labels import class_name, split_role
from hba.data.leakage import ImageHash, hash_of_pixels
from hba.data.masks import BLACK_AND_WHITE, fitted_masks, is_mask, numbers_of
from hba.data.pool import Items, Part, Pool, Source, source_of
from hba.data.reading import (
    Levels,
    fitted,
    fitted_whole,
    is_deep,
    resized_mask,
    to_8_bits,
)
from hba.errors import DataError
from hba.tasks import task_of
from hba.utils.files import reason_of
from hba.utils.settings import whole_number

NATIVE_IMAGE_SIZES: Mapping[str, int] = {
    "digits": 16, "cifar10": 32, "cifar100": 32, "svhn": 32, "svhn-full": 32,
    "fashionmnist": 28, "imagenet": 224,
}  # fmt: skip
"""Side in pixels of the images of each data set. Digits are enlarged to it."""
DATASET_NAMES = tuple(NATIVE_IMAGE_SIZES)
"""Names of the data sets that `hba.search` and `hba.evaluate` accept."""

TORCHVISION: Mapping[
    str, tuple[str, Sequence[Mapping[str, Any]], Mapping[str, Any]]
] = {
    "cifar10": ("CIFAR10", [{"train": True}], {"train": False}),
    "cifar100": ("CIFAR100", [{"train": True}], {"train": False}),
    "fashionmnist": ("FashionMNIST", [{"train": True}], {"train": False}),
    "svhn": ("SVHN", [{"split": "train"}], {"split": "test"}),
    "svhn-full": ("SVHN", [{"split": "train"}, {"split": "extra"}], {"split": "test"}),
}
"""torchvision's class, with arguments for training and testing. svhn: 73,257 core
images; svhn-full: 531,131 more.
"""

ARRAY_NAME = re.compile(r"(?:(\w+)_)?(images|labels|x|y)(?:_(\w+))?", re.IGNORECASE)
"""Accepted names of arrays, with or without the name of a split before or after:
train_images, x_test.
"""


def fitted_channels(pixels: np.ndarray, image_size: int) -> Tensor:
    """Fit uint8 (C, H, W) to a square, each channel as Pillow fits a grey image."""
    return torch.cat(
        [
            fitted(Image.fromarray(np.ascontiguousarray(channel)), image_size)[:1]
            for channel in pixels
        ]
    )


def resized(pixels: np.ndarray, image_size: int) -> Tensor:
    """Resize uint8 (C, H, W) as torchvision resizes a tensor."""
    return TF.resize(torch.from_numpy(pixels), [image_size, image_size], antialias=True)


@dataclass(frozen=True, eq=False)
class ArrayItems(Items):
    """Images of an array (N, C, H, W). One channel becomes three."""

    load: Callable[[], np.ndarray]
    """Returns the array; called when it is first needed."""
    place: str
    """Where the images are, for messages."""
    resize: Callable[[np.ndarray, int], Tensor]
    """Called for images that do not have the requested size."""
    hashed_by = "pixels"

    @cached_property
    def images(self) -> np.ndarray:
        return self.load()

    @property
    def n_channels(self) -> int:
        return 3 if self.images.shape[1] == 1 else self.images.shape[1]

    def name(self, number: int) -> str:
        return f"number {number} of {self.place}"

    def read(self, number: int, image_size: int, levels: Levels | None) -> Tensor:
        pixels = to_8_bits(self.images[number], levels)
        is_fit = pixels.shape[1:] == (image_size, image_size)
        return torch.tensor(pixels) if is_fit else self.resize(pixels, image_size)

    def side(self, number: int) -> int:
        return min(self.images.shape[2:])

    def deep(self, number: int) -> np.ndarray | None:
        return None if self.images.dtype == np.uint8 else self.images[number]

    def hash(self, number: int) -> ImageHash:
        return hash_of_pixels(self.images[number])


def npz_source(file: Path) -> Source:
    """The images and labels of an .npz file as a source.

    The file has arrays `images` and `labels`, or a pair for each split: `train_images`,
    `train_labels`, `test_images`, ... `x` and `y` mean the same. Images have the shape
    (N, H, W) or (N, H, W, C). Labels have the shape (N,) or (N, 1), and are numbers or
    names, which are sorted as text; or (N, classes) of 0 and 1 for several labels per
    image, whose classes are named by the number of the column. Images are ordered as in
    source_of.

    Raises:
        DataError: For unusable files.
    """
    images = dict[str, str]()
    labels = dict[str, Any]()
    array_names = _read_arrays(file)
    for name in array_names:
        if match := ARRAY_NAME.fullmatch(name):
            before, content, after = match.groups()
            role = split_role(before or after or "train", file)
            if content.casefold() in ("images", "x"):
                images[role] = name
            else:
                labels[role] = _read_arrays(file, name)
    if (
        "train" not in labels
        or set(images) != set(labels)
        or len(images) + len(labels) != len(array_names)
    ):
        names = (
            "images and labels (or x and y), or a pair for each split (train_images,"
            " x_test, y_test, ...)"
        )
        raise DataError(
            f"{file} must hold the arrays {names}, and no others, got"
            f" {', '.join(array_names) or 'none'}"
        )
    columns = labels["train"].shape[1:] if labels["train"].shape[1:] != (1,) else ()

    def read_split(role: str) -> Part:
        split_labels = labels[role]
        place = f"the {role} labels of {file}"
        if not (
            len(columns) < 2 and split_labels.shape[1:] in (columns, columns or (1,))
        ):
            raise DataError(
                f"{place} must have the shape (N,), (N, 1) or (N, classes), got"
                f" {split_labels.shape}"
            )
        if columns and not np.isin(split_labels, (0, 1)).all():
            raise DataError(f"{place} must hold 0 and 1 only, a column for each class")
        if columns:
            names = [tuple(map(str, np.flatnonzero(row))) for row in split_labels]
        else:
            names = [
                (class_name(label, f"number {number} of {place}"),)
                for number, label in enumerate(split_labels.ravel().tolist())
            ]
        load = partial(_images, file, images[role], len(split_labels))
        items = ArrayItems(load, f"{images[role]} in {file}", fitted_channels)
        numbers = tuple(map(str, range(*columns))) if columns else ()
        return Part(items, names, class_names=numbers, is_multi=bool(columns))

    return source_of(file, {role: partial(read_split, role) for role in images})


def _images(file: Path, name: str, n_labels: int) -> np.ndarray:
    """The named array as (N, C, H, W). DataError unless it holds n_labels images."""
    array = _read_arrays(file, name)
    images = array[..., None] if array.ndim == 3 else array
    axis = channels_axis(images.shape)
    if axis is None or len(images) != n_labels or images.dtype.kind not in "uif":
        rule = (
            f"numbers, preferably uint8, of the shape {SHAPES}, one image for each of"
            f" the {n_labels} labels"
        )
        raise DataError(
            f"{name} of {file} must hold {rule}, got {array.dtype} of {array.shape}"
        )
    return images.transpose(0, 3, 1, 2) if axis == 3 else images


def _read_arrays(file: Path, name: str | None = None) -> Any:
    """The named array, or the names of all arrays. No code in the file is run."""
    try:
        with np.load(file, allow_pickle=False) as arrays:
            return arrays.files if name is None else np.asarray(arrays[name])
    except Exception as error:
        # A damaged file makes NumPy and zipfile raise exceptions of any kind.
        raise DataError(
            f"cannot read the arrays of {file} ({reason_of(error)}); use numpy.savez"
        ) from None


def in_memory(images: np.ndarray, labels: np.ndarray, place: str) -> Pool:
    """Images in memory as a pool.

    Args:
        images: uint8 (N, C, H, W).
        labels: Of a task.
        place: See ArrayItems.
    """
    dtype, _ = task_of(labels).stored(len(labels), 0, 0)
    return Pool(
        ArrayItems(lambda: images, place, resized),
        labels.astype(dtype),
        np.arange(len(labels)),
    )


def builtin_source(name: str, root: Path, download: bool) -> Source:
    """The data set of a name.

    Args:
        name: One of DATASET_NAMES, exactly.
        root: Folder that holds torchvision's files and the folder of ImageNet.
        download: Whether files that are not there are downloaded.

    Raises:
        DataError: If the images are not there.
    """
    if name == "digits":
        # Part of scikit-learn: 1,797 handwritten digits, 8x8 in 17 grey levels. 700 are
        # not test images.
        from sklearn.datasets import load_digits

        digits = load_digits()
        pool = in_memory(
            np.round(digits.images * (255 / 16)).astype(np.uint8)[:, None],
            digits.target,
            name,
        )
        return Source(name, tuple(map(str, range(10))), pool, test_size=1097)
    if name != "imagenet":
        _, training, testing = TORCHVISION[name]
        pool, class_names = _torchvision_pool(name, training, root, download)
        return Source(
            name,
            class_names,
            pool,
            test=lambda: _torchvision_pool(name, [testing], root, download)[0],
        )
    # Errors are reported on the validation images of ILSVRC 2012, so no search may see
    # them.
    splits = {"train": root / name / "train", "test": root / name / "val"}
    if not all(folder.is_dir() for folder in splits.values()):
        raise DataError(
            f"{root / name} must hold the folders train and val; set --data-root to the"
            " folder around it"
        )
    return replace(folder_source(root / name, splits), name=name)


def _torchvision_pool(
    name: str, arguments: Sequence[Mapping[str, Any]], root: Path, download: bool
) -> tuple[Pool, tuple[str, ...]]:
    """The concatenated images of torchvision data sets, and the class names of the
    first.
    """
    import torchvision.datasets

    dataset_class = getattr(torchvision.datasets, TORCHVISION[name][0])
    try:
        datasets = [
            dataset_class(str(root), download=download, **options)
            for options in arguments
        ]
        if dataset_class is torchvision.datasets.SVHN:
            # For all other data sets, torchvision checks the test files when it opens
            # the training files.
            filename = dataset_class.split_list["test"][1]
            if not (download or (root / filename).is_file()):
                raise RuntimeError(f"there is no {filename}")
    except (RuntimeError, OSError) as error:
        raise DataError(
            f"{name} is not in {root} ({reason_of(error)}); use --data-root, or"
            " --download"
        ) from None
    images = np.concatenate([np.asarray(dataset.data) for dataset in datasets])
    images = images[:, None] if images.ndim == 3 else images
    images = images.transpose(0, 3, 1, 2) if images.shape[-1] == 3 else images
    labels = np.concatenate(
        [
            np.asarray(
                dataset.targets if hasattr(dataset, "targets") else dataset.labels
            )
            for dataset in datasets
        ]
    )
    class_names = getattr(datasets[0], "classes", None) or map(
        str, range(labels.max() + 1)
    )
    return in_memory(images, labels, name), tuple(class_names)


def from_dataset(
    dataset: Dataset[Any] | Sequence[Any],
    *,
    image_size: int,
    on_read: OnRead | None = None,
) -> LabelledImages:
    """Read the images of a Dataset, such as torchvision's, for `hba.data.SearchData`.
    Numbers as labels are not standardized.

    Each image is read once, so random transforms are drawn once. As for the images of a
    folder, a PIL image is turned upright by its EXIF data, the shorter side is resized
    to image_size pixels, and the centre is cropped. With masks, the longer side is
    resized, and the rest is black and ignored.

    Args:
        dataset: A Dataset with a length, or a list, of pairs (image, label). An image
            is a PIL image of at most 8 bits, a tensor (C, H, W) or an array (H, W, C),
            uint8 or floating point in [0, 1]. A label is a whole number, a mask (H, W)
            of numbers from 0 to 255, or a number as floating point.
        image_size: Side in pixels.
        on_read: See OnRead.

    Raises:
        DataError: For anything else.
    """
    images, labels = read_pairs(dataset, image_size, on_read)
    return LabelledImages(images, torch.from_numpy(labels))


def read_pairs(
    dataset: Any, image_size: int, on_read: OnRead | None
) -> tuple[Tensor, np.ndarray]:
    """The same as images uint8 (N, C, S, S) and labels: int64 or float64 (N,), or masks
    uint8 (N, S, S).
    """
    if not (
        hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__") and len(dataset)
    ):
        rule = (
            "a list or Dataset with __len__ and __getitem__ of at least one pair"
            " (image, label)"
        )
        remedy = (
            "for a DataLoader, give its .dataset; without a length, give list(dataset)"
        )
        raise DataError(f"data must be {rule}, got {type(dataset).__name__}; {remedy}")
    images: list[Tensor] = []
    labels: list[Any] = []
    values = set[int]()
    for number in range(len(dataset)):
        try:
            image, label = dataset[number]
            if is_mask(label):
                upright = picture(image)
                images.append(fitted_whole(upright, image_size))
                mask = numbers_of(label, upright.size)
                values.update(np.unique(mask).tolist())
                labels.append(resized_mask(mask, image_size))
            else:
                images.append(fitted(picture(image), image_size))
                labels.append(_class_or_number(label))
        except (TypeError, ValueError, OSError) as error:
            problem = (
                f"the dataset must have pairs (image, label), but item {number} is not"
                " such a pair"
            )
            raise DataError(f"{problem}: {reason_of(error)}") from None
        if on_read is not None:
            on_read(number + 1, len(dataset))
    kinds = {type(label) for label in labels}
    if len(kinds) > 1:
        other = next(
            number
            for number, label in enumerate(labels)
            if type(label) is not type(labels[0])
        )
        raise DataError(
            "all labels must be whole numbers, or all floating point, or all masks, but"
            f" item {other} is of another kind than the first"
        )
    if kinds == {np.ndarray}:
        masks = fitted_masks(labels, image_size, values == BLACK_AND_WHITE)
        return torch.stack(images), masks
    if kinds == {int} and min(labels) < 0:
        raise DataError(f"labels must be whole numbers from 0, got {min(labels)}")
    return torch.stack(images), np.array(labels)


def _class_or_number(label: Any) -> int | float:
    """A whole number as int, and floating point as float."""
    dtype = str(getattr(label, "dtype", type(label)))
    if "float" in dtype and not getattr(label, "shape", ()):
        return float(label)
    return whole_number("the label", label)


def picture(image: Any) -> Image.Image:
    if isinstance(image, Image.Image):
        if is_deep(image):
            raise DataError("it has more than 8 bits; scale it to 8 bits")
        return ImageOps.exif_transpose(image)
    pixels = checked_images(
        (image if isinstance(image, Tensor) else np.asarray(image))[None]
    )[0]
    if len(pixels) not in CHANNELS:
        raise DataError(
            f"images must have 1 or 3 channels, got {len(pixels)}; give others as"
            " hba.data.LabelledImages"
        )
    return TF.to_pil_image(pixels)
