"""What the papers prove of responses, held against hba/algorithms/responses.py where a
closed form is known.

STN is MacKay et al. 2019, Delta-STN is Bae and Grosse 2020.
"""

import math
from collections.abc import Callable

import pytest
import torch
from random_inputs import seeded
from torch import Tensor, nn

from hba.algorithms.responses import RESPONSES, TrainingBatch
from hba.hypernet import HyperNetwork

Augment = Callable[[Tensor, Tensor], Tensor]
HELD = 0.7
"""lambda, where it stays."""


class Linear(nn.Module):
    """w x + s for inputs (x, s) (B, d + 1). A last layer only reads: no strategy gives
    that one a hyper-layer.
    """

    def __init__(self, n_features: int) -> None:
        super().__init__()
        self.weights = nn.Linear(n_features, 1, bias=False)
        self.reading = nn.Linear(1, 1, bias=False).requires_grad_(False)
        nn.init.ones_(self.reading.weight)

    def forward(self, inputs: Tensor) -> Tensor:
        return torch.as_tensor(
            self.reading(self.weights(inputs[:, :-1]) + inputs[:, -1:])
        )


def hypernetwork_of(n_features: int, response: str) -> HyperNetwork:
    generator = seeded(0)
    network = Linear(n_features)
    nn.init.normal_(network.weights.weight, generator=generator)
    hypernetwork = HyperNetwork(network, 1, "all", generator).double()
    for parameter in hypernetwork.response_parameters():
        nn.init.normal_(parameter, std=0.5, generator=generator)
    if response != "affine":
        hypernetwork.center.fill_(HELD)
    return hypernetwork


def half_squares(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs[:, 0] - targets).square().mean() / 2


def learnt(
    hypernetwork: HyperNetwork,
    response: str,
    augment: Augment,
    rows: tuple[Tensor, Tensor, Tensor],
    n_steps: int,
) -> None:
    """Gradient descent by the gradients of that response. rows: inputs (B, d), targets
    (B,) and lambda (B, 1).
    """
    learned = [
        parameter for parameter in hypernetwork.parameters() if parameter.requires_grad
    ]
    optimizer = torch.optim.SGD(learned, lr=0.1, momentum=0.9)
    for _ in range(n_steps):
        optimizer.zero_grad()
        RESPONSES[response](TrainingBatch(hypernetwork, augment, half_squares, *rows))
        optimizer.step()


def weights_at(hypernetwork: HyperNetwork, lam: float, n_features: int) -> Tensor:
    """w (d,)."""
    units = torch.cat(
        [torch.eye(n_features), torch.zeros(n_features, 1)], dim=1
    ).double()
    return hypernetwork(units, torch.tensor([lam], dtype=torch.float64))[:, 0].detach()


@pytest.mark.parametrize("response", RESPONSES)
def test_of_a_jointly_quadratic_loss_every_response_is_exact_whatever_the_noise(
    response: str,
) -> None:
    """STN's theorem 3 and Delta-STN's: |A w + b lambda - t|^2 / 2 has the best w at
    -A^+ (b lambda - t), and so the Jacobian -A^+ b. Two lambdas, at plus and minus
    sigma, have the moments that a quadratic loss sees of normal noise.
    """
    generator = seeded(1)
    inputs, shifts, targets = (
        torch.randn(6, n, dtype=torch.float64, generator=generator) for n in (2, 1, 1)
    )
    sigma = 2.0
    noise = torch.tensor([[sigma], [-sigma]], dtype=torch.float64).repeat_interleave(
        len(inputs), dim=0
    )
    rows = (
        torch.cat([inputs, shifts], dim=1).repeat(2, 1),
        targets[:, 0].repeat(2),
        HELD + noise,
    )

    def augment(images: Tensor, lam_rows: Tensor) -> Tensor:
        return torch.cat([images[:, :2], images[:, 2:] * lam_rows], dim=1)

    hypernetwork = hypernetwork_of(2, response)
    learnt(hypernetwork, response, augment, rows, 500)
    inverse = torch.linalg.pinv(inputs)
    best = inverse @ (targets - shifts * HELD)
    torch.testing.assert_close(
        weights_at(hypernetwork, HELD, 2), best[:, 0], rtol=1e-6, atol=1e-8
    )
    slope = (
        weights_at(hypernetwork, HELD + 1, 2) - weights_at(hypernetwork, HELD - 1, 2)
    ) / 2
    torch.testing.assert_close(slope, -(inverse @ shifts)[:, 0], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("response", RESPONSES)
def test_of_a_penalty_only_what_is_learnt_apart_has_unbiased_weights(
    response: str,
) -> None:
    """Delta-STN, appendix G: with (w - 1)^2 + e^lambda w^2, normal noise of sigma 1 at
    lambda = -2, the weight that is learnt together with its response solves two
    equations in E e^eps = e^(1/2), E eps e^eps = e^(1/2) and E eps^2 e^eps = 2 e^(1/2),
    and is too small; learnt apart it is 1 / (1 + e^lambda).
    """
    lam = -2.0
    n_rows = 501
    # Quantiles of the normal distribution, and so its moments but for what is missing
    # at the ends.
    eps = torch.special.ndtri(
        (torch.arange(n_rows, dtype=torch.float64) + 0.5) / n_rows
    )[:, None]
    m_0, m_1, m_2 = (
        math.exp(lam) * float((eps**power * eps.exp()).mean()) for power in (0, 1, 2)
    )
    assert [m_0, m_1, m_2] == pytest.approx(
        [math.exp(lam + 0.5) * factor for factor in (1, 1, 2)], rel=0.06
    )
    moments = torch.tensor(
        [[1 + m_0, m_1], [m_1, float(eps.square().mean()) + m_2]], dtype=torch.float64
    )
    together = torch.linalg.solve(
        moments, torch.tensor([1.0, 0.0], dtype=torch.float64)
    )
    apart = 1 / (1 + math.exp(lam))
    is_apart = response in ("separate", "linearized")
    expected = apart if is_apart else float(together[0])
    assert (together[0], apart) == pytest.approx((0.841, 0.881), abs=6e-3)

    hypernetwork = hypernetwork_of(1, response)
    hypernetwork.center.mul_(lam / HELD)
    rows = (
        torch.ones(2 * n_rows, 2, dtype=torch.float64),
        torch.zeros(2 * n_rows, dtype=torch.float64),
    )
    rows[1][:n_rows] = 1

    def augment(images: Tensor, lam_rows: Tensor) -> Tensor:
        penalty = (lam_rows[n_rows:] / 2).exp()
        return torch.cat(
            [
                torch.cat([images[:n_rows, :1], penalty]),
                torch.zeros_like(images[:, 1:]),
            ],
            dim=1,
        )

    learnt(hypernetwork, response, augment, (*rows, (lam + eps).repeat(2, 1)), 320)
    assert float(weights_at(hypernetwork, lam, 1)) == pytest.approx(expected, rel=1e-5)
