"""Algorithms 3, 4 and 5 against their pseudo-code: what sets each apart from the next."""

import copy
import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from each import each
from search_problems import paper_config, small_data
from search_steps import algorithm_of, step
from torch import Tensor, nn

from hba.algorithms import Algorithm, FixedNoise, HyperPopulation, Population
from hba.algorithms.population import PopulationModel, PopulationState
from hba.algorithms.state import named_networks
from hba.algorithms.task import ImageTask
from hba.errors import SettingsError
from hba.policy.space import SearchSpace
from hba.preprocessing import Baseline, Preprocessing, Standardize


def make(kind: type[Algorithm], **settings: Any) -> tuple[ImageTask, Any]:
    """A task and the beginning of the algorithm on it."""
    config, data, space = paper_config(algorithm=kind, **settings), small_data(), SearchSpace()
    preprocessing = Preprocessing(Standardize.of(data.train), Baseline(), 8)
    task = ImageTask(config, space, data, preprocessing, torch.full((3,), 0.5))
    return task, algorithm_of(task).begin(task, named_networks(config.model, 2, seed=0))


def recorded_lambdas(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """The lambdas of the images of every batch that is augmented from now on."""
    seen: list[Tensor] = []
    augment = ImageTask.augment

    def record(self: ImageTask, images: Tensor, lam: Tensor, generator: torch.Generator) -> Tensor:
        seen.append(lam.clone())
        return augment(self, images, lam, generator)

    monkeypatch.setattr(ImageTask, "augment", record)
    return seen


def noise_of_steps(kind: type[Algorithm], monkeypatch: pytest.MonkeyPatch, n_steps: int) -> list[Tensor]:
    """lambda_i - lambda of each training step, as it was when the step began."""
    task, state = make(kind, train_steps=3, sigma=0.7)
    seen, noises = recorded_lambdas(monkeypatch), []
    for _ in range(n_steps):
        center = state.lam.detach().clone()
        step(task, state)
        noises.append(seen[-1] - center)
    return noises


def test_algorithm_5_keeps_its_noise_for_t_train_steps_and_then_draws_it_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    noises = noise_of_steps(FixedNoise, monkeypatch, 9)
    for number in range(9):
        assert torch.allclose(noises[number], noises[number - number % 3], atol=1e-5)
    firsts = torch.stack(noises[::3])
    assert not torch.allclose(firsts[0], firsts[1])
    assert not torch.allclose(firsts[1], firsts[2])
    assert math.isclose(firsts.std().item(), 0.7, rel_tol=0.05)


def give_lambda_an_effect(state: Any) -> None:
    """V starts at zero, so that all members of a hypernetwork are alike."""
    with torch.no_grad():
        for name, parameter in state.learner.hypernetwork.named_parameters():
            if name.endswith("_V"):
                parameter.normal_(std=0.1, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("kind", [Population, HyperPopulation])
def test_a_population_keeps_its_lambdas_for_t_train_steps_and_then_goes_on_from_the_least_validation_loss(
    kind: type[Algorithm], monkeypatch: pytest.MonkeyPatch
) -> None:
    task, state = make(kind, train_steps=2, population_size=4)
    if kind is HyperPopulation:
        give_lambda_an_effect(state)
    start, center = state.lam_rows.clone(), state.lam.clone()
    losses: list[float] = []
    measure = ImageTask.validation_loss

    def record(self: ImageTask, member: Any) -> Tensor:
        loss = measure(self, member)
        losses.append(loss.item())
        return loss

    monkeypatch.setattr(ImageTask, "validation_loss", record)
    step(task, state)
    assert torch.equal(state.lam_rows, start)
    assert torch.equal(state.lam, center)
    assert not losses
    step(task, state)
    assert len(set(losses)) == 4
    assert torch.equal(state.lam, start[losses.index(min(losses))])
    assert not torch.equal(state.lam_rows, start)


@each("batched", [True, False])
@each("n_members", [4, 8])
def test_algorithm_3_updates_each_member_as_if_it_were_alone(batched: bool, n_members: int) -> None:
    task, state = make(Population, population_size=n_members, train_steps=99, batched_members=batched)
    alone = [copy.deepcopy(build_member(state, number)) for number in range(n_members)]
    optimizers = [
        torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.005)
        for network in alone
    ]
    inputs = [recorded_inputs(task, state) for _ in range(2)]
    for (x, labels), factor in zip(inputs, cosine_factors(task, state), strict=False):
        for number, (network, optimizer) in enumerate(zip(alone, optimizers, strict=True)):
            optimizer.param_groups[0]["lr"] = 0.05 * factor
            size = len(x) // n_members
            part = slice(number * size, (number + 1) * size)
            network.train()
            optimizer.zero_grad()
            F.cross_entropy(network(x[part]), labels[part]).backward()
            optimizer.step()
    for number, network in enumerate(alone):
        trained = build_member(state, number).state_dict()
        for name, value in network.state_dict().items():
            assert torch.allclose(trained[name].double(), value.double(), atol=2e-5), (number, name)


def cosine_factors(task: ImageTask, state: PopulationState[Any]) -> list[float]:
    total = task.config.epochs * state.steps_per_epoch
    return [(1 + math.cos(math.pi * step / total)) / 2 for step in range(total)]


def build_member(state: PopulationState[Any], number: int) -> nn.Module:
    network = copy.deepcopy(state.learner.template)
    network.load_state_dict(state.learner.members()[number])
    return network


def recorded_inputs(task: ImageTask, state: PopulationState[Any]) -> tuple[Tensor, Tensor]:
    """Do one training step; the network inputs and labels that it used."""
    seen: list[Tensor] = []
    forward, next_batch = PopulationModel.forward, state.train_stream.next
    labels: list[Tensor] = []

    def record(self: PopulationModel, inputs: Tensor, batched: bool) -> Tensor:
        seen.append(inputs.flatten(0, 1).clone())
        return forward(self, inputs, batched)

    def record_labels() -> tuple[Tensor, Tensor]:
        batch = next_batch()
        labels.append(batch[1])
        return batch

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PopulationModel, "forward", record)
        patch.setattr(state.train_stream, "next", record_labels)
        step(task, state)
    return seen[0], labels[0]


