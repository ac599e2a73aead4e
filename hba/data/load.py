"""Load the data of a search or an evaluation from a data set's name, a folder, a file
or a torch Dataset.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from hba.data.arrays import (
    DATASET_NAMES,
    TORCHVISION,
    in_memory,
    read_pairs,
)
from hba.data.cache import Prepared, check_out, write_cache
from hba.data.config import (
    DataConfig,
    resolved_data,
)
from hba.data.formats import find_source
from hba.data.images import (
    UNSCALED,
    EvaluationData,
    Images,
    LabelledImages,
    LazySplit,
    OnRead,
    SearchData,
)
from hba.data.labels import composed, numbered, warn_of_names
from hba.data.loader import StreamedImages
from hba.data.pool import Pool, Source, scale_of, too_many_broken
from hba.data.splits import split, take_training
from hba.errors import DataError, SettingsError
from hba.tasks import task_of
from hba.utils.files import run_lock
from hba.utils.text import counted

STREAM_ABOVE_BYTES = 8 * 10**9
AnyDataset = Dataset[Any] | Sequence[Any]
"""A torch Dataset, or a list, of pairs (image, label) as `hba.data.from_dataset` takes
them.
"""
READ_SETTINGS = ("data", "image_size", "train_size", "val_size", "split_seed")
"""Fields of DataConfig that apply to a torch Dataset; the others are about files."""
IDLE = ("train_size", "val_size", "stream", "workers", "group")
"""Fields of DataConfig that have no effect on prepared images."""


def check_data(
    data: object, data_type: type[SearchData] | type[EvaluationData]
) -> None:
    """SettingsError for data of another type than a search or an evaluation takes."""
    if not (
        data is None or is_dataset(data) or isinstance(data, str | Path | data_type)
    ):
        kinds = (
            "a dataset's name, a folder or file, a Dataset or list of pairs (image,"
            " label) (two for an evaluation)"
        )
        raise SettingsError(
            f"data must be {kinds}, or hba.data.{data_type.__name__}, got"
            f" {type(data).__name__}"
        )


def load_search_data(
    config: DataConfig, on_read: OnRead | None = None, dataset: AnyDataset | None = None
) -> SearchData:
    """Load training and validation images. Files of the test split stay closed.

    Args:
        config: Which images are used.
        on_read: As OnRead, for each split.
        dataset: Split instead of config.data, without a test split.

    Raises:
        DataError: For data that cannot be used.
    """
    if is_pair(dataset):
        raise DataError(
            "a search takes one dataset, got a pair: give the training set only, which"
            " it splits"
        )
    source = (
        find_source(config)
        if dataset is None
        else dataset_source(dataset, config, on_read)
    )
    splits = split(source, config.train_size, config.val_size, config.split_seed)
    train = splits.train
    val = splits.val
    splits.available.check_levels()
    if dataset is not None:
        n_test = None
    elif source.test is not None:
        n_test = 0
    else:
        n_test = len(splits.test())
    images = _read(train, config, on_read), _read(val, config, on_read)
    lost = [item for split_images in images for item in split_images.left_out]
    if source.val is None and len(lost) > train.most_broken:
        # An evaluation, which trains on both, would raise this error.
        raise too_many_broken(lost, len(train) + len(val), len(train) + len(val))
    val_unused = source.val.unused if source.val else ()
    not_images = (*source.train.unused, *val_unused)
    details: dict[str, Any] = {
        "not_images": not_images,
        "facts": source.facts,
        "scale": source.scale,
        "has_own_val": source.val is not None,
    }
    if config.data not in DATASET_NAMES:
        details |= {"listing": (train, val), "train_pool": train}
    return SearchData(
        source.name, source.class_names, *images, test_images=n_test, **details
    )


def load_evaluation_data(
    config: DataConfig,
    on_read: OnRead | None = None,
    dataset: tuple[AnyDataset, AnyDataset] | None = None,
    *,
    with_val: bool = False,
) -> EvaluationData:
    """Load the training set, or train_size of it, and the test split.

    The test split has the images that no search saw. Its existence is checked now; it
    is read when it is first used.

    Args:
        config: Which images are used.
        on_read: As OnRead, for training images.
        dataset: A pair (train, test) instead of config.data.
        with_val: Also train on the source's own validation split.

    Raises:
        DataError: For data that cannot be used, and with_val if its images are
            streamed.
    """
    if not (dataset is None or is_pair(dataset)):
        raise DataError(
            "an evaluation takes a pair (train, test) of datasets, got a single"
            f" {type(dataset).__name__}"
        )
    source = (
        find_source(config)
        if dataset is None
        else dataset_source(dataset, config, on_read)
    )
    splits = split(source, None, None, config.split_seed)
    train = take_training(
        source, splits.available, config.train_size, config.split_seed
    )
    splits.available.check_levels()
    val_unused = source.val.unused if with_val and source.val is not None else ()
    facts = source.facts
    if source.val is not None and not with_val:
        left = counted(len(source.val), "validation image")
        facts = (*facts, f"the {left} of the data are not used (--with-val)")
    details: dict[str, Any] = {
        "not_images": (*source.train.unused, *val_unused),
        "facts": facts,
        "scale": source.scale,
    }
    if config.data in TORCHVISION:
        # Opening it reads its images.
        test = LazySplit(lambda: _read(splits.test(), config))
    else:
        tested = splits.test()
        test = LazySplit(lambda: _read(tested, config), len(tested))
        details["not_images"] += tested.unused
        if config.data not in DATASET_NAMES:
            details |= {"listing": (tested,), "train_pool": train}
    images = _read(train, config, on_read)
    if with_val and source.val is not None:
        val = _read(source.val, config, on_read)
        if not (isinstance(images, LabelledImages) and isinstance(val, LabelledImages)):
            raise DataError(
                "streamed images are trained on without the validation split: set"
                " with_val to False"
            )
        pixels = torch.cat([images.images, val.images])
        labels = torch.cat([images.labels, val.labels])
        images = LabelledImages(pixels, labels, images.left_out + val.left_out)
    return EvaluationData(source.name, source.class_names, images, test, **details)


def _read(pool: Pool, config: DataConfig, on_read: OnRead | None = None) -> Images:
    """Read the images of a pool; those of a large pool stay in their files."""
    if config.stream and not pool.items.can_stream:
        raise DataError(
            f"{config.data} cannot be streamed, unless its images are prepared; omit"
            " stream"
        )
    n_bytes = len(pool) * pool.items.n_channels * config.stored_size**2
    is_streamed = (
        n_bytes > STREAM_ABOVE_BYTES if config.stream is None else config.stream
    )
    if is_streamed and pool.items.can_stream:
        return StreamedImages.of(pool, config.workers, on_read)
    return pool.read(on_read)


def prepare(
    data: str | Path, out: str | Path, *, on_read: OnRead | None = None, **settings: Any
) -> Prepared:
    """Decode and resize all images of the data once, into the folder `out`.

    You can then use the folder instead of the data. Splits, pixels and colours are
    those of the data with the same image_size. Test images are decoded too, but no
    search opens them.

    Args:
        data: As for `hba.search`, but in files.
        out: The folder. Files of an interrupted call in it are overwritten.
        on_read: Called for each part with the number of images done so far and the
            total.
        settings: Fields of DataConfig that control how images are read, such as
            image_size, skip_broken, levels and classes.

    Raises:
        DataError: For data that cannot be used.
        SettingsError: For settings that have no effect.
        RunError: If `out` cannot be written or holds other files.
    """
    if idle := [name for name in settings if name in IDLE]:
        raise SettingsError(
            f"{idle[0]} has no effect on prepared images, of which all are kept;"
            " omit it"
        )
    config = DataConfig.make(resolved_data({**settings, "data": str(data)}))
    folder = Path(out)
    check_out(folder)
    with run_lock(folder):
        source = find_source(config)
        split(source, None, None, config.split_seed).available.check_levels()
        return write_cache(folder, source, on_read)


def is_dataset(data: object) -> bool:
    return isinstance(data, Dataset | DataLoader | list | tuple)


def name_of_dataset(data: Any, settings: Mapping[str, Any]) -> str:
    """The class of a dataset, or of a pair's first one.

    Raises:
        SettingsError: If a setting about files is given with it.
    """
    if idle := [
        name
        for name in settings
        if name in DataConfig.model_fields and name not in READ_SETTINGS
    ]:
        raise SettingsError(
            f"{idle[0]} has no effect on a Dataset, whose images are in memory; omit it"
        )
    return type(data[0] if is_pair(data) else data).__name__


def is_pair(data: object) -> bool:
    """Whether data is a tuple (train, test).

    A list is not, because it may hold two pairs (image, label).
    """
    return (
        isinstance(data, tuple)
        and len(data) == 2
        and all(isinstance(item, Dataset | list) for item in data)
    )


def dataset_source(data: Any, config: DataConfig, on_read: OnRead | None) -> Source:
    """A dataset, or a pair (train, test), as a source in memory.

    No test split is drawn from a single dataset. Numbers are standardized. Classes are
    named as the datasets name them, as torchvision's do, also within a Subset; else by
    their numbers. Where both datasets of a pair have names, labels are matched by name.

    Args:
        data: A dataset, or a pair.
        config: Its image size is used.
        on_read: As OnRead.

    Raises:
        DataError: Where a target_transform prevents that labels are matched by name.
    """
    datasets = data if is_pair(data) else (data,)
    size = config.stored_size
    read = [read_pairs(dataset, size, on_read) for dataset in datasets]
    images, labels = map(list, zip(*read, strict=True))
    kinds = [task_of(numbers).name for numbers in labels]
    if len({*kinds}) > 1:
        raise DataError(
            "training and test dataset must have labels of one kind, got those of"
            f" {' and '.join(kinds)}"
        )
    training, *testing = (
        _names_of(dataset, _n_classes(numbers))
        for dataset, numbers in zip(datasets, labels, strict=True)
    )
    if training.names and testing and testing[0].names and training != testing[0]:
        has_masks = task_of(labels[0]).has_masks
        if training.is_changed or testing[0].is_changed or has_masks:
            rule = (
                "training and test dataset must number the same classes, and a"
                " target_transform changes labels"
            )
            raise DataError(
                f"{rule}; give both the same `classes` and target_transform, or none"
            )
        labels[1] = numbered(
            [(testing[0].names[label],) for label in labels[1]],
            training.names,
            "the test dataset",
        )
    n_classes = max(map(_n_classes, labels))
    if task_of(labels[0]).has_masks and n_classes < 2:
        raise DataError("masks must have at least two classes, numbers from 0 on")
    is_named = (
        training.names is not None
        and len(training.names) >= n_classes
        and not training.is_changed
    )
    names: Sequence[object] = (
        training.names[:n_classes] if is_named and training.names else range(n_classes)
    )
    name = type(datasets[0]).__name__
    scale = UNSCALED
    if task_of(labels[0]).has_numbers:
        names = ("number",)
        scale = scale_of(labels[0], f"the labels of {name}")
        labels = [scale.labels(numbers) for numbers in labels]
    warn_of_names([*map(str, names)], name)
    pools = [
        replace(in_memory(pixels.numpy(), numbers, name), image_size=size)
        for pixels, numbers in zip(images, labels, strict=True)
    ]
    return Source(
        name,
        tuple(map(str, names)),
        pools[0],
        test=lambda: pools[-1],
        scale=scale,
    )


def _n_classes(labels: np.ndarray) -> int:
    return 1 + max(task_of(labels).present(torch.from_numpy(labels)), default=-1)


class _Names(NamedTuple):
    """The class names of a dataset."""

    names: list[str] | None
    """The dataset's `classes`; None unless it has enough."""
    is_changed: bool
    """Whether a target_transform renumbers the labels."""


def _names_of(dataset: Any, n_classes: int) -> _Names:
    """DataError for a ConcatDataset of datasets that list other classes."""
    if datasets := getattr(dataset, "datasets", None):
        members = [_names_of(member, 0) for member in datasets]
        is_changed = any(member.is_changed for member in members)
        lists = {tuple(member.names) for member in members if member.names}
        if len(lists) > 1 and not is_changed:
            raise DataError(
                "the datasets of a ConcatDataset must have the same `classes`, in the"
                " same order"
            )
        names = members[0].names
        return _Names(names if names and len(names) >= n_classes else None, is_changed)
    if not hasattr(dataset, "classes") and hasattr(dataset, "dataset"):
        return _names_of(dataset.dataset, n_classes)
    names = getattr(dataset, "classes", None)
    is_changed = getattr(dataset, "target_transform", None) is not None
    if not isinstance(names, list | tuple) or len(names) < n_classes:
        return _Names(None, is_changed)
    return _Names([composed(str(name)) for name in names], is_changed)
