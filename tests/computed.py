"""Makes computed.json: what searches and an evaluation compute, to the last bit.

Searches in the file were made by e322238, those with all settings by 9aee736, the
evaluation by 5397798, which had the test errors of e322238.

`python tests/computed.py FILE` writes it anew, with the code as it is now.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from former_default import FORMER

import hba

GOLDEN = Path(__file__).parent / "golden"
MOVED = GOLDEN / "moved-0.1.0.json"
"""The schedule that ships, in four epochs: no row of it is like where its search began."""

SEARCH: Mapping[str, Any] = MappingProxyType({"data": "digits", "seed": 0, "epochs": 4, "device": "cpu"})
_OF_LAMBDA_STEPS = {
    "lambda_betas": (0.5, 0.9),
    "warm_up_epochs": 1,
    "val_steps": 2,
    "val_batch_size": 50,
}
_POPULATION = {"population_size": 4}
_SHORT = {"epochs": 2, "train_size": 80, "batch_size": 20, "model": "wrn-10-1"}
SEARCHES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "lookahead": {"algorithm": "lookahead", **FORMER},
        "lookahead, one draw": {"algorithm": "lookahead", **FORMER, "reward_draws": 1, "train_steps": 2},
        "lookahead, all set": {
            **{"algorithm": "lookahead", **FORMER},
            **{"reward_draws": 3, **_OF_LAMBDA_STEPS},
        },
        "hba": {"paper": True},
        "hba, all set": {"paper": True, "sharing": "conv", **_OF_LAMBDA_STEPS},
        "hba, centered": {"paper": True, "response": "centered", "initial_fraction": 0.5},
        "hba, separate": {"paper": True, "response": "separate", "train_steps": 4},
        "hba, linearized": {"paper": True, "response": "linearized"},
        "fixed-noise": {"paper": True, "algorithm": "fixed-noise"},
        "hyper-population": {"paper": True, "algorithm": "hyper-population", **_POPULATION},
        "population": {"paper": True, "algorithm": "population", **_POPULATION},
        "joint": {"algorithm": "joint", "tune": "augmentation,dropout,weight-decay,input-dropout", **_SHORT},
        "stn": {"algorithm": "stn", "warm_up_epochs": 0, "learning_rate": 0.003, **_SHORT},
        "delta-stn": {"algorithm": "delta-stn", "warm_up_epochs": 0, **_SHORT},
    }
)
"""By name, settings that say what the algorithm does, whatever its defaults are."""

EVALUATION: Mapping[str, Any] = MappingProxyType(
    {"data": "digits", "epochs": 2, "seeds": 2, "train_size": 200, "jobs": 1, "device": "cpu"}
)
AGAINST = ("none", "cutout", "start", "middle", "static", "final", "randaugment", "trivialaugment")


def of_search(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The last row of policy.json and the last metrics but the time, to which all before has led."""
    result = hba.search(**{**SEARCH, **settings})
    assert result.schedule is not None
    metrics = {name: value for name, value in result.metrics[-1].items() if name != "seconds"}
    return {"values": result.schedule.values[-1].tolist(), "metrics": metrics}


def of_evaluation() -> dict[str, list[float | None]]:
    """Test losses by row."""
    result = hba.evaluate(MOVED, against=list(AGAINST), **EVALUATION)
    return {row.name: list(row.test_loss or ()) for row in result.rows}


def platform() -> dict[str, str]:
    """What decides the last bits of a number: another one of these may change them."""
    return {"torch": torch.__version__, "cpu": torch.backends.cpu.get_cpu_capability()}


def computed() -> dict[str, Any]:
    torch.set_num_threads(1)
    return {
        "platform": platform(),
        "searches": {name: of_search(settings) for name, settings in SEARCHES.items()},
        "evaluation": of_evaluation(),
    }


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(computed(), indent=None, separators=(",", ":")) + "\n", encoding="utf-8")
