"""From a dataset's name or folder to the splits that a search or an evaluation may see."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from hba.data.classes import keep_classes
from hba.data.config import DataConfig
from hba.data.folder import folder_source
from hba.data.images import LabelledImages, OnRead, Pool, Source
from hba.data.named import DATASET_NAMES, named_source
from hba.data.splits import split, take_training
from hba.errors import DataError


@dataclass(frozen=True)
class SearchData:
    """What a policy search may see. There is no test split in it."""

    name: str
    class_names: tuple[str, ...]
    train: LabelledImages
    val: LabelledImages

    def to(self, device: torch.device) -> "SearchData":
        return replace(self, train=self.train.to(device), val=self.val.to(device))


@dataclass(frozen=True)
class EvaluationData:
    """What a policy evaluation sees: all images for training, and the test split, for the end only."""

    name: str
    class_names: tuple[str, ...]
    train: LabelledImages
    test: LabelledImages

    def to(self, device: torch.device) -> "EvaluationData":
        return replace(self, train=self.train.to(device), test=self.test.to(device))


def find_source(config: DataConfig) -> Source:
    """The named dataset or the folder, with the classes asked for; DataError where there is none."""
    source = _whole_source(config)
    return source if config.classes is None else keep_classes(source, config.classes)


def _whole_source(config: DataConfig) -> Source:
    if config.data in DATASET_NAMES:
        return named_source(config.data, Path(config.data_root), config.download, config.skip_broken)
    folder = Path(config.data)
    if not folder.exists():
        raise DataError(f"no such folder or dataset: {config.data}; datasets: {', '.join(DATASET_NAMES)}")
    return folder_source(folder, config.skip_broken)


def load_search_data(config: DataConfig, on_read: OnRead | None = None) -> SearchData:
    """Training and validation images. The test split's files are not opened."""
    source = find_source(config)
    splits = split(source, config.train_size, config.val_size, config.split_seed)
    read = _Reader(config.stored_size, on_read, total=len(splits.train) + len(splits.val))
    train = read(source.train, splits.train)
    val = read(source.val or source.train, splits.val)
    return SearchData(source.name, source.class_names, train, val)


def load_evaluation_data(config: DataConfig, on_read: OnRead | None = None) -> EvaluationData:
    """The whole training set, or train_size of it, and the test split: the images that no search saw."""
    source = find_source(config)
    splits = split(source, None, None, config.split_seed)
    train_indices = take_training(source, splits.available, config.train_size, config.split_seed)
    test_pool = source.train if source.test is None else source.test()
    test_indices = np.arange(len(test_pool.labels)) if splits.test is None else splits.test
    read = _Reader(config.stored_size, on_read, total=len(train_indices) + len(test_indices))
    return EvaluationData(
        source.name, source.class_names, read(source.train, train_indices), read(test_pool, test_indices)
    )


@dataclass
class _Reader:
    """Reads several pools and counts their images as one piece of work."""

    image_size: int
    on_read: OnRead | None
    total: int
    done_before: int = 0

    def __call__(self, pool: Pool, indices: np.ndarray) -> LabelledImages:
        images = pool.read(indices, self.image_size, self._count)
        self.done_before += len(indices)
        return images

    def _count(self, done: int, _: int) -> None:
        if self.on_read is not None:
            self.on_read(self.done_before + done, self.total)
