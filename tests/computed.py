"""Makes golden/computed.json: what searches and an evaluation compute in double
precision.

Processors add in different orders, so their last bits differ. In single precision, a
few steps carry that far; in double precision, the results of these few steps agree to
1e-12.

`python tests/computed.py` writes the file anew, with the code as it is now.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from former_default import FORMER
from search_problems import SELF_TUNING, small_data
from small_trainings import tiny_data

import hba

GOLDEN = Path(__file__).parent / "golden"
COMPUTED = GOLDEN / "computed.json"
MOVED = GOLDEN / "moved-0.1.0.json"
"""The schedule that ships, in four epochs: no row of it is like where its search began.
"""

SHORT: Mapping[str, Any] = MappingProxyType(
    {"device": "cpu", "model": "wrn-10-1", "epochs": 3, "batch_size": 8}
)
OF_LAMBDA_STEPS: Mapping[str, Any] = MappingProxyType(
    {
        "lambda_betas": (0.5, 0.9),
        "warm_up_epochs": 1,
        "val_steps": 2,
        "val_batch_size": 5,
    }
)
PAPER: Mapping[str, Any] = MappingProxyType({"paper": True, **SHORT})
FORMER_LOOKAHEAD: Mapping[str, Any] = MappingProxyType(
    {"algorithm": "lookahead", **FORMER, **SHORT}
)
TUNED = "augmentation,dropout,weight-decay,input-dropout"
SEARCHES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "race": {**SHORT, "epochs": 8},
        "lookahead": {"algorithm": "lookahead", **SHORT},
        "lookahead, former": FORMER_LOOKAHEAD,
        "lookahead, one draw": {
            **FORMER_LOOKAHEAD,
            "reward_draws": 1,
            "train_steps": 2,
        },
        "lookahead, all set": {
            **FORMER_LOOKAHEAD,
            "reward_draws": 3,
            **OF_LAMBDA_STEPS,
        },
        "hba": PAPER,
        "hba, all set": {**PAPER, "sharing": "conv", **OF_LAMBDA_STEPS},
        "hba, centered": {**PAPER, "response": "centered", "initial_fraction": 0.5},
        "hba, separate": {**PAPER, "response": "separate", "train_steps": 4},
        "hba, linearized": {**PAPER, "response": "linearized"},
        "fixed-noise": {**PAPER, "algorithm": "fixed-noise"},
        "hyper-population": {
            **PAPER,
            "algorithm": "hyper-population",
            "population_size": 4,
        },
        "population": {**PAPER, "algorithm": "population", "population_size": 4},
        "joint": {**SHORT, "algorithm": "joint", "tune": TUNED},
        "stn": {**SHORT, "algorithm": "stn", **SELF_TUNING["stn"]},
        "delta-stn": {**SHORT, "algorithm": "delta-stn", **SELF_TUNING["delta-stn"]},
    }
)
"""By name, settings that say what the algorithm does."""
AGAINST = (
    "none",
    "cutout",
    "start",
    "middle",
    "static",
    "final",
    "randaugment",
    "trivialaugment",
)

in_double_precision = patch("hba.utils.tensors.PRECISION", "float64")


@in_double_precision
def of_search(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The policy's last logits and the last metrics, to which all before has led."""
    result = hba.search(small_data(), **settings)
    last = result.metrics[-1]
    metrics = {
        name: value
        for name, value in last.items()
        if name != "seconds" and value is not None
    }
    return {"lam": result.lam.tolist(), "metrics": metrics}


@in_double_precision
def of_evaluation() -> dict[str, list[float | None]]:
    """Test losses by row."""
    result = hba.evaluate(
        MOVED, tiny_data(), against=list(AGAINST), seeds=1, jobs=1, **SHORT
    )
    return {row.name: list(row.test_loss or ()) for row in result.rows}


def random_numbers() -> list[float]:
    """Releases of PyTorch and NumPy may draw other ones from the same seed."""
    generator = torch.Generator().manual_seed(0)
    draws = [
        torch.rand(3, generator=generator, dtype=torch.float64),
        torch.randn(20, generator=generator, dtype=torch.float64),
        torch.randperm(30, generator=generator),
        torch.randint(9, (3,), generator=generator),
        torch.from_numpy(np.random.default_rng(0).permutation(9)),
    ]
    return torch.cat([draw.double() for draw in draws]).tolist()


def computed() -> dict[str, Any]:
    return {
        "random_numbers": random_numbers(),
        "searches": {name: of_search(settings) for name, settings in SEARCHES.items()},
        "evaluation": of_evaluation(),
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    COMPUTED.write_text(
        json.dumps(computed(), separators=(",", ":")) + "\n", encoding="utf-8"
    )
