"""A search of some seconds on the embedded digits: does this installation search, save and resume on a device?"""

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hba.errors import RunError
from hba.policy_search.callbacks import SearchCallback
from hba.policy_search.search import search

EPOCHS = 8
STEPS_BEFORE_STOP = 9
SETTINGS: dict[str, Any] = {
    **{"model": "wrn-10-1", "image_size": 16, "train_size": 200, "val_size": 100, "batch_size": 100},
    **{"epochs": EPOCHS, "train_steps": 2},
}


@dataclass(frozen=True)
class SelfTest:
    """steps_per_second: of the training, its share of the policy steps among it. seconds: of the whole test."""

    steps_per_second: float
    seconds: float


class _Clock(SearchCallback):
    """Counts steps from the second on, and asks for a stop after some."""

    def __init__(self, device: torch.device, stop_after: int | None = None) -> None:
        self.device, self.stop_after = device, stop_after
        self.n_steps, self.began, self.ended = 0, 0.0, 0.0

    def step_done(self, step: int) -> None:
        self.n_steps += 1
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        self.ended = time.perf_counter()
        if self.n_steps == 1:
            self.began = self.ended

    def stop_requested(self) -> bool:
        return self.stop_after is not None and self.n_steps >= self.stop_after

    @property
    def steps_per_second(self) -> float:
        return (self.n_steps - 1) / max(self.ended - self.began, 1e-9)


def self_test(device: torch.device) -> SelfTest:
    """Search whole, and search stopped and resumed. Raises RunError where these do not find the same on a CPU, and what
    search raises.
    """
    began, clock = time.perf_counter(), _Clock(device)
    settings = {**SETTINGS, "device": str(device)}
    whole = search("digits", callback=clock, **settings).schedule
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "run"
        search("digits", out=out, callback=_Clock(device, STEPS_BEFORE_STOP), **settings)
        resumed = search(out=out, resume=True).schedule
    assert whole is not None
    assert resumed is not None
    # Sums on a GPU are not the same twice.
    if device.type == "cpu" and not np.array_equal(whole.values, resumed.values):
        raise RunError("a search that was resumed found another schedule than one that was never stopped")
    return SelfTest(clock.steps_per_second, time.perf_counter() - began)
