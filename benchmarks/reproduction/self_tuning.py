"""Experiments of STN (MacKay et al. 2019) and Delta-STN (Bae and Grosse 2020), and what is compared in them.

In all of them a network is trained once while its regularisation is tuned, and that network is what is measured: no
other is trained with what was found.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from common.images import Place, Sizes

from hba.algorithms import ALGORITHMS
from hba.config.evaluation import EvaluationConfig
from hba.config.training import TrainingConfig
from hba.errors import SettingsError
from hba.models import build_model
from hba.policy.space import SearchSpace
from hba.policy_search.config import SearchConfig
from hba.regularization.groups import hyperparameters_of
from hba.regularization.regularizer import Hyperparameter
from reproduction.runs import Tuned

METHODS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "stn": {"algorithm": "stn"},
        "centred": {"algorithm": "delta-stn", "response": "separate"},
        "delta-stn": {"algorithm": "delta-stn"},
        "delta-stn-less-entropy": {"algorithm": "delta-stn", "sigma_entropy": 0.0001},
        "centred-less-entropy": {"algorithm": "delta-stn", "response": "separate", "sigma_entropy": 0.0001},
        "stn-fixed-sigma": {"algorithm": "stn", "sigma": 1.0, "sigma_entropy": None},
        "conv": {"algorithm": "stn", "sharing": "conv"},
        "conv-fixed-sigma": {"algorithm": "stn", "sharing": "conv", "sigma": 1.0, "sigma_entropy": None},
    }
)
"""What tunes while it trains. centred: Delta-STN without linearisation. stn has hyper-layers everywhere, and learns
sigma; fixed-sigma is HBA's noise, and conv its sharing in Table 8.
"""

AS_PAPERS: Mapping[str, Any] = MappingProxyType(
    {"optimizer": "sgd-classical", "weight_decay": 0.0, "flip": False, "crop_padding": 0, "cutout_size": 0}
)
"""Momentum 0.9 without Nesterov's, no weight decay, and no augmentation but what is tuned or an experiment names."""

OF_TASK = ("parts",)
"""Entries of a scale that are no settings."""

Range = tuple[float, float, float]
"""Low, high and where the search begins."""


@dataclass(frozen=True)
class Experiment:
    """What is tuned, and how, at one scale.

    tune: groups of regularizers. only: names of hyperparameters, where not all of these groups. ranges: in the place of
    hba's own, by group or name. budget: the method whose time baselines have. settings: of the training. algorithm:
    settings that all methods share. methods: which of METHODS stands for one by another name here. parts: sizes of a
    split in three, None for hba's own split.
    """

    name: str
    scale: str
    tune: tuple[str, ...]
    budget: str
    settings: Mapping[str, Any]
    algorithm: Mapping[str, Any]
    only: tuple[str, ...] = ()
    ranges: Mapping[str, Range] = field(default_factory=dict)
    methods: Mapping[str, str] = field(default_factory=dict)
    parts: Sizes | None = None

    @property
    def dataset(self) -> str:
        return str(self.settings["data"])

    def config(self, method: str, place: Place, device: str, seed: int) -> SearchConfig:
        """Of a method's search. Settings of the algorithm that it does not have are those of another method."""
        own = METHODS[self.methods.get(method, method)]
        fields = ALGORITHMS[own["algorithm"]].model_fields
        known = {name: value for name, value in self.algorithm.items() if name in fields}
        return SearchConfig.make(
            {**AS_PAPERS, **self.settings, **known, **own, "tune": self.tune}
            | {"data": place.data, "device": device, "seed": seed}
        ).resolved()

    def space(self, config: SearchConfig) -> SearchSpace:
        """The hyperparameters, in the ranges of the experiment. They do not depend on the number of classes."""
        found = hyperparameters_of(
            self.tune, lambda: build_model(config.model, 2, 0, config.side, None, 3), config.weight_decay
        )
        tuned = tuple(self._ranged(one) for one in found if not self.only or one.name in self.only)
        return SearchSpace((), count_probabilities=(1.0,), regularizers=tuned)

    def _ranged(self, one: Hyperparameter) -> Hyperparameter:
        low, high, initial = self.ranges.get(
            one.name, self.ranges.get(one.group, (one.low, one.high, one.initial))
        )  # fmt: skip
        return replace(one, low=low, high=high, initial=initial)


def training_config(config: SearchConfig) -> EvaluationConfig:
    """Of an ordinary training like that of the search. STN's schedule of the learning rate, which waits for the
    validation loss, becomes a step schedule.
    """
    shared = {name: getattr(config, name) for name in TrainingConfig.model_fields if name != "val_size"}
    if shared["learning_rate_schedule"] == "plateau":
        shared["learning_rate_schedule"] = "step"
    return EvaluationConfig.make(shared)


def find_experiment(tuned: Tuned, scale: str) -> Experiment | None:
    """None where it is not run at this scale."""
    if tuned.experiment not in ENTRIES:
        raise SettingsError(f"an experiment must be one of {', '.join(ENTRIES)}, got {tuned.experiment!r}")
    entry = ENTRIES[tuned.experiment]
    at_scale = dict(entry.get("scales", {})).get(scale)
    if at_scale is None:
        return None
    of_algorithm = {name for kind in ALGORITHMS.values() for name in kind.model_fields}
    algorithm = {name: value for name, value in at_scale.items() if name in of_algorithm}
    own = {name: value for name, value in at_scale.items() if name not in (*OF_TASK, *algorithm)}
    ranges = {**entry.get("ranges", {}), **entry.get("ranges-by-scale", {}).get(scale, {})}
    parts: Sequence[int] | None = at_scale.get("parts")
    return Experiment(
        name=tuned.experiment,
        scale=scale,
        tune=tuple(entry["tune"]),
        budget=entry["budget"],
        settings={**entry["settings"], **own},
        algorithm={**entry["algorithm"], **algorithm},
        only=tuple(entry.get("only", ())),
        methods=dict(entry.get("methods", {})),
        ranges={name: (low, high, initial) for name, (low, high, initial) in ranges.items()},
        parts=None if parts is None else (parts[0], parts[1], parts[2]),
    )


ENTRIES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    tomllib.loads(Path(__file__).with_name("self_tuning.toml").read_text(encoding="utf-8"))
)
"""By the name of the experiment."""
DATASETS = tuple(
    sorted(
        {
            str(one["data"])
            for entry in ENTRIES.values()
            for one in (entry.get("settings", {}), *entry.get("scales", {}).values())
            if "data" in one
        }
    )
)
"""For which a folder can be named."""
