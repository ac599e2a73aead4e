"""Algorithm 4 of the paper: a population of lambdas, whose models are one hypernetwork.

symbol              in the code                     meaning
phi                 state.hypernetwork              parameters of the hypernetwork
lambda_i            state.lam_rows                  hyperparameters of the members as logits, shape (members, n)
lambda_k            state.lam                       those of the member selected last, shape (n,)
D_T, D_V            state.train_stream, problem.val batches of training images, all validation images
sigma               config.sigma
"""

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from hba.algorithms.exploring import best_of, explored, members_of
from hba.algorithms.networks import Networks
from hba.algorithms.problem import Problem
from hba.algorithms.state import HyperState, hyper_fields
from hba.algorithms.updates import update_phi
from hba.config.search import SearchConfig
from hba.data.load import SearchData
from hba.policy.space import SearchSpace
from hba.training.measure import totals


@dataclass(kw_only=True)
class HyperPopulationState(HyperState):
    """lam_rows (members, n); lam is the selected one before it explored."""

    TENSORS = (*HyperState.TENSORS, "lam_rows")

    lam_rows: Tensor


def initial_state(
    config: SearchConfig, space: SearchSpace, networks: Networks, data: SearchData
) -> HyperPopulationState:
    """Line 2: phi from a network, the lambda_i about the space's initial values. data is on its device."""
    fields = hyper_fields(config, space.initial(config.initial_fraction), networks(0), data)
    n_members = members_of(config, fields["train_stream"])
    lam_rows = explored(fields["lam"], n_members, config.sigma, fields["generator"])
    return HyperPopulationState(**fields, lam_rows=lam_rows)


def search_step(problem: Problem, state: HyperPopulationState) -> None:
    """One training step; after each T_train of them, the selection of a member and exploration (lines 4 to 13)."""
    images, labels = state.train_stream.next()
    update_phi(problem, state, images, labels, state.lam_rows.repeat_interleave(len(images) // len(state.lam_rows), 0))
    state.step += 1
    if state.step % problem.config.train_steps == 0:
        losses = validation_losses(problem, state)
        k = best_of(losses)
        state.lam.copy_(state.lam_rows.index_select(0, k)[0])
        state.lam_rows = explored(state.lam, len(state.lam_rows), problem.config.sigma, state.generator)
        state.totals.add_lambda(losses.index_select(0, k)[0])


def validation_losses(problem: Problem, state: HyperPopulationState) -> Tensor:
    """Mean loss on all of D_V of each member, (members,); the hypernetwork runs in eval mode."""
    state.hypernetwork.eval()
    sums = [
        totals(partial(state.hypernetwork, lam=lam), problem.val, problem.preprocessing.measure)
        for lam in state.lam_rows
    ]
    loss, _, count = torch.stack(sums).T
    return loss / count
