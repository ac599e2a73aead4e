"""Read the images of a dataset, and make the three-way split of the ablation study."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np
import torch

from hba.config.evaluation import EvaluationConfig
from hba.data import (
    EvaluationData,
    LabelledImages,
    SearchData,
    load_evaluation_data,
    load_search_data,
)
from hba.data.config import DataConfig
from hba.data.formats import find_source
from hba.policy_search.config import SearchConfig
from hba.utils.devices import find_device

SPLIT_SEED = 0
Sizes = tuple[int, int, int]
"""Training, validation and held-out images."""
Data = TypeVar("Data")


@dataclass(frozen=True)
class Place:
    """Images for a benchmark, and how tables call them."""

    data: str
    """A name or folder, as for `hba search`."""
    label: str
    """The name of the data in tables."""


class View(Protocol):
    """Changes images after they are read, before they go to a device. Equal views make
    the same changes and have the same hash.
    """

    def of_search(self, data: SearchData) -> SearchData: ...

    def of_training(self, data: EvaluationData) -> EvaluationData: ...


@dataclass(frozen=True)
class Images:
    """Reads the images of the runs of a process, each split once, and keeps them on the
    device, because most runs differ only in settings that do not concern data.
    """

    _read: dict[Any, Any] = field(default_factory=dict)

    def of_search(
        self,
        config: SearchConfig,
        ablation: Sizes | None = None,
        view: View | None = None,
    ) -> SearchData:
        """Read the data of a search.

        Args:
            config: The settings of the search.
            ablation: Sizes of the three-way split; None for hba's own split, the only
                one with a view.
            view: Changes the images.
        """
        device = find_device(config.device)
        if ablation is None:
            key = ("search", *_read_by(config), view)
            change = view.of_search if view else None
            return self._once(
                key, lambda: _apply_view(load_search_data(config), change).to(device)
            )
        train, val, _ = self._three_parts(config, ablation)
        return SearchData(config.data, find_source(config).class_names, train, val).to(
            device
        )

    def of_training(
        self,
        config: EvaluationConfig,
        ablation: Sizes | None = None,
        view: View | None = None,
    ) -> EvaluationData:
        """The data of a training. With the three-way split, it trains on two parts and
        is tested on the third.

        The test images of the dataset are not opened for the ablation.
        """
        device = find_device(config.device)
        if ablation is None:
            key = ("training", *_read_by(config), view)
            change = view.of_training if view else None
            return self._once(
                key,
                lambda: _apply_view(load_evaluation_data(config), change).to(device),
            )
        train, val, held_out = self._three_parts(config, ablation)
        all_images = LabelledImages(
            torch.cat([train.images, val.images]), torch.cat([train.labels, val.labels])
        )
        return EvaluationData(
            config.data, find_source(config).class_names, all_images, held_out
        ).to(device)

    def _three_parts(
        self, config: DataConfig, sizes: Sizes
    ) -> tuple[LabelledImages, ...]:
        """Stratified parts of the training pool, the same for every seed of a run."""
        return self._once(
            ("ablation", config.data, config.side, sizes), lambda: _split(config, sizes)
        )

    def _once(self, key: tuple[Any, ...], read: Callable[[], Data]) -> Data:
        if key not in self._read:
            self._read[key] = read()
        data: Data = self._read[key]
        return data


IMAGES = Images()
"""The images of this process."""


def _apply_view(data: Data, change: Callable[[Data], Data] | None) -> Data:
    return data if change is None else change(data)


def _read_by(config: SearchConfig | EvaluationConfig) -> tuple[Any, ...]:
    """The settings that decide which images are read, and on which device they are
    kept.
    """
    data_config = DataConfig.make(
        {name: getattr(config, name) for name in DataConfig.model_fields}
    )
    return data_config, config.baseline_augmentation(), config.device


def _split(config: DataConfig, sizes: Sizes) -> tuple[LabelledImages, ...]:
    from sklearn.model_selection import train_test_split

    pool = find_source(config).train
    remaining = np.arange(len(pool.labels))
    parts = []
    for size in sizes:
        chosen = remaining
        if size < len(remaining):
            labels = pool.labels[remaining]
            chosen, remaining = train_test_split(
                remaining, train_size=size, stratify=labels, random_state=SPLIT_SEED
            )
        parts.append(pool.take(np.sort(chosen)).read())
    return tuple(parts)
