"""Hypernetwork-Based Augmentation: Algorithm 2 of the paper, which is its Algorithm 6.

symbol              in the code                     meaning
phi                 state.hypernetwork              parameters of the hypernetwork
lambda              state.lam                       hyperparameters as logits, shape (n,)
epsilon             noise                           one row for each image of a batch, shape (B, n)
D_T, D_V            state.train_stream, val_stream  batches of training and of validation images
A                   problem.augment                 the augmentation policy
F(x; theta(lambda)) state.hypernetwork(x, lam)      the network with the weights that belong to lambda
alpha, alpha'       learning rates in the optimizers of the state
T_train, T_val      config.train_steps, val_steps
sigma               sigma_now(), config.sigma from first to last unless sigma_end is set
"""

import torch

from hba.algorithms.gradient_state import HyperGradientState, hyper_gradient_fields
from hba.algorithms.networks import Networks
from hba.algorithms.problem import Problem
from hba.algorithms.updates import is_lambda_time, sigma_now, update_lambda, update_phi
from hba.config.search import SearchConfig
from hba.data.images import Batch
from hba.data.load import SearchData
from hba.policy.space import SearchSpace


def initial_state(config: SearchConfig, space: SearchSpace, networks: Networks, data: SearchData) -> HyperGradientState:
    """Line 2: phi from a network, lambda at the space's initial values. data is on its device."""
    return HyperGradientState(**hyper_gradient_fields(config, space, networks, data))


def search_step(problem: Problem, state: HyperGradientState) -> None:
    """One training step; after each T_train of them, T_val lambda steps (lines 4 to 12)."""
    train_step(problem, state)
    if is_lambda_time(problem, state):
        for _ in range(problem.config.val_steps):
            update_lambda(problem, state)


def train_step(problem: Problem, state: HyperGradientState) -> Batch:
    """One update of phi on the next batch, every image at a lambda of its own; gives back the batch."""
    images, labels = state.train_stream.next()
    noise = torch.randn(len(images), len(state.lam), generator=state.generator, device=state.device)
    update_phi(problem, state, images, labels, state.lam.detach() + sigma_now(problem, state) * noise)
    state.step += 1
    return images, labels
