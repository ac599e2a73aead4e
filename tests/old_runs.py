"""Runs that version 0.1.0 left unfinished: how they were made, and what they would have come to.

`python tests/old_runs.py` makes them anew, by the code as it is now.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from former_default import FORMER
from search_problems import StopAfter, small_data
from torch import nn

import hba

STOPPED = Path(__file__).parent / "golden" / "stopped-0.1.0"
OF_ANY: Mapping[str, Any] = MappingProxyType({"epochs": 4, "batch_size": 8, "train_steps": 1, "device": "cpu"})
OF_EACH: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "lookahead": {**FORMER, "train_steps": 1, "reward_draws": 2},
        "hba": {"response": "centered"},
        "hba-lookahead": {},
        "fixed-noise": {},
        "hyper-population": {"population_size": 2},
        "population": {"population_size": 2},
    }
)
STEPS_DONE = 5


class Small(nn.Module):
    """With weights that are the same everywhere, and a layer that can depend on lambda."""

    def __init__(self) -> None:
        super().__init__()
        self.bn, self.pool, self.linear = nn.BatchNorm2d(3), nn.AvgPool2d(4), nn.Linear(12, 2)
        with torch.no_grad():
            for parameter in self.linear.parameters():
                parameter.copy_(torch.linspace(-0.5, 0.5, parameter.numel()).view_as(parameter))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.as_tensor(self.linear(self.pool(self.bn(x)).flatten(1)))


def searched(algorithm: str, out: Path | None = None, **further: Any) -> hba.SearchResult:
    settings = {"algorithm": algorithm, **OF_ANY, **OF_EACH[algorithm]}
    return hba.search(small_data(), network=Small(), out=out, **settings, **further)


def values_of(result: hba.SearchResult) -> list[list[float]]:
    assert result.schedule is not None
    rows: list[list[float]] = result.schedule.values.tolist()
    return rows


if __name__ == "__main__":
    torch.set_num_threads(1)
    whole = {}
    for name in OF_EACH:
        searched(name, STOPPED / name, callback=StopAfter(STEPS_DONE))
        whole[name] = values_of(searched(name))[-1]
    (STOPPED / "whole.json").write_text(json.dumps(whole) + "\n", encoding="utf-8")
