"""Look-ahead: rewards against autograd and real steps, and where its own steps lead."""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from former_default import FORMER
from random_inputs import seeded
from search_steps import (
    WithFrozenLayer,
    algorithm_of,
    begun,
    next_validation,
    space_of,
    step,
)
from torch import Tensor, nn
from torch.optim import AdamW
from torch.optim.lr_scheduler import ConstantLR

from hba.algorithms import Lookahead, lookahead
from hba.algorithms.rewards import rewards_of
from hba.algorithms.scores import AugmentedBatch, expected_score
from hba.algorithms.state import NetworkModel
from hba.models import build_model
from hba.policy.draw import SampleTrace


def begin_lookahead(**settings: Any) -> tuple[Any, Any]:
    return begun(**{"algorithm": "lookahead", **FORMER, "train_steps": 2, **settings})


def augment_next(problem: Any, state: Any, draws: int = 1) -> AugmentedBatch:
    """The next training images."""
    batch: AugmentedBatch = algorithm_of(problem).augmented(
        problem, state, *state.train_stream.next(), draws
    )
    return batch


def compare(rewards: Tensor, draws: int) -> Tensor:
    """With the mean of the batch, or of the image's two other draws."""
    if draws == 1:
        return rewards - rewards.mean()
    first, second, third = rewards.chunk(3)
    return rewards - torch.cat([second + third, first + third, first + second]) / 2


def trial_of(images: Tensor, labels: Tensor) -> AugmentedBatch:
    """For what reads images and labels only."""
    nothing = torch.zeros(len(labels), 0)
    return AugmentedBatch(
        images,
        labels,
        SampleTrace(nothing.bool(), nothing.bool(), nothing),
        nothing,
        nothing,
        1.0,
    )


def trained_network() -> tuple[nn.Module, AugmentedBatch, dict[str, Tensor]]:
    """In double precision and eval mode, with running statistics of its own; a batch;
    the validation gradient.
    """
    network = build_model("wrn-10-1", 2, seed=0).double()
    images = torch.randn(26, 3, 8, 8, generator=seeded(0)).double()
    labels = torch.arange(26) % 2
    for _ in range(3):
        network.train()(images)
    network.eval()
    F.cross_entropy(network(images[6:]), labels[6:]).backward()
    direction = {
        name: _gradient(parameter) for name, parameter in network.named_parameters()
    }
    network.zero_grad()
    return network, trial_of(images[:6], labels[:6]), direction


def _gradient(parameter: Tensor) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad.clone()


def loss_at(
    network: nn.Module,
    direction: dict[str, Tensor],
    distance: float,
    loss: Callable[[nn.Module], Any],
) -> Any:
    """The loss of a network whose weights went that far along the direction."""
    moved = copy.deepcopy(network)
    with torch.no_grad():
        for name, parameter in moved.named_parameters():
            parameter.add_(distance * direction[name])
        return loss(moved)


def image_gradient(
    network: nn.Module, trial: AugmentedBatch, image: int
) -> dict[str, Tensor]:
    copied = copy.deepcopy(network)
    F.cross_entropy(
        copied(trial.images[image : image + 1]), trial.labels[image : image + 1]
    ).backward()
    return {name: _gradient(parameter) for name, parameter in copied.named_parameters()}


def slopes(
    network: nn.Module, trial: AugmentedBatch, direction: dict[str, Tensor]
) -> Tensor:
    """Central differences of the loss of each image (B,)."""

    def losses(moved: nn.Module) -> Tensor:
        return F.cross_entropy(moved(trial.images), trial.labels, reduction="none")

    small = 1e-6
    plus, minus = (
        loss_at(network, direction, sign * small, losses) for sign in (1, -1)
    )
    slope: Tensor = (plus - minus) / (2 * small)
    return slope


def test_rewards_are_the_central_differences_of_the_losses() -> None:
    network, trial, direction = trained_network()
    rewards = rewards_of(network, trial, direction)
    torch.testing.assert_close(
        rewards, slopes(network, trial, direction), rtol=1e-6, atol=1e-8
    )


def test_a_network_with_a_frozen_layer_is_judged_by_what_it_trains() -> None:
    torch.manual_seed(0)
    problem, state = begin_lookahead(network=WithFrozenLayer(), learning_rate=0.001)
    step(problem, state, 4)
    assert (state.lam != 0).any(), "it started at the middle of every range"
    network = state.learner.network.double()
    trial = augment_next(problem, state)
    still = {
        name: torch.zeros_like(parameter)
        for name, parameter in network.named_parameters()
    }
    trained = {
        name: torch.randn_like(still[name])
        for name, parameter in network.named_parameters()
        if parameter.requires_grad
    }
    double = trial_of(trial.images.double(), trial.labels)
    rewards = rewards_of(network, double, trained)
    torch.testing.assert_close(
        rewards, slopes(network, double, still | trained), rtol=1e-5, atol=1e-7
    )


