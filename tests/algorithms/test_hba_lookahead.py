"""Both gradients at once: what a lambda step is made of, and what it must not depend on."""

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from each import each
from former_default import FORMER
from search_steps import algorithm_of, begun, is_response, next_validation, respond_at_random, space_of, step
from torch import Tensor

from hba.algorithms.hba_lookahead import horizon_learning_rate, reach
from hba.algorithms.scores import expected_score


@each("response", ["affine", "centered"])
@each("draws", [1, 3])
def test_a_lambda_step_goes_by_both_gradients_in_nats(draws: int, response: str) -> None:
    """Again, slowly: an ordinary network at lambda, the gradient of every image apart, and the hypergradient."""
    space = space_of("Rotate", "Invert", "Color", count_probabilities=(0.0, 0.3, 0.7))
    task, state = begun(algorithm="hba-lookahead", space=space, initial_fraction=0.4, response=response)
    respond_at_random(state.learner.hypernetwork, 0.1)
    step(task, state, 3)
    batch, batch_labels = state.train_stream.next()
    trial = algorithm_of(task).augmented(task, state, batch, batch_labels, draws)
    ((images, labels),) = next_validation(task, state)
    hypernetwork = copy.deepcopy(state.learner.hypernetwork).eval()
    at = state.lam.detach().clone().requires_grad_()
    (through_response,) = torch.autograd.grad(F.cross_entropy(hypernetwork(images, at), labels), at)

    weights = [one for name, one in hypernetwork.named_parameters() if not is_response(name)]
    direction = torch.autograd.grad(F.cross_entropy(hypernetwork(images, at.detach()), labels), weights)

    def reward(image: int) -> Tensor:
        logits = hypernetwork(trial.images[image : image + 1], at.detach())
        of_image = torch.autograd.grad(F.cross_entropy(logits, trial.labels[image : image + 1]), weights)
        return torch.stack([(mine * v).sum() for mine, v in zip(of_image, direction, strict=True)]).sum()

    rewards = torch.stack([reward(image) for image in range(len(trial.labels))])
    compared = rewards - rewards.mean()
    if draws == 3:
        first, second, third = rewards.chunk(3)
        compared = rewards - torch.cat([second + third, first + third, first + second]) / 2
    a_short_training = reach(10) * horizon_learning_rate(task, state.learner)
    expected = through_response - a_short_training * expected_score(space, trial, compared)
    algorithm_of(task).update_lambda_by(task, state, trial)
    torch.testing.assert_close(state.lam.grad, expected, rtol=1e-3, atol=1e-5)


def test_where_the_weights_do_not_answer_look_ahead_alone_moves_lambda() -> None:
    """phi_V begins at zero: the rewards are those of an ordinary network with the same weights."""
    together, state = begun(algorithm="hba-lookahead", initial_fraction=0.1)
    alone, plain_state = begun(algorithm="lookahead", **FORMER, initial_fraction=0.1)
    images, labels = plain_state.train_stream.next()
    trial = algorithm_of(alone).augmented(alone, plain_state, images, labels, draws=3)
    algorithm_of(together).update_lambda_by(together, state, trial)
    algorithm_of(alone).update_lambda(alone, plain_state, trial)
    # One is in nats, the other in standard deviations of rewards.
    found, expected = (one / one.norm() for one in (state.lam.grad, plain_state.lam.grad))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


def gradient_of(**settings: Any) -> Tensor:
    """Of one lambda step, the same but for the settings."""
    task, state = begun(algorithm="hba-lookahead", initial_fraction=0.4, **settings)
    respond_at_random(state.learner.hypernetwork, 0.1)
    trial = algorithm_of(task).augmented(task, state, *state.train_stream.next(), draws=3)
    algorithm_of(task).update_lambda_by(task, state, trial)
    gradient: Tensor = state.lam.grad
    return gradient


def distance_of(n_steps: int, *, nesterov: bool = True) -> float:
    """How far SGD with momentum goes along a gradient of 1, at a learning rate of 1."""
    weight = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], 1.0, momentum=0.9, nesterov=nesterov)
    for _ in range(n_steps):
        weight.grad = torch.ones(1)
        optimizer.step()
    return -weight.item()


@pytest.mark.parametrize("n_steps", [1, 5, 10, 20])
def test_the_reach_is_that_of_the_momentum_of_the_search(n_steps: int) -> None:
    assert reach(n_steps) == reach(n_steps, "sgd") == pytest.approx(distance_of(n_steps), rel=1e-5)
    assert reach(n_steps, "sgd-classical") == pytest.approx(distance_of(n_steps, nesterov=False), rel=1e-5)
    by_both = [gradient_of(optimizer=optimizer, horizon_steps=n_steps) for optimizer in ("sgd", "sgd-classical")]
    assert not torch.equal(*by_both)
