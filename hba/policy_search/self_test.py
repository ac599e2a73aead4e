"""A search of some seconds on the embedded digits: does this installation search, save and resume on a device?"""

import tempfile
import time
from typing import Any

import torch

from hba.errors import RunError
from hba.policy_search.search import search

EPOCHS = 8
SETTINGS: dict[str, Any] = {
    **{"model": "wrn-10-1", "image_size": 16, "train_size": 200, "val_size": 100, "batch_size": 100},
    **{"train_steps": 2, "warm_up_epochs": 0, "learning_rate_schedule": "constant"},
}


def self_test(device: torch.device) -> float:
    """Search, and search again with a resumption after half of the epochs; return the seconds that it took.

    Raises RunError if the two find different schedules on a CPU, and what search raises.
    """
    began, settings = time.perf_counter(), {**SETTINGS, "device": str(device)}
    whole = search("digits", epochs=EPOCHS, **settings)
    with tempfile.TemporaryDirectory() as out:
        search("digits", epochs=EPOCHS // 2, out=out, **settings)
        resumed = search(epochs=EPOCHS, out=out, resume=True)
    # Sums on a GPU are not the same twice.
    if device.type == "cpu" and not torch.equal(whole.lam, resumed.lam):
        raise RunError("a search that was resumed found another schedule than one that was never stopped")
    return time.perf_counter() - began