@pytest.mark.parametrize("draws", [1, 3])
def test_a_lambda_step_follows_the_validation_losses_after_real_steps_on_every_image(
    draws: int,
) -> None:
    """The whole chain again, slowly: one image, one step of SGD, one validation loss,
    and the score in plain loops.
    """
    space = space_of("Rotate", "Invert", "Color", count_probabilities=(0.0, 0.3, 0.7))
    problem, state = begin_lookahead(space=space, initial_fraction=0.4)
    step(problem, state, 3)
    trial = augment_next(problem, state, draws)
    ((images, labels),) = next_validation(problem, state)
    network = copy.deepcopy(state.learner.network).double().eval()
    double = trial_of(trial.images.double(), trial.labels)
    alpha = 1e-6
    lowered = []

    def validation(moved: nn.Module) -> float:
        return F.cross_entropy(moved(images.double()), labels).item()

    for image in range(len(trial.labels)):
        after = loss_at(
            network, image_gradient(network, double, image), -alpha, validation
        )
        lowered.append((validation(network) - after) / alpha)
    advantages = compare(torch.tensor(lowered), draws)
    uphill = expected_score(space, trial, advantages / advantages.std())
    algorithm_of(problem).update_lambda(problem, state, (None, None), trial)
    torch.testing.assert_close(state.lam.grad, -uphill, rtol=5e-3, atol=5e-4)


def plant_rewards(
    monkeypatch: pytest.MonkeyPatch, value: Callable[[AugmentedBatch], Tensor]
) -> None:
    monkeypatch.setattr(
        lookahead, "rewards_of", lambda network, trial, direction, **_: value(trial)
    )


@pytest.mark.parametrize("winner", [1, 3])
def test_the_slot_that_alone_is_rewarded_wins(
    winner: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = space_of("Rotate", "Invert", "Color", "Equalize")
    problem, state = begin_lookahead(
        space=space, initial_fraction=0.3, lambda_learning_rate=0.05, batch_size=24
    )
    generator = seeded(0)
    plant_rewards(
        monkeypatch,
        lambda trial: (
            trial.walk.fired[:, winner] + 0.5 * torch.randn(24, generator=generator)
        ),
    )
    for _ in range(80):
        algorithm_of(problem).update_lambda(
            problem, state, (None, None), augment_next(problem, state)
        )
    probabilities = torch.sigmoid(state.lam.detach())[
        [slot.probability for slot in space.slots]
    ].tolist()
    share = probabilities.pop(winner)
    assert share > 0.8
    assert share > 2 * max(probabilities)


BETAS = (0.9, 0.999)
N_IMAGES = 6
N_STEPS = 4


def learner_after_some_steps(images: Tensor, labels: Tensor) -> NetworkModel:
    """In double precision, so that small changes of a loss can be told."""
    network = build_model("wrn-10-1", 2, seed=0).double()
    optimizer = AdamW(network.parameters(), lr=1e-3, weight_decay=0.0)
    learner = NetworkModel(
        network=network, optimizer=optimizer, schedule=ConstantLR(optimizer, 1.0)
    )
    for _ in range(N_STEPS):
        learner.learn(images, labels)
    network.eval()
    return learner


def after_a_step(learner: NetworkModel, gradients: Sequence[Tensor]) -> list[Tensor]:
    """The weights after a step of PyTorch's AdamW along these gradients, from the
    learner's state, at a rate of 1.
    """
    network = copy.deepcopy(learner.network)
    optimizer = AdamW(network.parameters())
    optimizer.load_state_dict(copy.deepcopy(learner.optimizer.state_dict()))
    optimizer.param_groups[0]["lr"] = 1.0
    for parameter, gradient in zip(network.parameters(), gradients, strict=True):
        parameter.grad = gradient
    optimizer.step()
    return [parameter.detach() for parameter in network.parameters()]


def test_a_reward_is_what_an_image_adds_to_adamws_step_along_the_val_gradient() -> None:
    images = torch.randn(26, 3, 8, 8, generator=seeded(0)).double()
    labels = torch.arange(26) % 2
    learner = learner_after_some_steps(images[6:16], labels[6:16])
    weights = list(learner.network.parameters())
    loss = F.cross_entropy(learner.network(images[16:]), labels[16:])
    validation = torch.autograd.grad(loss, weights, retain_graph=True)
    trial = trial_of(images[:6], labels[:6])
    rewards = Lookahead().rewards(learner, trial, loss)
    without = after_a_step(learner, [torch.zeros_like(weight) for weight in weights])
    small = 1e-7
    changes = []
    for image in range(N_IMAGES):
        image_loss = F.cross_entropy(
            learner.network(trial.images[image : image + 1]),
            trial.labels[image : image + 1],
        )
        moved = after_a_step(
            learner,
            [small * gradient for gradient in torch.autograd.grad(image_loss, weights)],
        )
        along = [
            (v * (with_image - other)).sum()
            for v, with_image, other in zip(validation, moved, without, strict=True)
        ]
        changes.append(torch.stack(along).sum() / small)
    # A gradient of nearly nothing shrinks all mean squares alike; what Adam's
    # corrections make of that is one number.
    steps = N_STEPS + 1
    root = (BETAS[1] * (1 - BETAS[1] ** N_STEPS) / (1 - BETAS[1] ** steps)) ** 0.5
    factor = (1 - BETAS[0]) / (1 - BETAS[0] ** steps) / root
    torch.testing.assert_close(
        torch.stack(changes), -factor * rewards, rtol=5e-3, atol=1e-6
    )
