"""Look-ahead as it was by default in version 0.1.0, for tests of what does not depend
on where its search begins.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

FORMER: Mapping[str, Any] = MappingProxyType(
    {
        "init": "fraction",
        "count": "fixed",
        "spread_over": "none",
        "spread_share": 1.0,
        "warm_up_epochs": 0,
        "train_steps": 4,
        "lambda_betas": (0.9, 0.999),
        "strength_learning_rate": 0.0,
        "divergence_weight": 0.0,
        "reward_derivative": "exact",
        "val_batch_size": None,
    }
)
