"""HBA and look-ahead together: lambda goes by the hypergradient and by the rewards of a step on augmented images.

The hypernetwork knows what many steps made of the weights, as far as it has learnt the response; look-ahead knows what
the next ones do. Symbols as in hba.py and lookahead.py. w of look-ahead are the current weights: phi without the
response. Rewards are taken at lambda for all images: at the lambda that each was augmented with, and through the
response, they would depend on epsilon by more than what epsilon did to the image.
"""

import torch
from torch import nn

from hba.algorithms.gradient_state import HyperGradientState
from hba.algorithms.hypergradient import train_step
from hba.algorithms.lookahead import Trial, augmented, reward_gradient, rewards_of, trained_parameters
from hba.algorithms.problem import Problem
from hba.algorithms.updates import (
    is_lambda_time,
    move_center,
    move_lambda,
    validation_loss,
    validation_statistics,
)
from hba.hypernet import HyperNetwork


def search_step(problem: Problem, state: HyperGradientState) -> None:
    """One training step as HBA's; after each T_train of them, T_val lambda steps, which judge draws for the images of
    the last batch by other validation images each.
    """
    images, labels = train_step(problem, state)
    if is_lambda_time(problem, state):
        for _ in range(problem.config.val_steps):
            update_lambda(problem, state, augmented(problem, state, images, labels, problem.config.reward_draws))


def update_lambda(problem: Problem, state: HyperGradientState, trial: Trial) -> None:
    """One Adam step on lambda, by the sum of both gradients in nats: of what was learnt, and of some steps to come."""
    network, lam = state.hypernetwork.eval(), state.lam
    with validation_statistics(network, problem.config.val_statistics):
        loss = validation_loss(problem, state, lambda images: network(images, lam))
    weights = current_weights(network)
    wanted = [lam, *weights.values()]
    through_response, *direction = torch.autograd.grad(loss, wanted, allow_unused=True, materialize_grads=True)
    rewards = rewards_of(network, trial, dict(zip(weights, direction, strict=True)), lam.detach())
    of_steps, nats = reward_gradient(problem, state, trial, rewards)
    gradient = through_response + nats * of_steps
    state.moves.add(gradient)
    move_lambda(problem, state, gradient)
    move_center(problem, state)
    state.totals.add_lambda(loss.detach())


def current_weights(hypernetwork: HyperNetwork) -> dict[str, nn.Parameter]:
    """By name, all of phi that is trained but the response."""
    response = {id(parameter) for parameter in hypernetwork.response_parameters()}
    return {name: one for name, one in trained_parameters(hypernetwork).items() if id(one) not in response}
