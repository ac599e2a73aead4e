"""Algorithm 5 of the paper: HBA, but the noise is kept over the T_train training steps between lambda steps.

Symbols as in hba.py; epsilon is part of the state here.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from hba.algorithms.gradient_state import HyperGradientState, hyper_gradient_fields
from hba.algorithms.networks import Networks
from hba.algorithms.problem import Problem
from hba.algorithms.updates import is_lambda_time, sigma_now, update_lambda, update_phi
from hba.config.search import SearchConfig
from hba.data.load import SearchData
from hba.policy.space import SearchSpace


@dataclass(kw_only=True)
class FixedNoiseState(HyperGradientState):
    """noise (B, n): epsilon, standard normal; row i belongs to the i-th image of every batch until it is drawn anew."""

    TENSORS = (*HyperGradientState.TENSORS, "noise")

    noise: Tensor


def initial_state(config: SearchConfig, space: SearchSpace, networks: Networks, data: SearchData) -> FixedNoiseState:
    """Line 2: phi from a network, lambda at the space's initial values. data is on its device."""
    fields = hyper_gradient_fields(config, space, networks, data)
    noise = torch.zeros(fields["train_stream"].batch_size, space.n, device=fields["lam"].device)
    return FixedNoiseState(**fields, noise=noise)


def search_step(problem: Problem, state: FixedNoiseState) -> None:
    """One training step; new noise before, and T_val lambda steps after, each T_train of them (lines 4 to 12)."""
    if state.step % problem.config.train_steps == 0:
        state.noise.normal_(generator=state.generator)
    images, labels = state.train_stream.next()
    update_phi(problem, state, images, labels, state.lam.detach() + sigma_now(problem, state) * state.noise)
    state.step += 1
    if is_lambda_time(problem, state):
        for _ in range(problem.config.val_steps):
            update_lambda(problem, state)
