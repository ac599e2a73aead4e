"""The candidates: settings of a search that are compared with each other, by name."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from common.settings import PAPER as AS_IN_PAPER

PAPER = "paper"
"""`hba search --paper`; the other candidates change some of its settings."""
DEFAULT = "from-randaugment-half-validation"
"""`hba search --space hba`."""
FORMER = "from-randaugment"
"""That with whole batches of validation images."""
DRAWS = "lookahead-draws"
"""Look-ahead alone: four draws for each image, from the middle of every range."""


_DRAWS = {
    "algorithm": "lookahead",
    "initial_fraction": 0.5,
    "reward_draws": 4,
    "train_steps": 4,
    "reward_derivative": "exact",
    "init": "fraction",
    "count": "fixed",
    "sigma": 1.0,
    "spread_over": "none",
    "spread_share": 1.0,
    "warm_up_epochs": 0,
    "lambda_betas": (0.9, 0.999),
    "strength_learning_rate": 0.0,
    "divergence_weight": 0.0,
    "val_batch_size": None,
}
_FORMER = {
    **_DRAWS,
    "init": "randaugment",
    "train_steps": 5,
    "count": "searched",
    "spread_over": "magnitudes",
    "spread_share": 0.5,
    "lambda_betas": (0.98, 0.999),
    "strength_learning_rate": 0.1,
    "divergence_weight": 0.03,
    "reward_derivative": "auto",
}


CANDIDATES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        name: {**AS_IN_PAPER, "space": "hba", **changes}
        for name, changes in (
            (PAPER, {}),
            (DRAWS, _DRAWS),
            (FORMER, _FORMER),
            (DEFAULT, {**_FORMER, "val_batch_size": 50}),
        )
    }
)
"""Settings that differ from the defaults."""
