"""Checkpoints from which a training resumes with the same results."""

import hashlib
import json
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from hba.data.loader import BatchStream
from hba.utils.files import load_tensors, save_tensors
from hba.utils.seeding import default_generator_state, restore_default_generators
from hba.utils.snapshot import restore, snapshot

TRAININGS_NAME = "trainings"
"""Folder of unfinished trainings in the folder of an evaluation."""
EVERY_SECONDS = 60.0
"""Time between two checkpoints, the most that a kill can lose. Shorter trainings write
no checkpoint.
"""
STATE_KEY = "way"  # of a TrainState in the file


@dataclass
class TrainState:
    """What a training changes."""

    network: nn.Module
    optimizer: Optimizer
    lr_schedule: Any
    stream: BatchStream
    generator: torch.Generator
    sums: Tensor
    """Sums (2,) of loss and error over the steps of the current epoch."""
    step: int = 0
    epochs: list[list[float]] = field(default_factory=list)
    """Loss and error of each finished epoch."""


class TrainCheckpoint:
    """The file of a training.

    Args:
        folder: None saves nothing.
        parts: What decides the results; its hash names the file.
    """

    def __init__(self, folder: Path | None = None, parts: Iterable[str] = ()) -> None:
        identity = hashlib.sha256(json.dumps([1, *parts]).encode()).hexdigest()[:16]
        self.path = None if folder is None else folder / f"{identity}.pt"
        self._last_save = 0.0

    def restore(self, state: TrainState) -> None:
        """Restore the state from the file; leave it at its beginning if there is none.

        Raises:
            RunError: For a broken file.
        """
        self._last_save = time.monotonic()
        path = self.path
        if path is not None and path.is_file():
            saved = load_tensors(path)
            restore(state, saved[STATE_KEY])
            restore_default_generators(saved["default_generators"], state.sums.device)

    def save_regularly(self, state: TrainState) -> None:
        """Save if EVERY_SECONDS have passed."""
        is_due = time.monotonic() - self._last_save > EVERY_SECONDS
        if self.path is None or not is_due:
            return
        generators = default_generator_state(state.sums.device)
        save_tensors(
            self.path, {STATE_KEY: snapshot(state), "default_generators": generators}
        )
        self._last_save = time.monotonic()

    def remove(self) -> None:
        if self.path is not None:
            self.path.unlink(missing_ok=True)
