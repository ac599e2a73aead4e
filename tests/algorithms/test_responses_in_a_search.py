"""Searches with every response: what a training step and a lambda step change, and which networks they work on."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from each import each
from search_steps import (
    algorithm_of,
    begun,
    begun_as_in_the_paper,
    respond_at_random,
    step,
)
from torch import Tensor

from hba.algorithms.responses import RESPONSES

CENTERED = [name for name, response in RESPONSES.items() if response.centered]


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def responding(**settings: Any) -> tuple[Any, Any]:
    task, state = begun_as_in_the_paper(**settings)
    respond_at_random(state.learner.hypernetwork, 0.05)
    return task, state


@each("response", CENTERED)
@each("algorithm", ["hba", "fixed-noise"])
def test_the_center_goes_with_lambda(response: str, algorithm: str) -> None:
    task, state = begun(algorithm=algorithm, response=response)
    respond_at_random(state.learner.hypernetwork, 0.05)
    start = state.lam.detach().clone()
    assert torch.equal(state.learner.hypernetwork.center, start)
    step(task, state, 4)
    assert not torch.equal(state.lam, start)
    assert torch.equal(state.learner.hypernetwork.center, state.lam)
    images = torch.randn(4, 3, 8, 8)
    network = state.learner.hypernetwork.eval()
    before = network(images, state.lam), network(images, state.lam + 1)
    respond_at_random(network, 0.1)
    torch.testing.assert_close(network(images, state.lam), before[0])
    assert not torch.allclose(network(images, state.lam + 1), before[1])


@each("name", RESPONSES)
def test_a_training_step_is_one_of_sgd_along_those_gradients(name: str) -> None:
    task, state = responding(response=name, weight_decay=0.0, learning_rate=0.1)
    own = copy.deepcopy(state)
    images, labels = own.train_stream.next()
    noise = torch.randn(len(images), len(state.lam), generator=own.generator)
    rows = own.lam.detach() + noise

    def augment(images: Tensor, rows: Tensor) -> Tensor:
        return task.augment(images, rows, own.generator)

    RESPONSES[name].gradients(own.learner.hypernetwork.train(), augment, F.cross_entropy, images, labels, rows)
    step(task, state)
    for moved, still in zip(
        state.learner.hypernetwork.parameters(), own.learner.hypernetwork.parameters(), strict=True
    ):
        # The first step of Nesterov's momentum of 0.9 is 1.9 gradients long.
        torch.testing.assert_close(moved, still - 0.1 * 1.9 * still.grad, rtol=1e-4, atol=1e-6)


def slope_of(hypernetwork: Callable[..., Tensor], images: Tensor, labels: Tensor, lam: Tensor) -> Tensor:
    """Of the loss, along (1, ..., 1), by central differences."""
    at, small = lam.detach().double(), 1e-5
    with torch.no_grad():
        plus, minus = (F.cross_entropy(hypernetwork(images.double(), at + s), labels) for s in (small, -small))
    return (plus - minus) / (2 * small)


@each("name", RESPONSES)
def test_the_gradient_of_lambda_is_the_one_of_the_validation_loss(name: str) -> None:
    """Whatever the response is, a lambda step differentiates the output at the center with respect to lambda."""
    task, state = responding(response=name)
    own = copy.deepcopy(state)
    images, labels = own.mover.val_stream.next()
    slope = slope_of(own.learner.hypernetwork.eval().double(), task.preprocessing.measure(images), labels, own.lam)
    algorithm_of(task).update_lambda(task, state)
    torch.testing.assert_close(state.lam.grad @ torch.ones(len(state.lam)), slope.float(), rtol=1e-2, atol=1e-6)
