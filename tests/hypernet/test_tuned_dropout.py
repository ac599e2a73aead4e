"""Dropout at a rate of each image's own."""

import pytest
import torch
from random_inputs import seeded
from torch import Tensor, nn
from torch.autograd import forward_ad

from hba.hypernet import HyperNetwork, TunedRates

N = 2
BATCH = 400


class Dropping(nn.Module):
    """A linear layer, so that there is something to answer lambda, behind a dropout."""

    def __init__(self, dropout: nn.Module) -> None:
        super().__init__()
        self.dropout = dropout
        self.hidden = nn.Linear(3, 3)
        self.last = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        return torch.as_tensor(self.dropout(x))


def decode(lam: Tensor) -> Tensor:
    return 0.95 * lam.sigmoid()


def tuned(dropout: nn.Module) -> HyperNetwork:
    return HyperNetwork(
        Dropping(dropout), N, "all", rates=TunedRates({"dropout": 1}, decode)
    )


def rows_of(rates: Tensor) -> Tensor:
    """Lambda (B, 2) that stand for these rates (B,)."""
    return torch.stack([torch.zeros_like(rates), (rates / 0.95).logit()], dim=1)


def test_each_image_loses_its_own_share_and_keeps_its_mean() -> None:
    torch.manual_seed(0)
    rates = torch.tensor([0.1, 0.5, 0.9])
    x = torch.ones(3, 40_000)
    dropped = tuned(nn.Dropout(0.0)).train()(x, rows_of(rates))
    torch.testing.assert_close(
        (dropped == 0).float().mean(dim=1), rates, atol=0.01, rtol=0
    )
    for row, rate in zip(dropped, rates, strict=True):
        torch.testing.assert_close(row[row != 0].unique(), 1 / (1 - rate)[None])


@pytest.mark.parametrize(
    ("dropout", "shape"),
    [
        (nn.Dropout1d(0.0), (BATCH, 5, 7)),
        (nn.Dropout2d(0.0), (BATCH, 5, 3, 3)),
        (nn.Dropout3d(0.0), (BATCH, 5, 2, 2, 2)),
    ],
)
def test_dropout_of_channels_drops_whole_ones(
    dropout: nn.Module, shape: tuple[int, ...]
) -> None:
    torch.manual_seed(0)
    dropped = tuned(dropout).train()(
        torch.ones(shape), rows_of(torch.full((BATCH,), 0.5))
    )
    of_channels = dropped.flatten(2)
    assert (of_channels == of_channels[..., :1]).all()
    assert 0.4 < float((of_channels[..., 0] == 0).float().mean()) < 0.6


def test_in_the_first_order_rates_are_those_of_the_rows_and_not_of_the_center() -> None:
    torch.manual_seed(0)
    hypernetwork = tuned(nn.Dropout(0.0)).train()
    x = torch.ones(BATCH, 100)
    hypernetwork.center.fill_(0.9)
    with forward_ad.dual_level():
        dropped = forward_ad.unpack_dual(
            hypernetwork.first_order(x, rows_of(torch.full((BATCH,), 0.2)))
        ).primal
    assert float((dropped == 0).float().mean()) == pytest.approx(0.2, abs=0.01)


def test_a_plain_network_has_the_modules_own_dropout_at_the_rate_of_lambda() -> None:
    network = Dropping(nn.Dropout2d(0.1))
    hypernetwork = HyperNetwork(
        network, N, "all", rates=TunedRates({"dropout": 1}, decode)
    )
    plain = hypernetwork.to_module(rows_of(torch.tensor([0.6]))[0])
    dropout = plain.get_submodule("dropout")
    assert type(dropout) is nn.Dropout2d
    assert dropout.p == pytest.approx(0.6)
    assert network.dropout.p == 0.1
    assert hypernetwork.to_module(rows_of(torch.tensor([0.3]))[0]).get_submodule(
        "dropout"
    ).p == pytest.approx(0.3)


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, groups=1)
        self.bn = nn.BatchNorm2d(4)
        self.hidden = nn.Linear(4, 5)
        self.last = nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        return torch.as_tensor(
            self.last(self.hidden(self.bn(self.conv(x)).mean((2, 3))))
        )


@pytest.mark.parametrize("sharing", ["first-bn", "conv", "conv+bn", "all"])
def test_the_squared_norm_is_that_of_the_weights_of_each_image(sharing: str) -> None:
    generator = seeded(0)
    hypernetwork = HyperNetwork(Layers(), N, sharing, generator).double()
    hypernetwork.center.normal_(generator=generator)
    for parameter in hypernetwork.parameters():
        nn.init.normal_(parameter, generator=generator)
    lam = torch.randn(6, N, generator=generator, dtype=torch.float64)
    expected = [
        sum(
            float(parameter.detach().square().sum())
            for parameter in hypernetwork.to_module(row).parameters()
        )
        for row in lam
    ]
    torch.testing.assert_close(
        hypernetwork.squared_norm(lam), torch.tensor(expected, dtype=torch.float64)
    )
