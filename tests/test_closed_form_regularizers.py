"""Regularizers whose best weights are known: the tool's own dropout and weight decay in
linear regression.

STN is MacKay et al. 2019, Delta-STN is Bae and Grosse 2020.
"""

import math
from collections.abc import Callable

import pytest
import torch
from random_inputs import seeded
from torch import Tensor, nn

from hba.algorithms.responses import RESPONSES, TrainingBatch
from hba.hypernet import HyperNetwork, TunedRates

N_FEATURES = 3
N_IMAGES = 40
SIGMA = 0.2
"""Small, because neither penalty is quadratic in lambda: the limits below are those of
no noise.
"""
APART = ("separate", "linearized")


class Regression(nn.Module):
    """w (m x) for inputs x (B, d) and the mask m of a dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.dropout = nn.Dropout(0.0)
        self.weights = nn.Linear(N_FEATURES, 1, bias=False)
        self.last = nn.Linear(1, 1, bias=False)
        self.last.requires_grad_(False)
        nn.init.ones_(self.last.weight)

    def forward(self, x: Tensor) -> Tensor:
        return torch.as_tensor(self.last(self.weights(self.dropout(x))))


def half_squares(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs[:, 0] - targets).square().mean() / 2


def problem() -> tuple[Tensor, Tensor]:
    generator = seeded(0)
    inputs = torch.randn(N_IMAGES, N_FEATURES, generator=generator, dtype=torch.float64)
    noise = torch.randn(N_IMAGES, generator=generator, dtype=torch.float64)
    return (
        inputs,
        inputs @ torch.tensor([1.0, -0.5, 0.3], dtype=torch.float64) + 0.3 * noise,
    )


def best_weights(lam: float, ridge: Callable[[float, Tensor], Tensor]) -> Tensor:
    """(S + penalty) w = X^T y / N, with S = X^T X / N."""
    inputs, targets = problem()
    second = inputs.T @ inputs / N_IMAGES
    return torch.linalg.solve(
        second + ridge(lam, second), inputs.T @ targets / N_IMAGES
    )


def slope_of(lam: float, ridge: Callable[[float, Tensor], Tensor]) -> Tensor:
    step = 1e-4
    return (best_weights(lam + step, ridge) - best_weights(lam - step, ridge)) / (
        2 * step
    )


def of_dropout(lam: float, second: Tensor) -> Tensor:
    """With rate p = sigmoid(lambda) and inverted scaling, E |y - w (m x)|^2 is the
    plain loss plus p / (1 - p) sum_j S_jj w_j^2: a ridge whose strength is e^lambda.
    """
    return math.exp(lam) * second.diagonal().diag()


def of_weight_decay(lam: float, second: Tensor) -> Tensor:
    return math.exp(lam) * torch.eye(N_FEATURES, dtype=torch.float64)


def weights_at(hypernetwork: HyperNetwork, lam: float) -> Tensor:
    units = torch.eye(N_FEATURES, dtype=torch.float64)
    return hypernetwork.eval()(units, torch.tensor([lam], dtype=torch.float64))[
        :, 0
    ].detach()


def hypernetwork_at(lam: float, rates: TunedRates | None) -> HyperNetwork:
    generator = seeded(0)
    model = Regression()
    nn.init.zeros_(model.weights.weight)
    hypernetwork = HyperNetwork(model, 1, "all", generator, rates).double()
    nn.init.constant_(hypernetwork.response_parameters()[1], 0.1)
    hypernetwork.center.fill_(lam)
    return hypernetwork


@pytest.mark.parametrize("response", APART)
def test_tuned_weight_decay_is_ridge_regression_and_its_response_the_slope(
    response: str,
) -> None:
    lam = -1.0
    hypernetwork = hypernetwork_at(lam, rates=None)
    inputs, targets = problem()

    def penalty(outputs: Tensor, labels: Tensor, lam_rows: Tensor) -> Tensor:
        # The last layer, of a single frozen one, is no part of the norm.
        return (lam_rows[:, 0].exp() * hypernetwork.squared_norm(lam_rows)).mean() / 2

    noise = torch.tensor([SIGMA, -SIGMA], dtype=torch.float64).repeat_interleave(
        N_IMAGES
    )[:, None]
    optimizer = torch.optim.SGD(
        [weight for weight in hypernetwork.parameters() if weight.requires_grad],
        lr=0.5,
        momentum=0.95,
    )
    rows = inputs.repeat(2, 1), targets.repeat(2), lam + noise
    for _ in range(500):
        optimizer.zero_grad()
        RESPONSES[response](
            TrainingBatch(
                hypernetwork.train(), lambda x, _: x, half_squares, *rows, penalty
            )
        )
        optimizer.step()
    torch.testing.assert_close(
        weights_at(hypernetwork, lam),
        best_weights(lam, of_weight_decay),
        rtol=1e-4,
        atol=1e-6,
    )
    slope = weights_at(hypernetwork, lam + 0.5) - weights_at(hypernetwork, lam - 0.5)
    torch.testing.assert_close(
        slope, slope_of(lam, of_weight_decay), rtol=0.05, atol=2e-3
    )


@pytest.mark.parametrize("response", APART)
def test_tuned_dropout_of_the_inputs_is_ridge_regression_and_its_response_the_slope(
    response: str,
) -> None:
    """By its masks alone: nobody tells the weights of the ridge."""
    torch.manual_seed(0)
    lam = -1.0
    n_masks = 100
    hypernetwork = hypernetwork_at(lam, TunedRates({"dropout": 0}, torch.sigmoid))
    inputs, targets = problem()
    noise = torch.tensor([SIGMA, -SIGMA], dtype=torch.float64).repeat_interleave(
        n_masks * N_IMAGES // 2
    )[:, None]
    optimizer = torch.optim.SGD(
        [weight for weight in hypernetwork.parameters() if weight.requires_grad],
        lr=0.3,
        momentum=0.9,
    )
    rows = inputs.repeat(n_masks, 1), targets.repeat(n_masks), lam + noise
    averaged = torch.zeros(2, N_FEATURES, dtype=torch.float64)
    n_averaged = 0
    for step in range(500):
        optimizer.zero_grad()
        RESPONSES[response](
            TrainingBatch(hypernetwork.train(), lambda x, _: x, half_squares, *rows)
        )
        optimizer.step()
        if step >= 200:
            slope = weights_at(hypernetwork, lam + 0.5) - weights_at(
                hypernetwork, lam - 0.5
            )
            averaged += torch.stack([weights_at(hypernetwork, lam), slope])
            n_averaged += 1
    weights, slope = averaged / n_averaged
    torch.testing.assert_close(
        weights, best_weights(lam, of_dropout), rtol=0.01, atol=2e-3
    )
    torch.testing.assert_close(slope, slope_of(lam, of_dropout), rtol=0.1, atol=0.01)
    assert (
        weights - best_weights(lam, lambda *_: torch.zeros(3, 3, dtype=torch.float64))
    ).abs().max() > 0.05
