"""Hyper-layers against ordinary torch layers whose weights are written out by hand,
image by image.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from random_inputs import seeded
from torch import Tensor, nn

from hba.hypernet.layers import HyperBatchNorm2d, HyperLayer, HyperLinear, LambdaContext

N = 5
BATCH = 4
MAPS = (6, 9, 7)

Case = tuple[Callable[[], nn.Module], tuple[int, ...]]


def conv_case(channels_in: int = 6, **settings: Any) -> Case:
    return lambda: nn.Conv2d(channels_in, 8, **{"kernel_size": 3, **settings}), (
        channels_in,
        *MAPS[1:],
    )


LINEAR: dict[str, Case] = {
    "linear": (lambda: nn.Linear(3, 4), (3,)),
    "linear without bias": (lambda: nn.Linear(3, 4, bias=False), (3,)),
    "linear on tokens": (lambda: nn.Linear(3, 4), (7, 3)),
    "linear on channels-last maps": (lambda: nn.Linear(3, 4), (5, 6, 3)),
}
CONV: dict[str, Case] = {
    "conv": conv_case(),
    "conv of uneven stride and padding": conv_case(stride=(2, 1), padding=(0, 2)),
    "conv with padding same": conv_case(padding="same"),
    "conv in groups": conv_case(groups=2, bias=False, padding=1),
    "depthwise conv": conv_case(channels_in=4, groups=4),
    "1x1 conv": conv_case(kernel_size=1, stride=2, bias=False),
    "conv with circular borders": conv_case(
        padding=(1, 2), padding_mode="circular", bias=False
    ),
}
MAP_CASES = [pytest.param(*case, id=name) for name, case in {**LINEAR, **CONV}.items()]
ALL_CASES = [*MAP_CASES, pytest.param(lambda: nn.BatchNorm2d(6), MAPS, id="batch norm")]


def randn(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=seeded(1), dtype=torch.float64)


def ordinary(make: Callable[[], nn.Module]) -> nn.Module:
    """The layer in float64 with random weights, and for BatchNorm with random running
    statistics.
    """
    torch.manual_seed(0)
    layer = make().double()
    for name, tensor in layer.state_dict().items():
        if tensor.is_floating_point():
            tensor.copy_(
                torch.rand_like(tensor) + 0.5
                if "var" in name
                else torch.randn_like(tensor)
            )
    return layer


def hyper_of(layer: nn.Module, n: int = N) -> HyperLayer:
    if isinstance(layer, nn.BatchNorm2d):
        return HyperBatchNorm2d(layer, n, LambdaContext())
    assert isinstance(layer, nn.Conv2d | nn.Linear)
    return HyperLinear(layer, n, LambdaContext(), seeded(0))


def random_hyper(make: Callable[[], nn.Module]) -> HyperLayer:
    hyper = hyper_of(ordinary(make))
    source = seeded(2)
    with torch.no_grad():
        for parameter in hyper.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=source))
    return hyper


def run(hyper: HyperLayer, x: Tensor, lam: Tensor) -> Tensor:
    hyper.context.lam = lam
    y: Tensor = hyper(x)
    hyper.context.lam = None
    return y


def by_hand(phi_0: Tensor, phi_U: Tensor, phi_V: Tensor, lam: Tensor) -> Tensor:
    """phi_0 + diag(phi_V lam) phi_U, one row after the other."""
    rows = phi_0.detach().clone()
    for j in range(len(rows)):
        how_far = sum(float(phi_V[j, k]) * float(lam[k]) for k in range(len(lam)))
        rows[j] += how_far * phi_U[j].detach()
    return rows


def layer_at(hyper: Any, make: Callable[[], nn.Module], lam: Tensor) -> nn.Module:
    """The ordinary layer with the weights that the paper gives for lam."""
    layer: Any = ordinary(make)
    with torch.no_grad():
        if isinstance(hyper, HyperBatchNorm2d):
            by_hand_affine = by_hand(*hyper.phi("affine"), lam)
            layer.weight.copy_(by_hand_affine[: layer.num_features])
            layer.bias.copy_(by_hand_affine[layer.num_features :])
            return layer
        layer.weight.copy_(by_hand(hyper.weight_0, hyper.weight_U, hyper.weight_V, lam))
        if layer.bias is not None:
            layer.bias.copy_(by_hand(hyper.bias_0, hyper.bias_U, hyper.bias_V, lam))
    return layer


@pytest.mark.parametrize(("make", "shape"), MAP_CASES)
def test_each_image_gets_the_ordinary_layer_of_its_own_lambda(
    make: Callable[[], nn.Module], shape: tuple[int, ...]
) -> None:
    hyper = random_hyper(make)
    x = randn(BATCH, *shape)
    lam = randn(BATCH, N)
    expected = torch.cat(
        [layer_at(hyper, make, lam[i])(x[i : i + 1]) for i in range(BATCH)]
    )
    torch.testing.assert_close(run(hyper, x, lam), expected)


@pytest.mark.parametrize(("make", "shape"), ALL_CASES)
def test_a_new_hyper_layer_is_the_layer_it_replaces_whatever_lambda_is(
    make: Callable[[], nn.Module], shape: tuple[int, ...]
) -> None:
    hyper = hyper_of(ordinary(make))
    x = randn(BATCH, *shape)
    expected = ordinary(make)(x)
    torch.testing.assert_close(run(hyper, x, 10 * randn(N)), expected)
    torch.testing.assert_close(run(hyper, x, 10 * randn(BATCH, N)), expected)


GRADIENT_CASES = [
    pytest.param(lambda: nn.Linear(2, 3), (2,), id="linear"),
    pytest.param(
        lambda: nn.Conv2d(2, 2, 2, stride=2, padding=1, groups=2), (2, 3, 3), id="conv"
    ),
    pytest.param(lambda: nn.BatchNorm2d(2), (2, 2, 2), id="batch norm"),
]


@pytest.mark.parametrize("per_image", [True, False])
@pytest.mark.parametrize(("make", "shape"), GRADIENT_CASES)
def test_gradients_of_lambda_images_and_parameters_equal_finite_differences(
    make: Callable[[], nn.Module], shape: tuple[int, ...], per_image: bool
) -> None:
    hyper = random_hyper(make)
    names = [name for name, _ in hyper.named_parameters()]

    def output(x: Tensor, lam: Tensor, *values: Tensor) -> Tensor:
        hyper.context.lam = lam
        return torch.func.functional_call(
            hyper, dict(zip(names, values, strict=True)), (x,)
        )

    x = randn(3, *shape).requires_grad_()
    lam = (randn(3, N) if per_image else randn(N)).requires_grad_()
    values = [
        parameter.detach().clone().requires_grad_() for parameter in hyper.parameters()
    ]
    assert torch.autograd.gradcheck(output, (x, lam, *values), fast_mode=True)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(("make", "shape"), ALL_CASES)
def test_plain_is_an_ordinary_layer_with_equal_output(
    make: Callable[[], nn.Module], shape: tuple[int, ...], training: bool
) -> None:
    hyper = random_hyper(make).train(training)
    x = randn(BATCH, *shape)
    lam = randn(N)
    plain = hyper.to_module(lam)
    assert type(plain) is type(make())
    assert repr(plain) == repr(make())
    assert plain.training == training
    assert [name for name, _ in plain.named_parameters()] == [
        name for name, _ in make().named_parameters()
    ]
    torch.testing.assert_close(plain(x), layer_at(hyper, make, lam).train(training)(x))
    torch.testing.assert_close(
        run(hyper, x, lam), layer_at(hyper, make, lam).train(training)(x)
    )
