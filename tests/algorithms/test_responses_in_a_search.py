"""Searches with every response: what a training step and a lambda step change, and which networks they work on."""

import copy
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from search_problems import SMALL_SETTINGS, StopAfter, small_data
from search_steps import (
    WithAttention,
    WithAttentionLayer,
    WithSkippedLayer,
    WithUnusedLayers,
    algorithm_of,
    begun,
    begun_as_in_the_paper,
    is_response,
    respond_at_random,
    step,
)
from torch import Tensor, nn

import hba
from hba.algorithms.responses import RESPONSES
from hba.errors import SettingsError

CENTERED = [name for name, response in RESPONSES.items() if response.centered]


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def responding(**settings: Any) -> tuple[Any, Any]:
    task, state = begun_as_in_the_paper(**settings)
    respond_at_random(state.learner.hypernetwork, 0.05)
    return task, state


@pytest.mark.parametrize("response", CENTERED)
@pytest.mark.parametrize("algorithm", ["hba", "fixed-noise"])
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


def test_the_papers_center_stays_at_zero() -> None:
    task, state = responding(response="affine")
    step(task, state, 4)
    assert not state.learner.hypernetwork.center.any()


@pytest.mark.parametrize("response", CENTERED)
def test_a_lambda_step_leaves_the_current_weights(response: str) -> None:
    """With the paper's response they change, because lambda does."""
    images, changes = torch.randn(4, 3, 8, 8), {}
    for name in (response, "affine"):
        task, state = responding(response=name, val_steps=0)
        step(task, state, 3)
        before = state.to_module().eval()(images)
        algorithm_of(task).update_lambda(task, state)
        changes[name] = (state.to_module().eval()(images) - before).abs().max().item()
    assert changes[response] == 0 < changes["affine"]


@pytest.mark.parametrize("name", RESPONSES)
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


@pytest.mark.parametrize("algorithm", ["hba", "fixed-noise", "hyper-population"])
def test_the_weight_decay_of_the_response_reaches_nothing_else(algorithm: str) -> None:
    settings: dict[str, Any] = {"learning_rate": 0.1, "weight_decay": 0.0, "response_weight_decay": 0.2}
    _, state = begun(algorithm=algorithm, **settings)
    respond_at_random(state.learner.hypernetwork)
    before = {name: value.detach().clone() for name, value in state.learner.hypernetwork.named_parameters()}
    for parameter in state.learner.hypernetwork.parameters():
        parameter.grad = torch.zeros_like(parameter)
    state.learner.optimizer.step()
    for name, value in state.learner.hypernetwork.named_parameters():
        factor = 1 - 0.1 * 1.9 * 0.2 if is_response(name) else 1.0
        torch.testing.assert_close(value.detach(), factor * before[name])


def slope_of(hypernetwork: Callable[..., Tensor], images: Tensor, labels: Tensor, lam: Tensor) -> Tensor:
    """Of the loss, along (1, ..., 1), by central differences."""
    at, small = lam.detach().double(), 1e-5
    with torch.no_grad():
        plus, minus = (F.cross_entropy(hypernetwork(images.double(), at + s), labels) for s in (small, -small))
    return (plus - minus) / (2 * small)


@pytest.mark.parametrize("name", RESPONSES)
def test_the_gradient_of_lambda_is_the_one_of_the_validation_loss(name: str) -> None:
    """Whatever the response is, a lambda step differentiates the output at the center with respect to lambda."""
    task, state = responding(response=name)
    own = copy.deepcopy(state)
    images, labels = own.mover.val_stream.next()
    slope = slope_of(own.learner.hypernetwork.eval().double(), task.preprocessing.measure(images), labels, own.lam)
    algorithm_of(task).update_lambda(task, state)
    torch.testing.assert_close(state.lam.grad @ torch.ones(len(state.lam)), slope.float(), rtol=1e-2, atol=1e-6)


@pytest.mark.parametrize("name", RESPONSES)
@pytest.mark.parametrize("kind", [WithUnusedLayers, WithSkippedLayer, WithAttention, WithAttentionLayer])
def test_networks_of_every_build_work_or_are_refused(kind: type[nn.Module], name: str) -> None:
    task, state = begun_as_in_the_paper(network=kind(), response=name, sharing="bn", learning_rate=0.001)
    if name == "linearized" and issubclass(kind, WithAttention):
        with pytest.raises(SettingsError, match="choose the response separate or another network"):
            step(task, state, 6)
        return
    start = state.lam.detach().clone()
    step(task, state, 6)
    assert all(parameter.isfinite().all() for parameter in state.learner.hypernetwork.parameters())
    assert state.lam.isfinite().all()
    assert not torch.equal(state.lam, start)


def searched(response: str, **settings: Any) -> hba.SearchResult:
    always: dict[str, Any] = {**SMALL_SETTINGS, "algorithm": "hba", "response_weight_decay": 0.1}
    return hba.search(small_data(), response=response, **always, **settings)


@pytest.mark.parametrize("name", RESPONSES)
def test_a_stopped_search_goes_on_to_the_same_end(name: str, tmp_path: Path) -> None:
    whole = searched(name)
    assert not searched(name, out=tmp_path, callback=StopAfter(5)).finished
    resumed = searched(name, out=tmp_path, resume=True)
    assert torch.equal(resumed.lam, whole.lam)
    expected = whole.network.state_dict()
    for part, value in resumed.network.state_dict().items():
        assert torch.equal(value, expected[part]), part


def test_every_response_leads_elsewhere() -> None:
    ends = [searched(name).lam for name in RESPONSES]
    for first, second in itertools.combinations(ends, 2):
        assert not torch.equal(first, second)
