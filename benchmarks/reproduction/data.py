"""Where the images of a dataset come from, and the three-way split of the ablation study."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from hba.config.evaluation import EvaluationConfig
from hba.config.search import SearchConfig
from hba.data import EvaluationData, LabelledImages, SearchData, load_evaluation_data, load_search_data
from hba.data.config import DataConfig
from hba.data.load import find_source
from hba.runtime.devices import find_device

SPLIT_SEED = 0
Sizes = tuple[int, int, int]


@dataclass(frozen=True)
class Place:
    """data: a name or folder, as for `hba search`. label: what a table calls it."""

    data: str
    label: str


@dataclass(frozen=True)
class Images:
    """Reads what the runs of a process see, each split once, and keeps it on the device: most runs differ in other
    settings than those of data.
    """

    _read: dict[Any, Any] = field(default_factory=dict)

    def of_search(self, config: SearchConfig, ablation: Sizes | None) -> SearchData:
        """What a search sees; ablation: sizes of the three-way split, None for hba's own split."""
        if ablation is None:
            key = ("search", _data_settings(config), config.baseline_augmentation(), config.device)
            if key not in self._read:
                self._read[key] = load_search_data(config).to(find_device(config.device))
            known: SearchData = self._read[key]
            return known
        train, val, _ = self._three_parts(config, ablation)
        data = SearchData(config.data, find_source(config).class_names, train, val)
        return data.to(find_device(config.device))

    def of_training(self, config: EvaluationConfig, ablation: Sizes | None) -> EvaluationData:
        """What a training sees; of the three-way split it trains on two parts and is tested on the third.

        The test images of the dataset are not opened for the ablation.
        """
        if ablation is None:
            key = ("training", _data_settings(config), config.baseline_augmentation(), config.device)
            if key not in self._read:
                self._read[key] = load_evaluation_data(config).to(find_device(config.device))
            known: EvaluationData = self._read[key]
            return known
        train, val, held_out = self._three_parts(config, ablation)
        both = LabelledImages(torch.cat([train.images, val.images]), torch.cat([train.labels, val.labels]))
        data = EvaluationData(config.data, find_source(config).class_names, both, held_out)
        return data.to(find_device(config.device))

    def _three_parts(self, config: DataConfig, sizes: Sizes) -> tuple[LabelledImages, LabelledImages, LabelledImages]:
        """Stratified parts of the training pool, the same for every seed of a run."""
        from sklearn.model_selection import train_test_split

        key = ("ablation", config.data, config.side, sizes)
        if key not in self._read:
            pool = find_source(config).train
            rest, parts = np.arange(len(pool.labels)), []
            for size in sizes:
                part = rest
                if size < len(rest):
                    labels = pool.labels[rest]
                    part, rest = train_test_split(rest, train_size=size, stratify=labels, random_state=SPLIT_SEED)
                parts.append(pool.read(np.sort(part), config.side))
            self._read[key] = tuple(parts)
        first, second, third = self._read[key]
        return first, second, third


def _data_settings(config: DataConfig) -> DataConfig:
    """Those settings that decide which images are read."""
    return DataConfig.make({name: getattr(config, name) for name in DataConfig.model_fields})
