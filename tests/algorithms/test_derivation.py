"""Algorithms 3, 4 and 5 against their pseudo-code: what sets each apart."""

import copy
import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from search_steps import algorithm_of, begun_as_in_the_paper, respond_at_random, step
from torch import Tensor, nn

from hba.algorithms.population import PopulationState
from hba.algorithms.problem import ImageProblem
from hba.errors import SettingsError


def recorded_lambdas(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """The lambdas of the images of every batch that is augmented from now on."""
    seen: list[Tensor] = []
    augment = ImageProblem.augment

    def record(
        self: ImageProblem, images: Tensor, lam: Tensor, generator: torch.Generator
    ) -> Tensor:
        seen.append(lam.clone())
        return augment(self, images, lam, generator)

    monkeypatch.setattr(ImageProblem, "augment", record)
    return seen


def test_algorithm_5_keeps_its_noise_for_t_train_steps_and_then_draws_it_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem, state = begun_as_in_the_paper(
        algorithm="fixed-noise", train_steps=3, sigma=0.7
    )
    seen = recorded_lambdas(monkeypatch)
    noises = []
    for _ in range(9):
        center = state.lam.detach().clone()
        step(problem, state)
        noises.append(seen[-1] - center)
    for number in range(9):
        assert torch.allclose(noises[number], noises[number - number % 3], atol=1e-5)
    firsts = torch.stack(noises[::3])
    assert not torch.allclose(firsts[0], firsts[1])
    assert not torch.allclose(firsts[1], firsts[2])
    assert math.isclose(firsts.std().item(), 0.7, rel_tol=0.05)


@pytest.mark.parametrize("algorithm_name", ["population", "hyper-population"])
def test_a_population_keeps_lambdas_for_t_train_steps_then_goes_on_from_the_least_loss(
    algorithm_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem, state = begun_as_in_the_paper(
        algorithm=algorithm_name, train_steps=2, population_size=4
    )
    if algorithm_name == "hyper-population":
        # V starts at zero, so that all members are alike.
        respond_at_random(state.learner.hypernetwork)
    start = state.lam_rows.clone()
    center = state.lam.clone()
    losses: list[float] = []
    measure = ImageProblem.validation_loss

    def record(self: ImageProblem, member: Any) -> Tensor:
        loss = measure(self, member)
        losses.append(loss.item())
        return loss

    monkeypatch.setattr(ImageProblem, "validation_loss", record)
    step(problem, state)
    assert torch.equal(state.lam_rows, start)
    assert torch.equal(state.lam, center)
    assert not losses
    step(problem, state)
    assert len(set(losses)) == 4
    assert torch.equal(state.lam, start[losses.index(min(losses))])
    assert not torch.equal(state.lam_rows, start)


@pytest.mark.usefixtures("double_precision")
@pytest.mark.parametrize("n_members", [4, 8])
def test_algorithm_3_updates_each_member_as_if_it_were_alone(n_members: int) -> None:
    problem, state = begun_as_in_the_paper(
        algorithm="population", population_size=n_members, train_steps=99
    )
    alone = [copy.deepcopy(build_member(state, number)) for number in range(n_members)]
    optimizers = [
        torch.optim.SGD(
            network.parameters(),
            lr=0.05,
            momentum=0.9,
            nesterov=True,
            weight_decay=0.005,
        )
        for network in alone
    ]
    copied = copy.deepcopy(state)
    n_steps = problem.config.epochs * state.steps_per_epoch
    for number_of_step in range(2):
        images, labels = copied.train_stream.next()
        x = problem.augment(
            images,
            copied.lam_rows.repeat_interleave(len(images) // n_members, 0),
            copied.generator,
        )
        step(problem, state)
        factor = (1 + math.cos(math.pi * number_of_step / n_steps)) / 2
        for number, (network, optimizer) in enumerate(
            zip(alone, optimizers, strict=True)
        ):
            optimizer.param_groups[0]["lr"] = 0.05 * factor
            size = len(x) // n_members
            rows = slice(number * size, (number + 1) * size)
            network.train()
            optimizer.zero_grad()
            F.cross_entropy(network(x[rows]), labels[rows]).backward()
            optimizer.step()
    for number, network in enumerate(alone):
        trained = build_member(state, number).state_dict()
        for name, value in network.state_dict().items():
            torch.testing.assert_close(trained[name], value, rtol=1e-9, atol=1e-9)


def build_member(state: PopulationState[Any], number: int) -> nn.Module:
    network = copy.deepcopy(state.learner.template)
    network.load_state_dict(state.learner.members()[number])
    return network


def test_algorithm_3_copies_the_best_member_and_then_disturbs_every_one() -> None:
    problem, state = begun_as_in_the_paper(
        algorithm="population",
        population_size=4,
        train_steps=1,
        weight_sigma=0.02,
        sigma=0.3,
    )
    algorithm_of(problem).update(problem, state)
    state.step += 1
    weights = {
        name: tensor.detach()[3].clone()
        for name, tensor in state.learner.weights.items()
    }
    buffers = {
        name: tensor[3].clone() for name, tensor in state.learner.buffers.items()
    }
    momentum = [
        slot["momentum_buffer"][3].clone()
        for slot in state.learner.optimizer.state.values()
    ]
    lam = state.lam_rows[3].clone()
    state.learner.exploit(torch.tensor([3]))
    state.lam.copy_(lam)
    for name, tensor in state.learner.weights.items():
        assert torch.equal(tensor, weights[name].expand_as(tensor))
        assert torch.equal(state.learner.best_weights[name], weights[name])
    for slot, expected in zip(
        state.learner.optimizer.state.values(), momentum, strict=True
    ):
        assert torch.equal(
            slot["momentum_buffer"], expected.expand_as(slot["momentum_buffer"])
        )
    algorithm_of(problem).explore(state, 4)
    state.learner.explore(0.02, state.generator)
    assert torch.equal(state.lam, lam)
    noise = torch.cat(
        [(state.learner.weights[name] - weights[name]).flatten(1) for name in weights],
        dim=1,
    )
    assert math.isclose(noise.std().item(), 0.02, rel_tol=0.02)
    assert len(noise.unique(dim=0)) == 4
    assert math.isclose((state.lam_rows - lam).std().item(), 0.3, rel_tol=0.15)
    for name, tensor in state.learner.buffers.items():
        assert torch.equal(tensor, buffers[name].expand_as(tensor)), (
            "statistics are copied, and not disturbed"
        )
    plain = state.to_module()
    assert torch.equal(plain.get_parameter("conv.weight"), weights["conv.weight"])


@pytest.mark.parametrize("algorithm_name", ["population", "hyper-population"])
def test_a_population_that_does_not_divide_the_batch_is_one_line(
    algorithm_name: str,
) -> None:
    with pytest.raises(
        SettingsError, match="got batches of 8 images for population_size 3"
    ):
        begun_as_in_the_paper(algorithm=algorithm_name, population_size=3)
    # There are only 24 images, so that batches are smaller than asked for.
    with pytest.raises(
        SettingsError, match="got batches of 24 images for population_size 16"
    ):
        begun_as_in_the_paper(
            algorithm=algorithm_name, population_size=16, batch_size=32
        )
