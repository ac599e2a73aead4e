"""Algorithm 4 of the paper: a population of lambdas, whose models are one hypernetwork.

symbol              in the code                     meaning
phi                 learner.hypernetwork            parameters of the hypernetwork
lambda_i            state.lam_rows                  hyperparameters of the members as logits, shape (members, n)
lambda_k            state.lam                       those of the member selected last, shape (n,)
D_T, D_V            state.train_stream, task.val batches of training images, all validation images
sigma               sigma
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor

from hba.algorithms.exploring import Exploring, best_of
from hba.algorithms.hypergradient import HyperLayers, update_phi
from hba.algorithms.inner_model import HyperModel
from hba.algorithms.networks import Networks
from hba.algorithms.state import EpochTotals, SearchState
from hba.algorithms.task import Task


@dataclass(kw_only=True)
class HyperPopulationState(SearchState[HyperModel]):
    """lam_rows (members, n); lam is the selected one before it explored."""

    lam_rows: Tensor


class HyperPopulation(Exploring, HyperLayers):
    """Algorithm 4."""

    name: ClassVar[str] = "hyper-population"
    multi_label: ClassVar[bool] = True

    def begin(self, task: Task, networks: Networks) -> Any:
        """Line 2: phi from a network, the lambda_i about the space's initial values."""
        lam = self.start(task)
        stream, generator = task.train_stream(), task.generator()
        return HyperPopulationState(
            lam=lam,
            learner=self.hyper_learner(task, networks, lam),
            train_stream=stream,
            generator=generator,
            totals=EpochTotals.zero(task.device),
            lam_rows=self.explored(lam, self.members_of(stream), generator),
        )

    def step(self, task: Task, state: HyperPopulationState) -> None:
        """One training step; after each T_train of them, selection of a member and exploration (lines 4 to 13)."""
        images, labels = state.train_stream.next()
        lam_rows = state.lam_rows.repeat_interleave(len(images) // len(state.lam_rows), 0)
        update_phi(task, state, images, labels, lam_rows)
        state.step += 1
        if state.step % self.train_steps == 0:
            losses = validation_losses(task, state)
            k = best_of(losses)
            state.lam.copy_(state.lam_rows.index_select(0, k)[0])
            state.lam_rows = self.explored(state.lam, len(state.lam_rows), state.generator)
            state.totals.add_lambda(losses.index_select(0, k)[0])


def validation_losses(task: Task, state: HyperPopulationState) -> Tensor:
    """Mean loss on all of D_V of each member, (members,); the hypernetwork runs in eval mode."""
    hypernetwork = state.learner.hypernetwork.eval()
    return torch.stack([task.validation_loss(partial(hypernetwork, lam=lam)) for lam in state.lam_rows])
