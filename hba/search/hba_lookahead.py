"""HBA and look-ahead together: lambda goes by the hypergradient and by the rewards of a step on augmented images.

The hypernetwork knows what many steps made of the weights, as far as it has learnt the response; look-ahead knows what
the next one does. Both are read off the same hypernetwork, whose phi is what look-ahead calls w: v is the gradient of
the validation loss with respect to phi, and r_i the derivative of the loss of image i, at the lambda_i that it was
augmented with, along v. Symbols as in hba.py and lookahead.py.
"""

import torch
import torch.nn.functional as F

from hba.search.gradient_state import HyperGradientState
from hba.search.lookahead import Trial, augmented, reward_gradient, rewards_of, trained_parameters
from hba.search.problem import Problem
from hba.search.updates import (
    is_lambda_time,
    move_center,
    move_lambda,
    sigma_now,
    update_phi,
    validation_loss,
    validation_statistics,
)


def search_step(problem: Problem, state: HyperGradientState) -> None:
    """One training step as HBA's; after each T_train of them, T_val lambda steps, which judge draws for the images of
    the last batch by other validation images each.
    """
    images, labels = state.train_stream.next()
    noise = torch.randn(len(images), len(state.lam), generator=state.generator, device=state.device)
    update_phi(problem, state, images, labels, state.lam.detach() + sigma_now(problem, state) * noise)
    state.step += 1
    if is_lambda_time(problem, state):
        for _ in range(problem.config.val_steps):
            update_lambda(problem, state, augmented(problem, state, images, labels, problem.config.reward_draws))


def update_lambda(problem: Problem, state: HyperGradientState, trial: Trial) -> None:
    """One Adam step on lambda, by the sum of both gradients, each of length 1: their units differ."""
    network, lam = state.hypernetwork.eval(), state.lam
    with validation_statistics(network, problem.config.val_statistics):
        loss = validation_loss(problem, state, lambda images: network(images, lam))
    parameters = trained_parameters(network)
    wanted = [lam, *parameters.values()]
    through_response, *direction = torch.autograd.grad(loss, wanted, allow_unused=True, materialize_grads=True)
    own_lam = lam.detach() + trial.sigma * trial.noise
    rewards = rewards_of(network, trial, dict(zip(parameters, direction, strict=True)), own_lam)
    of_step, nats = reward_gradient(problem, state, trial, rewards)
    state.moves.add(through_response + nats * of_step)
    move_lambda(problem, state, F.normalize(through_response, dim=0) + F.normalize(of_step, dim=0))
    move_center(problem, state)
    state.totals.add_lambda(loss.detach())
