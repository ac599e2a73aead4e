"""Settings as records keep them, and those of them that decide what a run finds."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from hba.algorithms import ALGORITHMS
from hba.data.config import DataConfig
from hba.policy_search.config import ALGORITHM_SETTINGS, DROPPED, SearchConfig

Settings = Mapping[str, Any]
"""By name, as JSON values."""

OF_MACHINE = {"data", "data_root", "device", "workers"}
"""Folders, devices and processes; records name the images in words of their own."""

WITHOUT_EFFECT = {"seed", "seeds", "probes", "skip_broken"}
"""Kept, but no part of a digest: the seed stands beside it, and nothing depends on the probes, or on broken files where
there are none.
"""

PAPER: Settings = MappingProxyType({"algorithm": "hba", "initial_fraction": 0.05, "train_steps": 2})
"""The paper's search, where the defaults may differ."""

NEUTRAL: Settings = MappingProxyType(
    {
        **PAPER,
        **DROPPED,
        "response": "affine",
        "warm_up_epochs": 0,
        "lambda_betas": [0.9, 0.999],
        "val_steps": 1,
        "val_batch_size": None,
        "sigma": 1.0,
        "sigma_entropy": None,
        "lambda_optimizer": "adam",
        "plateau_epochs": 60,
        "reward_draws": 1,
        "reward_derivative": "exact",
        "init": "fraction",
        "init_from": None,
        "count": "fixed",
        "strength_learning_rate": 0.0,
        "divergence_weight": 0.0,
        "spread_over": "none",
        "spread_share": 1.0,
        "tune": ["augmentation"],
        "fill": None,
        "levels": None,
        "ranges": None,
        "start": None,
        "fast": False,
        "baseline": None,
        "spread": None,
        "with_val": False,
        "optimizer": "sgd",
        "learning_rate_warm_up_epochs": 0,
        "pretrained": None,
        "freeze": "none",
        "standardize_by": None,
        "path_column": None,
        "label_column": None,
        "label_separator": None,
        "split_column": None,
    }
)
"""What a setting was before there was such a setting: a record that is older than a setting had this value of it."""


def kept_settings(config: Any) -> dict[str, Any]:
    """Of a search's or an evaluation's config, for any machine and seed."""
    settings = config.flat() if isinstance(config, SearchConfig) else config.model_dump(mode="json")
    return {name: value for name, value in settings.items() if name not in OF_MACHINE | WITHOUT_EFFECT}


def is_neutral(name: str, value: Any) -> bool:
    """value: of a setting, as JSON has it or as Python does."""
    return name in NEUTRAL and NEUTRAL[name] == (list(value) if isinstance(value, tuple) else value)


def decisive(settings: Settings) -> dict[str, Any]:
    """Those that the algorithm reads and that are not neutral: equal for runs that do the same."""
    kind = ALGORITHMS.get(settings.get("algorithm", ""))
    idle = {*WITHOUT_EFFECT, *(() if kind is None else ALGORITHM_SETTINGS - kind.model_fields.keys())}
    return {name: value for name, value in settings.items() if name not in idle and not is_neutral(name, value)}


def without_data(config: SearchConfig) -> dict[str, Any]:
    """The settings of a search on images that are in memory already, as far as its algorithm reads them."""
    found = {name: value for name, value in config.flat().items() if name not in DataConfig.model_fields}
    # Not its name, which tells nothing of an algorithm that is none of hba's.
    return {**found, "algorithm": type(config.algorithm)}
