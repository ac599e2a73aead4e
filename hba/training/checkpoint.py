"""A training's way so far in a file: one that is stopped in any way goes on from there, to the same numbers."""

import hashlib
import io
import json
import time
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from hba.data.batches import BatchStream
from hba.distributed.collectives import broadcast_from_rank0
from hba.distributed.process_info import is_first, size
from hba.errors import SavesWarning
from hba.utils.files import reason_of, write_atomically
from hba.utils.seeding import default_generator_state, restore_default_generators
from hba.utils.snapshot import restore, snapshot

VERSION = 1
TRAININGS_NAME = "trainings"
"""Of the folder in an evaluation's, with trainings that are not over."""
EVERY_SECONDS = 60.0
"""How much of a training a kill can cost. Shorter trainings write nothing."""


@dataclass
class TrainState:
    """All that a training goes on from. epochs: loss and error of each that is over. sums (2,): of the one that is not,
    over its steps.
    """

    network: nn.Module
    optimizer: Optimizer
    lr_schedule: Any
    stream: BatchStream
    generator: torch.Generator
    sums: Tensor
    step: int = 0
    epochs: list[list[float]] = field(default_factory=list)


@dataclass
class TrainCheckpoint:
    """Where a training is saved now and then. None of it is told apart from a training that was never stopped.

    path: None saves nothing. identity: what the training is of; what a file has of another is not taken.
    """

    path: Path | None
    identity: str
    every_seconds: float = field(default_factory=lambda: EVERY_SECONDS)
    last: float = 0.0
    """When the training was last saved, as time.monotonic has it."""

    @staticmethod
    def in_folder(folder: Path | None, parts: Iterable[str]) -> "TrainCheckpoint":
        """parts: what decides the numbers of the training."""
        identity = hashlib.sha256(json.dumps([VERSION, *parts]).encode()).hexdigest()[:16]
        return TrainCheckpoint(None if folder is None else folder / f"{identity}.pt", identity)

    def restore(self, way: TrainState) -> None:
        """Let the training be as far as the file has it; at its beginning where there is none that can be read."""
        self.last = time.monotonic()
        # Of several processes, the first has the folder.
        saved = broadcast_from_rank0(self._read)
        if saved is not None:
            restore(way, saved["way"])
            restore_default_generators(saved["default_generators"], way.sums.device)

    def now_and_then(self, way: TrainState) -> None:
        """Several processes each have sums of their own, so there it is saved where an epoch has just ended."""
        can_be = size() == 1 or len(way.epochs) * way.stream.batches_per_pass == way.step
        if self.path is not None and is_first() and can_be and time.monotonic() - self.last > self.every_seconds:
            self._write(self.path, way)
            self.last = time.monotonic()

    def remove(self) -> None:
        """The training is over, and what it came to is kept."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)

    def _write(self, path: Path, way: TrainState) -> None:
        content = {
            "identity": self.identity,
            "way": snapshot(way),
            "default_generators": default_generator_state(way.sums.device),
        }
        # Through memory, because torch.save reports a full disk in words that nobody understands.
        buffer = io.BytesIO()
        torch.save(content, buffer)
        write_atomically(path, lambda file: file.write(buffer.getbuffer()))

    def _read(self) -> dict[str, Any] | None:
        if self.path is None or not self.path.is_file():
            return None
        try:
            content: dict[str, Any] = torch.load(self.path, map_location="cpu", weights_only=True)
        except Exception as error:
            # A broken file makes the reader fail in any way it likes.
            told = f"{self.path} cannot be read ({reason_of(error)}); its training begins anew"
            warnings.warn(told, SavesWarning, stacklevel=2)
            return None
        return content if isinstance(content, dict) and content.get("identity") == self.identity else None
