"""HyperNetwork: which layers it replaces, and that it stays the given network
otherwise.
"""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from random_inputs import seeded
from timm.layers.norm_act import BatchNormAct2d
from timm.layers.std_conv import StdConv2d
from torch import Tensor, nn
from torch.autograd import forward_ad

from hba.errors import SettingsError
from hba.hypernet import SHARING, HyperLayer, HyperNetwork
from hba.hypernet.layers import HyperBatchNorm2d, HyperLinear

N = 3
BATCH = 4
STRATEGIES = ("first-bn", "bn", "first-conv", "conv", "conv+bn", "all", "every")


class Small(nn.Module):
    """Runs its layers in another order than it defines them, with a hidden linear
    layer.
    """

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
KINDS: dict[type[nn.Module], type[HyperLayer]] = {
    nn.BatchNorm2d: HyperBatchNorm2d,
    nn.Conv2d: HyperLinear,
    nn.Linear: HyperLinear,
}


def make() -> nn.Module:
    torch.manual_seed(0)
    return Small()


def randn(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=seeded(seed))


def trained(sharing: str) -> HyperNetwork:
    """With parameters moved at random and running statistics that batches have left
    their mark on.
    """
    hyper = HyperNetwork(make(), N, sharing)
    source = seeded(2)
    with torch.no_grad():
        for parameter in hyper.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=source))
        for step in range(2):
            hyper(randn(BATCH, 3, 12, 12, seed=step), randn(BATCH, N))
    return hyper.eval()


def hyper_names(network: nn.Module) -> list[str]:
    return [
        name for name, layer in network.named_modules() if isinstance(layer, HyperLayer)
    ]


@pytest.mark.parametrize("sharing", STRATEGIES)
def test_exactly_the_layers_of_the_strategy_are_replaced_each_by_its_kind(
    sharing: str,
) -> None:
    before = dict(make().named_modules())
    hyper = HyperNetwork(make(), N, sharing)
    assert hyper_names(hyper.model) == SMALL[sharing]
    for name, layer in before.items():
        after = hyper.model.get_submodule(name)
        expected = KINDS[type(layer)] if name in SMALL[sharing] else type(layer)
        assert type(after) is expected, name


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("sharing", STRATEGIES)
def test_at_the_start_the_output_is_the_models_whatever_lambda_is(
    sharing: str, training: bool
) -> None:
    model = make().train(training)
    x = randn(BATCH, 3, 12, 12)
    expected = model(x)
    hyper = HyperNetwork(model, N, sharing)
    assert hyper.model.training == training
    for lam in (5 * randn(N), 5 * randn(BATCH, N)):
        torch.testing.assert_close(hyper(x, lam), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("sharing", STRATEGIES)
def test_plain_is_an_ordinary_network_with_the_output_at_lambda(sharing: str) -> None:
    hyper = trained(sharing)
    x = randn(BATCH, 3, 12, 12)
    lam = randn(N)
    plain = hyper.to_module(lam)
    assert hyper_names(plain) == []
    assert list(plain.state_dict()) == list(make().state_dict())
    torch.testing.assert_close(hyper(x, lam), plain(x), rtol=1e-3, atol=1e-4)
    assert not torch.allclose(hyper(x, lam), hyper(x, -lam), rtol=1e-2)


@pytest.mark.parametrize("per_image", [False, True])
@pytest.mark.parametrize("sharing", STRATEGIES)
def test_the_gradient_of_the_validation_loss_equals_central_differences(
    sharing: str, per_image: bool
) -> None:
    hyper = trained(sharing).double()
    x = randn(BATCH, 3, 12, 12).double()
    labels = torch.arange(BATCH) % 3
    lam = randn(BATCH, N, seed=2).double() if per_image else randn(N, seed=2).double()
    step = 1e-5
    expected = torch.zeros_like(lam).flatten()

    def loss(at: Tensor) -> Tensor:
        return F.cross_entropy(hyper(x, at), labels)

    with torch.no_grad():
        for k in range(lam.numel()):
            shift = step * torch.eye(lam.numel()).double()[k].reshape(lam.shape)
            expected[k] = (loss(lam + shift) - loss(lam - shift)) / (2 * step)
    assert float(expected.abs().max()) > 1e-4
    lam.requires_grad_()
    (gradient,) = torch.autograd.grad(loss(lam), lam)
    torch.testing.assert_close(
        gradient, expected.reshape(lam.shape), rtol=1e-5, atol=1e-9
    )


def test_the_gradient_of_a_two_parameter_quadratic_is_the_closed_form() -> None:
    """Of a 1x1 convolution of one pixel x with two filters, whose squared error to the
    targets t is the sum over j of (x w_j + x u_j V_j . lambda - t_j)^2.
    """
    x = 1.5
    w = torch.tensor([0.4, -0.7])
    u = torch.tensor([2.0, -0.5])
    t = torch.tensor([1.0, 3.0])
    v = torch.tensor([[1.0, 0.3], [-0.2, 0.8]])
    lam = torch.tensor([0.9, -1.1], requires_grad=True)
    hyper = HyperNetwork(
        nn.Sequential(nn.Conv2d(1, 2, 1, bias=False), nn.Flatten()), 2, "conv"
    )
    with torch.no_grad():
        for parameter, value in zip(hyper.parameters(), (w, u, v), strict=True):
            parameter.copy_(value.reshape(parameter.shape))
    (hyper(torch.full((1, 1, 1, 1), x), lam) - t).square().sum().backward()
    torch.testing.assert_close(
        lam.grad, v.T @ (2 * x * u * (x * (w + u * (v @ lam.detach())) - t))
    )


@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("sharing", STRATEGIES)
def test_the_first_order_is_the_derivative_of_the_output_at_the_center(
    sharing: str, mode: str
) -> None:
    hyper = trained(sharing).double().train(mode == "train")
    x = randn(BATCH, 3, 12, 12)
    rows = randn(BATCH, N)
    x = x.double()
    rows = rows.double()
    hyper.center.copy_(randn(N, seed=3))
    center = hyper.center.expand_as(rows).clone()
    response = hyper.response_parameters()
    duals = []
    gradients = []
    with forward_ad.dual_level():
        for dual in (
            hyper(x, forward_ad.make_dual(center, rows - center)),
            hyper.first_order(x, rows),
        ):
            value, change = forward_ad.unpack_dual(dual)
            assert change is not None
            duals.append((value, change))
            gradients.append(
                torch.autograd.grad(change.square().sum(), response, allow_unused=True)
            )
    torch.testing.assert_close(duals[1], duals[0])
    assert any(gradient is not None and gradient.any() for gradient in gradients[1])
    for gradient, expected in zip(gradients[1], gradients[0], strict=True):
        torch.testing.assert_close(gradient, expected)
    assert hyper.context.eps is None


def network(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 2)
    )


