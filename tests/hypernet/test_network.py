"""HyperNetwork: which layers it replaces, and that it stays the given network otherwise."""

import copy
from typing import Any

import pytest
import torch
from each import each
from torch import Tensor, nn
from torch.autograd import forward_ad

from hba.errors import SettingsError
from hba.hypernet import HyperBatchNorm2d, HyperConv2d, HyperLayer, HyperLinear, HyperNetwork
from hba.models import build_model

N = 3
BATCH = 4
STRATEGIES = ("first-bn", "bn", "first-conv", "conv", "conv+bn", "all", "every")
NETWORKS = ("small", "wrn-10-1")


class Small(nn.Module):
    """Runs its layers in another order than it defines them, with a hidden linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.late_bn = nn.BatchNorm2d(6)
        self.conv1 = nn.Conv2d(3, 4, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(4)
        self.conv2 = nn.Conv2d(4, 6, 3, stride=2, groups=2)
        self.hidden = nn.Linear(6, 5)
        self.head = nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.bn1(self.conv1(x)))
        x = torch.tanh(self.late_bn(self.conv2(x)))
        return self.head(torch.tanh(self.hidden(x.mean(dim=(2, 3)))))


SMALL = {
    "first-bn": ["late_bn"],
    "bn": ["late_bn", "bn1"],
    "first-conv": ["conv1"],
    "conv": ["conv1", "conv2"],
    "conv+bn": ["late_bn", "conv1", "bn1", "conv2"],
    "all": ["late_bn", "conv1", "bn1", "conv2", "hidden"],
    "every": ["late_bn", "conv1", "bn1", "conv2", "hidden", "head"],
}
WRN_BLOCK = ["bn1", "conv1", "bn2", "conv2"]
WRN_10_1 = [
    "conv",
    *[f"blocks.0.{layer}" for layer in WRN_BLOCK],
    *[f"blocks.{block}.{layer}" for block in (1, 2) for layer in [*WRN_BLOCK, "shortcut"]],
    "bn",
]


def known_answers(layers: list[str], is_bn: dict[str, bool], head: str) -> dict[str, list[str]]:
    bn = [name for name in layers if is_bn[name]]
    conv = [name for name in layers if not is_bn[name]]
    some = {"first-bn": bn[:1], "bn": bn, "first-conv": conv[:1], "conv": conv}
    return {**some, "conv+bn": layers, "all": layers, "every": [*layers, head]}


ANSWERS: dict[str, dict[str, list[str]]] = {
    "small": SMALL,
    "wrn-10-1": known_answers(WRN_10_1, {name: "bn" in name for name in WRN_10_1}, "linear"),
}
KINDS: dict[type[nn.Module], type[HyperLayer]] = {
    nn.BatchNorm2d: HyperBatchNorm2d,
    nn.Conv2d: HyperConv2d,
    nn.Linear: HyperLinear,
}


def make(network: str) -> nn.Module:
    torch.manual_seed(0)
    return Small() if network == "small" else build_model(network, n_classes=3, seed=0)


def randn(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def trained(network: str, sharing: str) -> HyperNetwork:
    """With parameters moved at random and running statistics that batches have left their mark on."""
    hyper = HyperNetwork(make(network), N, sharing)
    source = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in hyper.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=source))
        for step in range(2):
            hyper(randn(BATCH, 3, 12, 12, seed=step), randn(BATCH, N))
    return hyper.eval()


def hyper_names(network: nn.Module) -> list[str]:
    return [name for name, layer in network.named_modules() if isinstance(layer, HyperLayer)]


def cases(*networks: str) -> list[Any]:
    return [pytest.param(network, sharing, id=f"{network} {sharing}") for network in networks for sharing in STRATEGIES]


@each(("network", "sharing"), cases(*NETWORKS))
def test_exactly_the_layers_of_the_strategy_are_replaced_each_by_its_kind(network: str, sharing: str) -> None:
    before = dict(make(network).named_modules())
    hyper = HyperNetwork(make(network), N, sharing)
    assert hyper_names(hyper.model) == ANSWERS[network][sharing]
    for name, layer in before.items():
        after = hyper.model.get_submodule(name)
        expected = KINDS[type(layer)] if name in ANSWERS[network][sharing] else type(layer)
        assert type(after) is expected, name


@each(("network", "sharing"), cases("small"))
def test_training_the_hypernetwork_leaves_the_given_model_unchanged(network: str, sharing: str) -> None:
    model = make(network)
    before = copy.deepcopy(model.state_dict())
    hyper = HyperNetwork(model, N, sharing)
    hyper(randn(BATCH, 3, 12, 12), randn(N))
    for parameter in hyper.parameters():
        parameter.data.add_(1)
    assert hyper_names(model) == []
    assert list(model.state_dict()) == list(before)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


@each("training", [True, False])
@each(("network", "sharing"), cases("small"))
def test_at_the_start_the_output_is_the_models_whatever_lambda_is(network: str, sharing: str, training: bool) -> None:
    model, x = make(network).train(training), randn(BATCH, 3, 12, 12)
    expected = model(x)
    hyper = HyperNetwork(model, N, sharing)
    assert hyper.model.training == training
    for lam in (5 * randn(N), 5 * randn(BATCH, N)):
        torch.testing.assert_close(hyper(x, lam), expected, rtol=1e-4, atol=1e-5)


@each(("network", "sharing"), cases("small"))
def test_plain_is_an_ordinary_network_with_the_output_at_lambda(network: str, sharing: str) -> None:
    hyper, x, lam = trained(network, sharing), randn(BATCH, 3, 12, 12), randn(N)
    plain = hyper.to_module(lam)
    assert hyper_names(plain) == []
    assert list(plain.state_dict()) == list(make(network).state_dict())
    torch.testing.assert_close(hyper(x, lam), plain(x), rtol=1e-3, atol=1e-4)
    assert not torch.allclose(hyper(x, lam), hyper(x, -lam), rtol=1e-2)


@each(("network", "sharing"), cases("small"))
def test_each_image_gets_the_ordinary_network_of_its_own_lambda(network: str, sharing: str) -> None:
    hyper, x, lam = trained(network, sharing), randn(BATCH, 3, 12, 12), randn(BATCH, N)
    expected = torch.cat([hyper.to_module(lam[i])(x[i : i + 1]) for i in range(BATCH)])
    torch.testing.assert_close(hyper(x, lam), expected, rtol=1e-4, atol=1e-5)


def test_an_unknown_strategy_is_refused_with_the_known_ones() -> None:
    with pytest.raises(SettingsError, match="unknown sharing 'batchnorm'") as raised:
        HyperNetwork(Small(), N, "batchnorm")
    assert all(name in str(raised.value) for name in STRATEGIES)


@each("shape", [(), (N + 1,), (1,), (BATCH,), (BATCH, N + 1), (BATCH + 1, N), (1, N), (BATCH, N, 1)])
def test_lambda_of_a_wrong_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(SettingsError, match="lam must be of shape"):
        HyperNetwork(Small(), N)(randn(BATCH, 3, 12, 12), torch.zeros(shape))


@each("shape", [(N,), (BATCH, N)])
@each("sharing", STRATEGIES)
def test_forward_mode_derivative_in_lambda_equals_the_backward_mode(sharing: str, shape: tuple[int, ...]) -> None:
    hyper, x = trained("small", sharing).double(), randn(BATCH, 3, 12, 12).double()
    lam, direction = randn(*shape).double(), randn(*shape, seed=5).double()
    state = {**dict(hyper.named_parameters()), **dict(hyper.named_buffers())}

    def loss(at: Tensor) -> Tensor:
        logits: Tensor = torch.func.functional_call(hyper, state, (x, at))
        return logits.square().sum()

    value, derivative, *_ = torch.func.jvp(loss, (lam,), (direction,))
    at = lam.clone().requires_grad_()
    backward = torch.autograd.grad(hyper(x, at).square().sum(), at)[0]
    torch.testing.assert_close(value, hyper(x, lam).square().sum())
    torch.testing.assert_close(derivative, (backward * direction).sum())
    assert abs(float(derivative.detach())) > 1e-6


@each("mode", ["train", "eval"])
@each("sharing", STRATEGIES)
def test_the_first_order_is_the_derivative_of_the_output_at_the_center(sharing: str, mode: str) -> None:
    hyper, x, rows = trained("small", sharing).double().train(mode == "train"), randn(BATCH, 3, 12, 12), randn(BATCH, N)
    x, rows = x.double(), rows.double()
    hyper.center.copy_(randn(N, seed=3))
    center, response = hyper.center.expand_as(rows).clone(), hyper.response_parameters()
    own, wanted = [], []
    with forward_ad.dual_level():
        for dual in (hyper(x, forward_ad.make_dual(center, rows - center)), hyper.first_order(x, rows)):
            value, change = forward_ad.unpack_dual(dual)
            assert change is not None
            own.append((value, change))
            wanted.append(torch.autograd.grad(change.square().sum(), response, allow_unused=True))
    for found, expected in zip(own[1], own[0], strict=True):
        torch.testing.assert_close(found, expected)
    assert any(one is not None and one.any() for one in wanted[1])
    for found, expected in zip(wanted[1], wanted[0], strict=True):
        torch.testing.assert_close(found, expected)
    assert hyper.door.eps is None


def test_layers_that_share_a_weight_are_refused_where_one_would_get_another() -> None:
    head = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 2)
    network = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), *head)
    network[5].weight = network[4].weight
    with pytest.raises(SettingsError, match=r"cannot replace '4': it shares a weight with '5'.*work here: .*conv\+bn"):
        HyperNetwork(network, N, "all")
    tied = HyperNetwork(network, N, "first-bn").model
    assert tied.get_submodule("4").weight is tied.get_submodule("5").weight


def test_layers_do_not_run_outside_of_the_hypernetwork_before_or_after_a_forward_pass() -> None:
    hyper, x = HyperNetwork(Small(), N), randn(BATCH, 3, 12, 12)
    for _ in range(2):
        with pytest.raises(SettingsError, match="hyper-layer ran outside"):
            hyper.model(x)
        hyper(x, randn(N))
