"""Both gradients at once: what a lambda step is made of, and what it must not depend on."""

import copy

import pytest
import torch
import torch.nn.functional as F
from each import each
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


def distance_of(n_steps: int, *, nesterov: bool = True) -> float:
    """How far SGD with momentum goes along a gradient of 1, at a learning rate of 1."""
    weight = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], 1.0, momentum=0.9, nesterov=nesterov)
    for _ in range(n_steps):
        weight.grad = torch.ones(1)
        optimizer.step()
    return -weight.item()


@each("n_steps", [1, 5, 20])
def test_the_reach_is_that_of_the_momentum_of_the_search(n_steps: int) -> None:
    assert reach(n_steps) == reach(n_steps, "sgd") == pytest.approx(distance_of(n_steps), rel=1e-5)
    assert reach(n_steps, "sgd-classical") == pytest.approx(distance_of(n_steps, nesterov=False), rel=1e-5)
