"""Looks at a data set before any training: number and size of images, classes, splits,
and copies of images.
"""

import contextlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

import numpy as np
import torch
from torch.utils.data import Dataset

from hba.data.arrays import DATASET_NAMES, TORCHVISION, in_memory, picture
from hba.data.config import DataConfig, format_of
from hba.data.formats import find_source
from hba.data.images import CHANNELS, EvaluationData, LazySplit, SearchData
from hba.data.leakage import size_of
from hba.data.load import AnyDataset, dataset_source, is_pair
from hba.data.loader import StreamedImages
from hba.data.pool import FileItems, Pool
from hba.data.reading import printable
from hba.data.splits import split
from hba.errors import DataError
from hba.tasks import ImageTask, task_of
from hba.utils.text import counted, first_of

AnyData = (
    SearchData | EvaluationData | AnyDataset | tuple[AnyDataset, AnyDataset] | None
)
Copies = tuple[str, str, Literal["two classes", "two splits"]]
"""The names of two images with equal content, and what they are in."""
MOST_MEASURED = 300
"""Largest number of training images whose size and colour are measured."""
MOST_COPIES = 20
"""Pairs of names that are kept."""
UNEVEN = 2
"""Classes are uneven if the largest has more than this many times the images of the
smallest.
"""
SMALL = 32
"""Side in pixels at which colours and copies are compared."""


@dataclass(frozen=True)
class Look:
    """A summary of a data set before any training."""

    name: str
    class_names: tuple[str, ...]
    """By label."""
    n_train: int
    """Number of images for training and validation."""
    n_val: int
    """Number of those that are in the data's own validation split."""
    n_test: int | None
    """None if a test split is unknown, or would have to be read."""
    has_own_test: bool
    """False if test images are drawn from the others."""
    counts: tuple[int, ...]
    """Number of images of each class among n_train."""
    task: ImageTask
    """What the labels mean."""
    side: int
    """Median of the shorter sides in pixels."""
    is_grey: bool
    """Whether no training image has a colour."""
    n_channels: int = 3
    """Of the images as networks get them."""
    numbers: tuple[float, float] | None = None
    """The smallest and the largest number, if labels are numbers."""
    copies: tuple[Copies, ...] = ()
    """The first 20 of n_copies."""
    n_copies: int = 0
    """Number of pairs of copies."""

    @property
    def sentences(self) -> tuple[str, ...]:
        """Sentences for the user: size, balance, test split and copies."""
        n_images = self.n_train + (self.n_test or 0)
        image_noun = "grey image" if self.is_grey else "image"
        size = f"{self.side:,} pixels on the shorter side (median)"
        noun = self.task.noun
        classes = f"{len(self.class_names)} {noun}"
        if self.numbers is not None:
            low, high = self.numbers
            target = printable(self.class_names[0])
            classes = f"numbers of {target!r} from {low:.4g} to {high:.4g}"
        sentences = [f"{counted(n_images, image_noun)} with {classes}, {size}"]
        fewest = min(self.counts)
        most = max(self.counts)
        if most > UNEVEN * fewest:
            smallest, largest = (
                printable(self.class_names[self.counts.index(count)])
                for count in (fewest, most)
            )
            sentences.append(
                f"Uneven {noun}: {fewest:,} of {smallest}, but {most:,} of"
                f" {largest}, without test images"
            )
        if self.has_own_test:
            sentences.append(
                "The data have a test split of their"
                f" own{f', {self.n_test:,} images' if self.n_test else ''}"
            )
        elif self.n_test:
            sentences.append(
                f"The data have no test split, so {self.n_test:,} of the images are"
                " held back as one"
            )
        if self.copies:
            root = f"{self.name}/"
            pairs = [
                f"{' and '.join(printable(name.removeprefix(root)) for name in names)}"
                f" (in {why})"
                for *names, why in self.copies
            ]
            # first_of only counts those that were not kept.
            not_kept = [""] * (self.n_copies - len(pairs))
            shown = first_of([*pairs, *not_kept])
            sentences.append(
                f"{counted(self.n_copies, 'pair')} of copies, of which you should"
                f" remove one: {shown}"
            )
        return tuple(sentences)


