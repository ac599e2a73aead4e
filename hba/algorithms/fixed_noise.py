"""Algorithm 5 of the paper: HBA, but the noise stays the same over the T_train training steps between lambda steps.

Symbols as in hypergradient.py; epsilon is part of the state here.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from hba.algorithms.hypergradient import Hypergradient, HyperGradientState
from hba.algorithms.state import Networks
from hba.algorithms.task import Task
from hba.distributed.collectives import local_shard


@dataclass(kw_only=True)
class FixedNoiseState(HyperGradientState):
    """noise (B, n): epsilon, standard normal; row i belongs to the i-th image of every batch until it is drawn anew."""

    noise: Tensor


class FixedNoise(Hypergradient):
    """Algorithm 5, from which the paper derives HBA."""

    name: ClassVar[str] = "fixed-noise"

    def begin(self, task: Task, networks: Networks) -> Any:
        begun = super().begin(task, networks)
        noise = torch.zeros(begun.train_stream.batch_size, task.space.n, device=task.device)
        return FixedNoiseState(**vars(begun), noise=noise)

    def noise(self, task: Task, state: HyperGradientState, n_images: int) -> Tensor:
        """Draws the noise anew before the first training step and after each T_train of them (line 4)."""
        assert isinstance(state, FixedNoiseState)
        if state.step % self.train_steps == 0:
            state.noise.normal_(generator=state.generator)
        return local_shard(state.noise)
