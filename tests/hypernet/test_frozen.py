"""Weights that are frozen in the network stay frozen in hyper-layers and in the plain network."""

import copy

import pytest
import torch
from each import each
from torch import Tensor, nn

from hba.errors import SettingsError
from hba.hypernet import SHARING, HyperLayer, HyperNetwork

N = 3
BATCH = 4


class Network(nn.Module):
    """Every kind of layer that can get a hyper-layer, twice."""

    def __init__(self) -> None:
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(3), nn.Conv2d(3, 4, 3)
        self.bn2, self.conv2 = nn.BatchNorm2d(4), nn.Conv2d(4, 6, 3)
        self.hidden, self.hidden2, self.head = nn.Linear(6, 5), nn.Linear(5, 5), nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.conv1(self.bn1(x)))
        x = torch.tanh(self.conv2(self.bn2(x)))
        return torch.as_tensor(self.head(torch.tanh(self.hidden2(torch.tanh(self.hidden(x.mean(dim=(2, 3))))))))


def network(*frozen: str) -> nn.Module:
    """With some parameters frozen, by the beginning of their names."""
    torch.manual_seed(0)
    model = Network()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(not name.startswith(frozen))
    return model


def randn(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def hyper_names(model: nn.Module) -> list[str]:
    return [name for name, layer in model.named_modules() if isinstance(layer, HyperLayer)]


def train(hyper: HyperNetwork, steps: int = 3) -> None:
    """All that a training does to parameters: gradient, momentum, and much decay."""
    optimizer = torch.optim.SGD(hyper.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1)
    for step in range(steps):
        optimizer.zero_grad()
        hyper(randn(BATCH, 3, 9, 9, seed=step), randn(BATCH, N, seed=step)).square().sum().backward()
        optimizer.step()


FIRST_LAYERS = ("bn1", "conv1", "hidden.")
EXPECTED = {
    "first-bn": ["bn2"],
    "bn": ["bn2"],
    "first-conv": ["conv2"],
    "conv": ["conv2"],
    "conv+bn": ["bn2", "conv2"],
    "all": ["bn2", "conv2", "hidden2"],
    "every": ["bn2", "conv2", "hidden2", "head"],
}


@each("sharing", SHARING)
def test_frozen_layers_are_no_hyper_layers_and_never_move(sharing: str) -> None:
    model = network(*FIRST_LAYERS)
    before = copy.deepcopy(model)
    hyper = HyperNetwork(model, N, sharing)
    assert hyper_names(hyper.model) == EXPECTED[sharing]
    train(hyper)
    for name, parameter in hyper.to_module(randn(N)).named_parameters():
        is_frozen = name.startswith(FIRST_LAYERS)
        assert torch.equal(parameter, before.get_parameter(name)) == is_frozen, name
        assert parameter.requires_grad == (not is_frozen), name


HALVES = ("bn1.weight", "bn2.bias", "conv1.weight", "conv2.bias", "hidden.weight", "hidden2.bias")
OTHER_HALVES = ("bn1.bias", "bn2.weight", "conv1.bias", "conv2.weight", "hidden.bias", "hidden2.weight")


@each("frozen", [HALVES, OTHER_HALVES], ids=["halves", "other halves"])
def test_a_frozen_weight_or_bias_never_moves_while_the_other_answers_lambda(frozen: tuple[str, ...]) -> None:
    model = network(*frozen)
    hyper = HyperNetwork(model, N, "all")
    train(hyper)
    at, elsewhere = (dict(hyper.to_module(randn(N, seed=seed)).named_parameters()) for seed in (5, 6))
    for name in (*HALVES, *OTHER_HALVES):
        assert at[name].requires_grad == (name not in frozen), name
        assert torch.equal(at[name], model.get_parameter(name)) == (name in frozen), name
        assert torch.equal(at[name], elsewhere[name]) == (name in frozen), name


@each("frozen", [HALVES, OTHER_HALVES], ids=["halves", "other halves"])
@each("per_image", [True, False])
def test_half_frozen_layers_compute_what_the_plain_network_does(frozen: tuple[str, ...], per_image: bool) -> None:
    hyper = HyperNetwork(network(*frozen), N, "all")
    train(hyper)
    hyper.eval()
    x, lam = randn(BATCH, 3, 9, 9), randn(N)
    torch.testing.assert_close(hyper(x, lam.expand(BATCH, N) if per_image else lam), hyper.to_module(lam)(x))


def test_response_parameters_are_trained_ones_only() -> None:
    hyper = HyperNetwork(network(*HALVES), N, "all")
    response = hyper.response_parameters()
    assert all(parameter.requires_grad for parameter in response)
    # Two for each layer, of which one half is frozen.
    assert len(response) == 2 * 6


@each(("sharing", "kinds"), [("first-bn", "BatchNorm2d"), ("bn", "BatchNorm2d"), ("conv+bn", "Conv2d or BatchNorm2d")])
def test_where_all_layers_of_a_strategy_are_frozen_it_is_refused_by_name(sharing: str, kinds: str) -> None:
    with pytest.raises(SettingsError) as raised:
        HyperNetwork(network("bn", "conv"), N, sharing)
    assert str(raised.value) == (
        f"sharing '{sharing}' needs a {kinds} layer that is not frozen, in Network all are frozen ('bn1' first); "
        "strategies that work here: all, every; the algorithms lookahead and population need none"
    )
