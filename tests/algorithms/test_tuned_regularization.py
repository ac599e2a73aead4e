"""Regularizers in a search: weight decay, dropout and what is added to the loss, and
the algorithm that tunes all.
"""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
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
        self.hidden, self.dropout, self.linear = (
            nn.Linear(3 * 64, 6),
            nn.Dropout(0.2),
            nn.Linear(6, 2),
        )

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
    task, state = begun_with("weight-decay", response=response, learning_rate=0.05)
    images, labels = state.train_stream.next()
    # Nothing is dropped, so that both see the same.
    state.learner.hypernetwork.model.dropout.p = 0.0
    expected = state.to_module().train()
    optimizer = torch.optim.SGD(
        expected.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01
    )
    F.cross_entropy(expected(task.preprocessing.measure(images)), labels).backward()
    optimizer.step()
    update_phi(
        task,
        state,
        (images, labels),
        state.lam.detach().expand(len(images), -1),
        response,
    )
    for name, weight in state.to_module().named_parameters():
        torch.testing.assert_close(
            weight, expected.get_parameter(name), rtol=1e-5, atol=1e-7
        )


def test_the_penalty_is_half_the_weight_decay_of_each_image_times_its_squared_norm() -> (
    None
):
    task, state = begun_with("dropout,weight-decay")
    for parameter in state.learner.hypernetwork.response_parameters():
        nn.init.normal_(parameter, generator=torch.Generator().manual_seed(0))
    rows = torch.randn(5, 2, generator=torch.Generator().manual_seed(1))
    penalty = penalty_of(task, state.learner)
    assert penalty is not None
    found = penalty(torch.zeros(5, 2), torch.zeros(5, dtype=torch.long), rows)
    norms = [
        sum(
            one.detach().square().sum()
            for one in state.learner.to_module(row).parameters()
        )
        for row in rows
    ]
    decays = task.space.decode(rows)[:, 1]
    torch.testing.assert_close(
        found,
        (decays * torch.stack([torch.as_tensor(norm) for norm in norms])).mean() / 2,
    )


def test_the_weights_answer_weight_decay_alone_where_nothing_else_is_tuned_through_them() -> (
    None
):
    """Of the joint search: operations and dropout of the input leave the response of
    the weights as it is.
    """
    task, state = begun_with(
        "augmentation,input-dropout,weight-decay",
        algorithm="joint",
        divergence_weight=0.03,
    )
    for _ in range(3):
        algorithm_of(task).train_step(task, state)
    response = state.learner.hypernetwork.model.hidden.weight_V
    is_tuned_through_them = task.through_weights
    assert is_tuned_through_them.tolist() == [
        name == "weight_decay" for name in task.space.names
    ]
    assert (response[:, is_tuned_through_them] != 0).all()
    assert not response[:, ~is_tuned_through_them].any()


@pytest.mark.parametrize("draws", [1, 3])
def test_joint_moves_each_hyperparameter_by_its_own_gradient(draws: int) -> None:
    """Again, slowly: the gradient of every image apart, and the hypergradient."""
    how = {"algorithm": "joint", "response": "centered", "reward_derivative": "exact"}
    task, state = begun_with("augmentation,input-dropout,weight-decay", **how)
    hypernetwork, algorithm = state.learner.hypernetwork, algorithm_of(task)
    respond_at_random(hypernetwork, 0.1)
    step(task, state, 3)
    trial = algorithm.augmented(task, state, *state.train_stream.next(), draws)
    ((images, labels),) = next_validation(task, state)
    hypernetwork.eval()
    at = state.lam.detach().clone().requires_grad_()
    (through_response,) = torch.autograd.grad(
        F.cross_entropy(hypernetwork(images, at), labels), at
    )
    weights = [
        one for name, one in hypernetwork.named_parameters() if not is_response(name)
    ]
    direction = torch.autograd.grad(
        F.cross_entropy(hypernetwork(images, at.detach()), labels), weights
    )
    rewards = torch.zeros(len(trial.labels))
    for image in range(len(rewards)):
        logits = hypernetwork(trial.images[image : image + 1], at.detach())
        of_image = torch.autograd.grad(
            F.cross_entropy(logits, trial.labels[image : image + 1]), weights
        )
        rewards[image] = sum(
            (mine * v).sum() for mine, v in zip(of_image, direction, strict=True)
        )
    copies = rewards.reshape(draws, -1)
    others = rewards.mean() if draws == 1 else (copies.sum(0) - copies) / (draws - 1)
    compared = (copies - others).flatten()
    by_rewards = -expected_score(task.space, trial, compared / compared.std())
    algorithm.move_lambda(
        task,
        state,
        algorithm.gradient_by(task, state, trial, *state.mover.val_stream.next()),
    )
    for column, name in enumerate(task.space.names):
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
        task, state = begun_with(
            "dropout,weight-decay", algorithm=algorithm, **settings
        )
        torch.manual_seed(0)
        if algorithm == "joint":
            object.__setattr__(algorithm_of(task), "strength_learning_rate", 0.0)
        for _ in range(4):
            algorithm_of(task).step(task, state)
        ends.append(state.lam.detach())
    assert torch.equal(*ends)


@pytest.mark.parametrize(
    ("settings", "said"),
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
    settings: dict[str, Any], said: str
) -> None:
    with pytest.raises(SettingsError, match=said):
        hba.search(small_data(), network=network(), **{**SMALL_SETTINGS, **settings})