def look(config: DataConfig, data: AnyData = None) -> Look:
    """Look at a data set before any training.

    Size and colour are those of at most 300 training images, evenly spaced. Test images
    in files are hashed, and decoded only if they seem to be copies; those in arrays on
    disk are not read. Data sets by name are not searched for copies.

    Args:
        config: Which images are used.
        data: Images in memory, instead of config.data.

    Raises:
        DataError: For unusable data.
    """
    if isinstance(data, SearchData | EvaluationData):
        name = data.name
        class_names = data.class_names
        scale = data.scale
        has_own_test = isinstance(data, EvaluationData)
        pools = {
            role: _pool_of(images)
            for role, images in data.parts.items()
            if not isinstance(images, LazySplit)
        }
        n_test = data.test_images if isinstance(data, SearchData) else data.n_test
    else:
        source = (
            find_source(config) if data is None else dataset_source(data, config, None)
        )
        splits = split(source, None, None, config.split_seed)
        is_single = not (data is None or is_pair(data))
        name = source.name
        class_names = source.class_names
        scale = source.scale
        has_own_test = bool(source.test) and not is_single
        pools = {"train": splits.available}
        if source.val:
            pools["val"] = source.val
        # Opening a test split of torchvision reads its images.
        if not (is_single or (data is None and config.data in TORCHVISION)):
            pools["test"] = splits.test()
        n_test = len(pools["test"]) if "test" in pools else None
    labels = np.concatenate(
        [pool.labels for role, pool in pools.items() if role != "test"]
    )
    train = pools["train"]
    n_val = len(labels) - len(train)
    task = task_of(labels)
    counts = task.counts(labels, len(class_names))
    places = np.linspace(0, len(train) - 1, min(len(train), MOST_MEASURED)).astype(int)
    sides = [
        side
        for number in train.numbers[places].tolist()
        if (side := _read_or_none(train.items.side, number))
    ]
    if isinstance(data, tuple | list | Dataset):
        # In the pool, they already have the requested size.
        raw: Any = data[0] if is_pair(data) else data
        sides = [
            min(picture(raw[number][0]).size)
            for number in train.numbers[places].tolist()
        ]
    if not sides:
        raise DataError(
            f"none of {counted(len(places), 'image')} of {name} can be read; mend or"
            " remove them"
        )
    small_images = (
        _read_small(train, number) for number in train.numbers[places].tolist()
    )
    is_grey = all(
        image is None or (len(image) in CHANNELS and (image == image[0]).all())
        for image in small_images
    )
    if data is None and format_of(config.data) == "npz" and has_own_test:
        del pools["test"]
    copies = [] if data is None and config.data in DATASET_NAMES else _copies(pools)
    return Look(
        name=name,
        class_names=tuple(class_names),
        n_train=len(labels),
        n_val=n_val,
        n_test=n_test,
        has_own_test=has_own_test,
        counts=tuple(counts.tolist()),
        task=task,
        side=round(median(sides)),
        is_grey=is_grey,
        n_channels=train.items.n_channels,
        numbers=(
            (float(scale.numbers(labels.min())), float(scale.numbers(labels.max())))
            if task.has_numbers
            else None
        ),
        copies=tuple(copies[:MOST_COPIES]),
        n_copies=len(copies),
    )


def _pool_of(images: Any) -> Pool:
    if isinstance(images, StreamedImages):
        return images.pool
    return in_memory(
        images.images.cpu().numpy(), images.labels.cpu().numpy(), "the images in memory"
    )


def _read_or_none(read: Callable[..., Any], *arguments: Any) -> Any:
    """What the function returns; None for an image that cannot be read."""
    with contextlib.suppress(DataError):
        return read(*arguments)
    return None


def _read_small(pool: Pool, number: int) -> Any:
    return _read_or_none(pool.items.read, number, SMALL, pool.levels)


def _size(pool: Pool, number: int) -> int | None:
    """The size of a file in bytes, or a hash of any other image. None for a file that
    has disappeared.
    """
    items = pool.items
    return (
        size_of(items.file(number))
        if isinstance(items, FileItems)
        else items.hash(number).content()
    )


def _classes_of(pool: Pool) -> list[Any]:
    """The label of each image; None if labels are masks or numbers, which are no
    classes.
    """
    task = task_of(pool.labels)
    if task.has_masks or task.has_numbers:
        return [None] * len(pool)
    labels: list[Any] = pool.labels.tolist()
    return labels


def _copies(pools: Mapping[str, Pool]) -> list[Copies]:
    """Pairs of copies in two classes or two splits. Contents are hashed only if sizes
    agree.
    """
    images = [
        (pool, number, role, label)
        for role, pool in pools.items()
        for number, label in zip(pool.numbers.tolist(), _classes_of(pool), strict=True)
    ]
    sizes = [_size(*image[:2]) for image in images]
    groups = dict[Any, list[Any]]()
    count = Counter(sizes)
    copies = list[Copies]()
    for image, size in zip(images, sizes, strict=True):
        pool, number, *_ = image
        if (
            size is not None
            and count[size] > 1
            and (content := pool.items.hash(number).content()) is not None
        ):
            groups.setdefault((size, content), []).append(image)
    for (pool, number, role, label), *duplicates in groups.values():
        for other_pool, other, other_role, other_label in duplicates:
            if (role, label) == (other_role, other_label):
                continue
            # Hashes are short, and broken files may be equal without being copies of an
            # image.
            small = _read_small(pool, number)
            other_small = _read_small(other_pool, other)
            if (
                small is not None
                and other_small is not None
                and torch.equal(small, other_small)
            ):
                names = pool.items.name(number), other_pool.items.name(other)
                copies.append(
                    (*names, "two splits" if label == other_label else "two classes")
                )
    return copies
