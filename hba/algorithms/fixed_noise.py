"""Algorithm 5 of the paper: HBA, but the noise is kept over the T_train training steps between lambda steps.

Symbols as in hypergradient.py; epsilon is part of the state here.
"""

from dataclasses import dataclass, fields
from typing import Any, ClassVar

import torch
from torch import Tensor

from hba.algorithms.hypergradient import Hypergradient, HyperGradientState, update_phi
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
    multi_label: ClassVar[bool] = True

    def begin(self, task: Task, networks: Networks) -> Any:
        """Line 2: phi from a network, lambda at the space's initial values."""
        begun = super().begin(task, networks)
        noise = torch.zeros(begun.train_stream.batch_size, task.space.n, device=task.device)
        return FixedNoiseState(**{field.name: getattr(begun, field.name) for field in fields(begun)}, noise=noise)

    def step(self, task: Task, state: HyperGradientState) -> None:
        """One training step; new noise before, and T_val lambda steps after, each T_train of them (lines 4 to 12)."""
        assert isinstance(state, FixedNoiseState)
        if state.step % self.train_steps == 0:
            state.noise.normal_(generator=state.generator)
        images, labels = state.train_stream.next()
        lam_rows = state.lam.detach() + self.sigma_now(task, state) * local_shard(state.noise)
        update_phi(task, state, images, labels, lam_rows, self.response)
        state.step += 1
        if self.is_lambda_time(task, state):
            for _ in range(self.val_steps):
                self.update_lambda(task, state)
