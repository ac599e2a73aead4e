"""Regularizers in a search: weight decay, dropout and what is added to the loss, and
the algorithm that tunes all.
"""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from random_inputs import seeded
from search_problems import SMALL_SETTINGS, small_data
from search_steps import (
    algorithm_of,
    begun,
    is_response,
    next_validation,
    respond_at_random,
    step,
)
from torch import Tensor, nn

import hba
from hba.algorithms.hypergradient import penalty_of, update_phi
from hba.algorithms.scores import expected_score
from hba.errors import SettingsError
from hba.policy.space import SearchSpace
from hba.policy.spaces import search_space
from hba.regularization.groups import hyperparameters_of


class Dropping(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Linear(3 * 64, 6)
        self.dropout = nn.Dropout(0.2)
        self.linear = nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        return torch.as_tensor(
            self.linear(self.dropout(F.relu(self.hidden(x.flatten(1)))))
        )


def network() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Dropping()


def space_of(tune: str, weight_decay: float = 0.01) -> SearchSpace:
    regularizers = hyperparameters_of(tune.split(","), network, weight_decay)
    if "augmentation" not in tune:
        return SearchSpace((), count_probabilities=(1.0,), regularizers=regularizers)
    return search_space("hba", ["Rotate", "Invert"], regularizers=regularizers)


def begun_with(tune: str, **settings: Any) -> tuple[Any, Any]:
    always = {"algorithm": "hba", "sharing": "all", "weight_decay": 0.01}
    return begun(space_of(tune), network=network(), **{**always, **settings})


@pytest.mark.parametrize("response", ["centered", "separate", "linearized"])
def test_a_tuned_weight_decay_without_noise_is_that_of_sgd(response: str) -> None:
    problem, state = begun_with("weight-decay", response=response, learning_rate=0.05)
    images, labels = state.train_stream.next()
    # Nothing is dropped, so that both see the same.
    state.learner.hypernetwork.model.dropout.p = 0.0
    expected = state.to_module().train()
    optimizer = torch.optim.SGD(
        expected.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01
    )
    F.cross_entropy(expected(problem.preprocessing.measure(images)), labels).backward()
    optimizer.step()
    update_phi(
        problem,
        state,
        (images, labels),
        state.lam.detach().expand(len(images), -1),
        response,
    )
    for name, weight in state.to_module().named_parameters():
        torch.testing.assert_close(
            weight, expected.get_parameter(name), rtol=1e-5, atol=1e-7
        )


def test_the_penalty_is_half_of_weight_decay_times_squared_norm_of_each_image() -> None:
    problem, state = begun_with("dropout,weight-decay")
    for parameter in state.learner.hypernetwork.response_parameters():
        nn.init.normal_(parameter, generator=seeded(0))
    rows = torch.randn(5, 2, generator=seeded(1))
    penalty = penalty_of(problem, state.learner)
    assert penalty is not None
    penalties = penalty(torch.zeros(5, 2), torch.zeros(5, dtype=torch.long), rows)
    norms = [
        sum(
            parameter.detach().square().sum()
            for parameter in state.learner.to_module(row).parameters()
        )
        for row in rows
    ]
    decays = problem.space.decode(rows)[:, 1]
    torch.testing.assert_close(
        penalties,
        (decays * torch.stack([torch.as_tensor(norm) for norm in norms])).mean() / 2,
    )


def test_weights_answer_weight_decay_alone_if_nothing_else_acts_through_them() -> None:
    """Of the joint search: operations and dropout of the input leave the response of
    the weights as it is.
    """
    problem, state = begun_with(
        "augmentation,input-dropout,weight-decay",
        algorithm="joint",
        divergence_weight=0.03,
    )
    for _ in range(3):
        algorithm_of(problem).train_step(problem, state)
    response = state.learner.hypernetwork.model.hidden.weight_V
    is_tuned_through_them = problem.through_weights
    assert is_tuned_through_them.tolist() == [
        name == "weight_decay" for name in problem.space.names
    ]
    assert (response[:, is_tuned_through_them] != 0).all()
    assert not response[:, ~is_tuned_through_them].any()


@pytest.mark.parametrize("draws", [1, 3])
def test_joint_moves_each_hyperparameter_by_its_own_gradient(draws: int) -> None:
    """Again, slowly: the gradient of every image apart, and the hypergradient."""
    settings = {
        "algorithm": "joint",
        "response": "centered",
        "reward_derivative": "exact",
    }
    problem, state = begun_with("augmentation,input-dropout,weight-decay", **settings)
    hypernetwork = state.learner.hypernetwork
    algorithm = algorithm_of(problem)
    respond_at_random(hypernetwork, 0.1)
    step(problem, state, 3)
    trial = algorithm.augmented(problem, state, *state.train_stream.next(), draws)
    ((images, labels),) = next_validation(problem, state)
    hypernetwork.eval()
    at = state.lam.detach().clone().requires_grad_()
    (through_response,) = torch.autograd.grad(
        F.cross_entropy(hypernetwork(images, at), labels), at
    )
    weights = [
        parameter
        for name, parameter in hypernetwork.named_parameters()
        if not is_response(name)
    ]
    direction = torch.autograd.grad(
        F.cross_entropy(hypernetwork(images, at.detach()), labels), weights
    )
    rewards = torch.zeros(len(trial.labels))
    for image in range(len(rewards)):
        logits = hypernetwork(trial.images[image : image + 1], at.detach())
        image_gradients = torch.autograd.grad(
            F.cross_entropy(logits, trial.labels[image : image + 1]), weights
        )
        rewards[image] = sum(
            (mine * v).sum() for mine, v in zip(image_gradients, direction, strict=True)
        )
    copies = rewards.reshape(draws, -1)
    other_rewards = (
        rewards.mean() if draws == 1 else (copies.sum(0) - copies) / (draws - 1)
    )
    compared = (copies - other_rewards).flatten()
    by_rewards = -expected_score(problem.space, trial, compared / compared.std())
    algorithm.move_lambda(
        problem,
        state,
        algorithm.gradient_by(problem, state, trial, *state.mover.val_stream.next()),
    )
    for column, name in enumerate(problem.space.names):
        expected = (through_response if name == "weight_decay" else by_rewards)[column]
        torch.testing.assert_close(
            state.lam.grad[column], expected, rtol=1e-3, atol=1e-5, msg=name
        )


def test_where_nothing_acts_on_images_joint_is_the_hypergradient_alone() -> None:
    settings = {
        "response": "separate",
        "train_steps": 2,
        "init": "fraction",
        "lambda_betas": (0.9, 0.999),
    }
    ends = []
    for algorithm in ("joint", "hba"):
        problem, state = begun_with(
            "dropout,weight-decay", algorithm=algorithm, **settings
        )
        torch.manual_seed(0)
        if algorithm == "joint":
            object.__setattr__(algorithm_of(problem), "strength_learning_rate", 0.0)
        for _ in range(4):
            algorithm_of(problem).step(problem, state)
        ends.append(state.lam.detach())
    assert torch.equal(*ends)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"tune": "dropout", "algorithm": "lookahead"},
            "lookahead cannot tune dropout, which acts through",
        ),
        ({"tune": "droput"}, "tune: unknown group 'droput'; did you mean dropout"),
        (
            {"tune": "weight-decay", "optimizer": "adamw"},
            "weight-decay .* the optimizer sgd",
        ),
    ],
)
def test_what_cannot_be_tuned_is_refused_in_one_line(
    settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(SettingsError, match=message):
        hba.search(small_data(), network=network(), **{**SMALL_SETTINGS, **settings})
