"""A search of some seconds on the embedded digits: does this installation search, save and resume on a device?"""

import tempfile
import time
from pathlib import Path
from typing import Any

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


class _StopHalfWay(SearchCallback):
    step = 0

    def step_done(self, step: int) -> None:
        self.step = step

    def stop_requested(self) -> bool:
        return self.step > EPOCHS


def self_test(device: torch.device) -> float:
    """Search whole, and search stopped and resumed; returns the seconds that it took.

    Raises RunError where these do not find the same on a CPU, and what search raises.
    """
    began, settings = time.perf_counter(), {**SETTINGS, "device": str(device)}
    whole = search("digits", **settings).schedule
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "run"
        search("digits", out=out, callback=_StopHalfWay(), **settings)
        resumed = search(out=out, resume=True).schedule
    assert whole is not None
    assert resumed is not None
    # Sums on a GPU are not the same twice.
    if device.type == "cpu" and not np.array_equal(whole.values, resumed.values):
        raise RunError("a search that was resumed found another schedule than one that was never stopped")
    return time.perf_counter() - began