def fused_network(**settings: Any) -> HyperNetwork:
    torch.manual_seed(0)
    fused = BatchNormAct2d(6, **settings)
    hyper = HyperNetwork(network(nn.Conv2d(3, 6, 3), fused), N, "bn")
    with torch.no_grad():
        for parameter in hyper.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
        for step in range(2):
            hyper(randn(BATCH, 3, 8, 8, seed=step) + step, randn(BATCH, N))
    return hyper


class PReLU(nn.PReLU):
    """An activation with a weight. Older versions of timm tell every activation whether
    to work in place.
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    "settings",
    [{}, {"drop_layer": nn.Dropout}, {"apply_act": False}, {"act_layer": PReLU}],
)
def test_plain_gives_an_ordinary_fused_batch_norm_with_equal_output(
    settings: dict[str, Any], training: bool
) -> None:
    hyper = fused_network(**settings).train(training)
    x = randn(BATCH, 3, 8, 8)
    lam = randn(N)
    plain = hyper.to_module(lam)
    layer = plain.get_submodule("1")
    assert type(layer) is BatchNormAct2d
    assert repr(layer) == repr(BatchNormAct2d(6, **settings).train(training))
    torch.manual_seed(3)
    actual = plain(x)
    torch.manual_seed(3)
    torch.testing.assert_close(actual, hyper(x, lam), rtol=1e-4, atol=1e-5)
    torch.manual_seed(3)
    torch.testing.assert_close(
        actual, hyper(x, lam.expand(BATCH, N)), rtol=1e-4, atol=1e-5
    )


class Clipped(nn.BatchNorm2d):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).clamp(max=1)


class Reversed(nn.Conv2d):
    def _conv_forward(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return super()._conv_forward(x, weight.flip(2), bias)


REFUSED = [
    (StdConv2d(3, 6, 3), "conv"),
    (Reversed(3, 6, 3), "conv"),
    (Clipped(3), "first-bn"),
    (nn.BatchNorm2d(3, affine=False), "bn"),
    (nn.utils.parametrizations.weight_norm(nn.Conv2d(3, 6, 3)), "conv"),
]


@pytest.mark.parametrize(("layer", "sharing"), REFUSED)
def test_a_layer_with_a_function_of_its_own_is_refused_by_its_name(
    layer: nn.Module, sharing: str
) -> None:
    with pytest.raises(
        SettingsError,
        match=f"sharing '{sharing}' cannot replace '0', a {type(layer).__name__}",
    ):
        HyperNetwork(network(layer), N, sharing)


FROZEN = ("late_bn", "conv1.weight", "hidden.")
EXPECTED = {
    "first-bn": ["bn1"],
    "bn": ["bn1"],
    "first-conv": ["conv2"],
    "conv": ["conv2"],
    "conv+bn": ["bn1", "conv2"],
    "all": ["bn1", "conv2"],
    "every": ["bn1", "conv2", "head"],
}


@pytest.mark.parametrize("sharing", SHARING)
def test_frozen_layers_are_no_hyper_layers_and_never_move(sharing: str) -> None:
    model = make()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(not name.startswith(FROZEN))
    hyper = HyperNetwork(model, N, sharing)
    assert hyper_names(hyper.model) == EXPECTED[sharing]
    # All that a training does to parameters: gradient, momentum, and much decay.
    optimizer = torch.optim.SGD(
        hyper.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1
    )
    for step in range(3):
        optimizer.zero_grad()
        hyper(
            randn(BATCH, 3, 12, 12, seed=step), randn(BATCH, N, seed=step)
        ).square().sum().backward()
        optimizer.step()
    for name, parameter in hyper.to_module(randn(N)).named_parameters():
        is_frozen = name.startswith(FROZEN)
        assert torch.equal(parameter, model.get_parameter(name)) == is_frozen, name
        assert parameter.requires_grad == (not is_frozen), name


def test_tied_layers_are_refused_where_a_hyper_layer_would_part_them() -> None:
    head = (
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4, 4),
        nn.Linear(4, 4),
        nn.Linear(4, 2),
    )
    network = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), *head)
    network[5].weight = network[4].weight
    with pytest.raises(SettingsError, match="'4'"):
        HyperNetwork(network, 3, "all")
    tied = HyperNetwork(network, 3, "first-bn").model
    assert tied.get_submodule("4").weight is tied.get_submodule("5").weight