def test_algorithm_3_copies_the_best_member_and_then_disturbs_every_one(monkeypatch: pytest.MonkeyPatch) -> None:
    task, state = make(Population, population_size=4, train_steps=1, weight_sigma=0.02, sigma=0.3)
    algorithm_of(task).update(task, state)
    state.step += 1
    weights = {name: tensor.detach()[3].clone() for name, tensor in state.learner.weights.items()}
    buffers = {name: tensor[3].clone() for name, tensor in state.learner.buffers.items()}
    momentum = [slot["momentum_buffer"][3].clone() for slot in state.learner.optimizer.state.values()]
    lam = state.lam_rows[3].clone()
    state.learner.exploit(torch.tensor([3]))
    state.lam.copy_(lam)
    for name, tensor in state.learner.weights.items():
        assert torch.equal(tensor, weights[name].expand_as(tensor))
        assert torch.equal(state.learner.best_weights[name], weights[name])
    for slot, expected in zip(state.learner.optimizer.state.values(), momentum, strict=True):
        assert torch.equal(slot["momentum_buffer"], expected.expand_as(slot["momentum_buffer"]))
    algorithm_of(task).explore(state, 4)
    state.learner.explore(0.02, state.generator)
    assert torch.equal(state.lam, lam)
    noise = torch.cat([(state.learner.weights[name] - weights[name]).flatten(1) for name in weights], dim=1)
    assert math.isclose(noise.std().item(), 0.02, rel_tol=0.02)
    assert len(noise.unique(dim=0)) == 4
    assert math.isclose((state.lam_rows - lam).std().item(), 0.3, rel_tol=0.15)
    for name, tensor in state.learner.buffers.items():
        assert torch.equal(tensor, buffers[name].expand_as(tensor)), "statistics are copied, and not disturbed"
    plain = state.to_module()
    assert torch.equal(plain.get_parameter("conv.weight"), weights["conv.weight"])


@each("kind", [Population, HyperPopulation])
def test_a_population_that_does_not_divide_the_batch_is_one_line(kind: type[Algorithm]) -> None:
    with pytest.raises(SettingsError, match="got batches of 8 images for population_size 3"):
        make(kind, population_size=3)
    # There are only 24 images, so that batches are smaller than asked for.
    with pytest.raises(SettingsError, match="got batches of 24 images for population_size 16"):
        make(kind, population_size=16, batch_size=32)
