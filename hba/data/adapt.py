"""A torch Dataset, or a list of pairs (image, label), in the place of a folder."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch.utils.data import DataLoader, Dataset, IterableDataset

from hba.data.config import DataConfig
from hba.data.dataset import from_dataset
from hba.data.images import ArrayPool, LabelledImages, OnRead, Pool, Source
from hba.data.load import EvaluationData, SearchData
from hba.data.splits import split, take_training
from hba.errors import DataError, SettingsError

AnyDataset = Dataset[Any] | Sequence[Any]
"""A torch Dataset, or a list, of pairs (image, label) as `hba.data.from_dataset` takes them."""
READ_SETTINGS = ("data", "image_size", "train_size", "val_size", "split_seed", "levels")
"""Of DataConfig, what means something for a dataset; the others are of files."""


def is_dataset(data: object) -> bool:
    """Whether these are data as this module takes them, a pair of them, or what comes so near that it should say why
    they cannot be taken.
    """
    return isinstance(data, Dataset | DataLoader | list | tuple)


def name_of(data: Any) -> str:
    """What a dataset is called in settings and files: its class. Of a pair, the first one's."""
    return type(data[0] if _is_pair(data) else data).__name__


def check_settings_of_dataset(settings: Mapping[str, Any]) -> None:
    """SettingsError for a setting of files that was given beside a dataset."""
    idle = [name for name in settings if name in DataConfig.model_fields and name not in READ_SETTINGS]
    if idle:
        raise SettingsError(f"{idle[0]} has no effect on a Dataset, whose images are in memory; omit it")


def as_search_data(dataset: AnyDataset, config: DataConfig, on_read: OnRead | None = None) -> SearchData:
    """A dataset as a search takes it: all its images in memory, split into training and validation like a folder.

    config: its stored_size is the side in pixels that images are fitted to, 32 unless image_size is set; val_size,
    train_size and split_seed decide the split, but no test split is taken out. Each sample is read once, so
    random transforms are drawn once. Raises DataError for what is no dataset of pairs, and for classes without an
    image for each part.
    """
    if _is_pair(dataset):
        raise DataError(
            "a search takes one dataset, which it splits into training and validation, got a pair of them: give the "
            "training set alone, and the test set to the evaluation only"
        )
    images = _read(dataset, config, on_read)
    labels = images.labels.numpy()
    name, class_names = name_of(dataset), _class_names(dataset, labels)
    pool = ArrayPool(images.images, labels)
    splits = split(
        Source(name, class_names, pool, test=_no_test), config.train_size, config.val_size, config.split_seed
    )
    train, val = (_part(images, part) for part in (splits.train, splits.val))
    return SearchData(name, class_names, train, val, levels=config.levels)


def as_evaluation_data(pair: Any, config: DataConfig, on_read: OnRead | None = None) -> EvaluationData:
    """A pair (train, test) of datasets as an evaluation takes it, all images in memory.

    config: as in as_search_data; train_size keeps a stratified part of the training images. Raises DataError for
    anything but such a pair.
    """
    if not _is_pair(pair):
        raise DataError(
            f"an evaluation needs a test split, which a single {type(pair).__name__} does not have: give a pair "
            "(train, test) of datasets"
        )
    train, test = (_read(part, config, on_read) for part in pair)
    labels = np.concatenate([train.labels.numpy(), test.labels.numpy()])
    name, class_names = name_of(pair), _class_names(pair[0], labels)
    source = Source(name, class_names, ArrayPool(train.images, train.labels.numpy()), test=_no_test)
    chosen = take_training(source, np.arange(len(train)), config.train_size, config.split_seed)
    return EvaluationData(name, class_names, _part(train, chosen), test, levels=config.levels)


def _is_pair(data: object) -> bool:
    """(train, test): only a tuple, because a list may hold two pairs (image, label)."""
    return isinstance(data, tuple) and len(data) == 2 and all(isinstance(part, Dataset | list) for part in data)


def _read(dataset: Any, config: DataConfig, on_read: OnRead | None) -> LabelledImages:
    if isinstance(dataset, DataLoader):
        raise DataError("data must be a Dataset, got a DataLoader; give its .dataset")
    if isinstance(dataset, IterableDataset):
        raise DataError(
            f"data must be a Dataset with a length, got the IterableDataset {type(dataset).__name__}; if it ends, give "
            "list(dataset)"
        )
    if not isinstance(dataset, Sequence) and not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
        raise DataError(f"data must be a Dataset with __len__ and __getitem__, got {type(dataset).__name__}")
    return from_dataset(dataset, image_size=config.stored_size, levels=config.levels, on_read=on_read)


def _part(images: LabelledImages, indices: np.ndarray) -> LabelledImages:
    if len(indices) == len(images):
        return images
    return LabelledImages(images.images[indices], images.labels[indices])


def _class_names(dataset: Any, labels: np.ndarray) -> tuple[str, ...]:
    """The dataset's own, as torchvision has them, also under a Subset; else the numbers of the classes."""
    if labels.min() < 0:
        raise DataError(f"labels must be whole numbers, the class of each image counted from 0, got {labels.min()}")
    n_classes = int(labels.max()) + 1
    own = getattr(getattr(dataset, "dataset", dataset), "classes", None)
    if isinstance(own, list | tuple) and len(own) == n_classes and all(isinstance(name, str) for name in own):
        return tuple(own)
    return tuple(str(number) for number in range(n_classes))


def _no_test() -> Pool:
    raise AssertionError("a dataset has no test part")
