"""The settings that records keep, and those that decide the results of a run."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from hba.algorithms import ALGORITHMS
from hba.data.config import DataConfig
from hba.policy_search.config import ALGORITHM_SETTINGS, SearchConfig

Settings = Mapping[str, Any]
"""By name, as JSON values."""

OF_MACHINE = {"data", "data_root", "device", "graph", "workers"}
"""Folders, devices, how they run, and processes; records have their own names for the
images.
"""

WITHOUT_EFFECT = {"seed", "seeds", "probes", "skip_broken"}
"""Kept, but not part of a digest: the seed is stored beside it, and results do not
depend on the probes, nor on broken files if there are none.
"""

PAPER: Settings = MappingProxyType(
    {"algorithm": "hba", "initial_fraction": 0.05, "train_steps": 2}
)
"""Settings of the paper's search that may differ from the defaults."""

NEUTRAL: Settings = MappingProxyType(
    {
        **PAPER,
        "trust_radius": None,
        "logit_bound": None,
        "sigma_end": None,
        "val_statistics": "running",
        "batched_members": True,
        "val_batches": 1,
        "reward_limit": None,
        "response_weight_decay": None,
        "horizon_steps": 10,
        "search_spread": False,
        "calibrate": False,
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
        "masks": None,
        "mask_colors": None,
        "target": None,
        "group": None,
        "path_column": None,
        "label_column": None,
        "label_separator": None,
        "split_column": None,
        "image_folder": None,
        "image_ending": None,
    }
)
"""The value that a setting had before it existed, or with which it had no effect before
it was removed: records without the setting were made with this value.
"""


def kept_settings(config: Any) -> dict[str, Any]:
    """The settings of a search or an evaluation that do not depend on the machine and
    the seed.
    """
    settings = (
        config.flat()
        if isinstance(config, SearchConfig)
        else config.model_dump(mode="json")
    )
    return {
        name: value
        for name, value in settings.items()
        if name not in OF_MACHINE | WITHOUT_EFFECT
    }


def is_neutral(name: str, value: Any) -> bool:
    """Return whether a setting has its neutral value.

    Args:
        name: The name of the setting.
        value: A JSON or a Python value.
    """
    return name in NEUTRAL and NEUTRAL[name] == (
        list(value) if isinstance(value, tuple) else value
    )


def decisive(settings: Settings) -> dict[str, Any]:
    """The settings that the algorithm reads and that are not neutral; equal for runs
    that do the same.
    """
    algorithm = ALGORITHMS.get(settings.get("algorithm", ""))
    idle = {*WITHOUT_EFFECT}
    if algorithm is not None:
        idle |= ALGORITHM_SETTINGS - algorithm.model_fields.keys()
    return {
        name: value
        for name, value in settings.items()
        if name not in idle and not is_neutral(name, value)
    }


def without_data(config: SearchConfig) -> dict[str, Any]:
    """The settings that the algorithm reads, for a search on images that are already in
    memory.
    """
    kept = {
        name: value
        for name, value in config.flat().items()
        if name not in DataConfig.model_fields
    }
    # The class, because a name does not identify an algorithm that is not part of hba.
    return {**kept, "algorithm": type(config.algorithm)}
