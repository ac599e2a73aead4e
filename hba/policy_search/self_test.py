"""A search of some seconds on the embedded digits: does this installation search, save and resume on a device?"""

import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from hba.errors import RunError
from hba.policy_search.callbacks import SearchCallback
from hba.policy_search.search import search

EPOCHS = 8
SETTINGS: dict[str, Any] = {
    **{"model": "wrn-10-1", "image_size": 16, "train_size": 200, "val_size": 100, "batch_size": 100},
    **{"epochs": EPOCHS, "train_steps": 2},
}


class SelfTest(NamedTuple):
    """steps_per_second: of the training, with its share of the policy steps. seconds: of the whole test."""

    steps_per_second: float
    seconds: float


class _StopHalfWay(SearchCallback):
    step = 0

    def step_done(self, step: int) -> None:
        self.step = step

    def stop_requested(self) -> bool:
        return self.step > EPOCHS


def self_test(device: torch.device) -> SelfTest:
    """Search whole, and search stopped and resumed. Raises RunError where these do not find the same on a CPU, and what
    search raises.
    """
    began, settings = time.perf_counter(), {**SETTINGS, "device": str(device)}
    whole = search("digits", **settings)
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "run"
        search("digits", out=out, callback=_StopHalfWay(), **settings)
        resumed = search(out=out, resume=True)
    assert whole.schedule is not None
    assert resumed.schedule is not None
    # Sums on a GPU are not the same twice.
    if device.type == "cpu" and not np.array_equal(whole.schedule.values, resumed.schedule.values):
        raise RunError("a search that was resumed found another schedule than one that was never stopped")
    first, last = (whole.metrics[epoch]["seconds"] or 0.0 for epoch in (0, -1))
    n_steps = (EPOCHS - 1) * SETTINGS["train_size"] // SETTINGS["batch_size"]
    return SelfTest(n_steps / max(last - first, 1e-9), time.perf_counter() - began)
