"""The gradients of the learnt scale of the noise (STN's eq. 15, MacKay et al. 2019),
against finite differences.

Of a validation loss F(lambda) = 1/2 sum_j h_j (lambda_j - b_j)^2, the objective is its
mean over normal noise of scale sigma, less tau sum_j log sigma_j.
"""

import math
from typing import Any
from unittest import mock

import pytest
import torch
from search_steps import algorithm_of, begun
from torch import Tensor, nn

from hba.algorithms.hypergradient import LearntScale

CURVATURES = (0.25, 1.0, 4.0, 16.0)
BEST = (0.5, -1.0, 0.0, 2.0)


class Answer(nn.Module):
    """In the place of a hypernetwork: its output is the lambda of each image, so a loss
    of outputs is one of lambda.
    """

    def forward(self, images: Tensor, rows: Tensor) -> Tensor:
        return rows.expand(len(images), -1)


def quadratic(rows: Tensor, labels: object = None) -> Tensor:
    """F, a mean over rows (B, n): curved by CURVATURES about BEST in the first columns,
    and flat in the others.
    """
    curvatures = torch.tensor(CURVATURES)
    best = torch.tensor(BEST)
    return ((rows[:, : len(best)] - best).square() * curvatures).sum(dim=1).mean() / 2


def searched(**settings: Any) -> tuple[Any, Any, Any]:
    """An algorithm, its problem, and its state; the hypernetwork answers lambda."""
    problem, state = begun(
        **{
            "algorithm": "hba",
            "initial_fraction": 0.5,
            "val_batch_size": 16,
            **settings,
        }
    )
    state.learner.hypernetwork = Answer()
    task = mock.Mock(loss=quadratic)
    object.__setattr__(problem, "task", task)
    return algorithm_of(problem), problem, state


@pytest.mark.parametrize("tau", [0.0, 0.3])
def test_a_step_goes_by_the_gradients_of_the_objective(tau: float) -> None:
    """By finite differences, in double precision, at the noise that the step draws."""
    algorithm, problem, state = searched(sigma_entropy=tau, sigma=0.75)
    rows = state.generator.clone_state()
    noise = torch.randn(16, len(state.lam), generator=rows).double()
    lam = state.lam.detach().double().clone()
    spread = state.mover.scale.spread.detach().double().clone()

    def objective(lam: Tensor, spread: Tensor) -> Tensor:
        sigma = (1 + spread.exp()).log()
        return quadratic(lam + sigma * noise) - tau * sigma.log().sum()

    algorithm.update_lambda(problem, state, ())
    small = 1e-5
    for column in range(len(CURVATURES) + 1):
        step = small * torch.eye(len(lam), dtype=torch.float64)[column]
        of_lam = (objective(lam + step, spread) - objective(lam - step, spread)) / (
            2 * small
        )
        of_spread = (objective(lam, spread + step) - objective(lam, spread - step)) / (
            2 * small
        )
        assert float(state.lam.grad[column]) == pytest.approx(
            float(of_lam), rel=1e-4, abs=1e-6
        )
        assert float(state.mover.scale.spread.grad[column]) == pytest.approx(
            float(of_spread), rel=1e-4, abs=1e-6
        )


@pytest.mark.parametrize("start", [-19.9, 0.0, 30.0])
def test_the_entropy_and_its_gradient_are_those_of_the_logarithm_of_sigma(
    start: float,
) -> None:
    spread = torch.tensor([start], dtype=torch.float64, requires_grad=True)
    scale = LearntScale(spread, torch.optim.Adam([spread]))
    entropy = scale.sigma.log().sum()
    (slope,) = torch.autograd.grad(entropy, spread)
    assert entropy.item() == pytest.approx(
        math.log(math.log1p(math.exp(start))), rel=1e-8
    )
    assert slope.item() == pytest.approx(
        1 / (1 + math.exp(-start)) / math.log1p(math.exp(start)), rel=1e-7
    )
