"""Every family of networks under every weight sharing strategy, small; the largest ones among the slow tests."""

import functools
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hba.errors import SettingsError
from hba.hypernet import SHARING, HyperLayer, HyperNetwork
from hba.hypernet.sharing import layers_to_replace, working_strategies
from hba.models import build_model

N = 3
BATCH = 4
CLASSES = 5
SIZE = 16
"""Side of images."""

FAMILIES = (
    "wrn-10-1",
    "resnet-18-small",
    "resnet-50",
    "shake-shake-26-2x4d",
    "pyramidnet-11-6",
    "pyramidnet-20-12",
    "alexnet",
    "alexnet-stn-4",
    "vgg-16-stn-8",
    "simple-cnn-4",
    "mlp-16",
    "timm:resnet10t",
    "timm:mobilenetv3_small_050",
)
"""The last of timm's has BatchNormAct2d, and a last linear layer of its own kind."""
WITHOUT_BATCH_NORM = ("alexnet", "alexnet-stn-4", "vgg-16-stn-8", "simple-cnn-4", "mlp-16")
REFUSED = {
    *{(name, sharing) for name in WITHOUT_BATCH_NORM for sharing in ("first-bn", "bn")},
    *{("mlp-16", sharing) for sharing in ("first-conv", "conv", "conv+bn")},
    ("timm:mobilenetv3_small_050", "every"),
}
RANDOM = ("shake-shake-26-2x4d", "pyramidnet-11-6", "alexnet")
"""Draw random numbers in training."""
SHAKEN = ("shake-shake-26-2x4d", "pyramidnet-11-6")
CASES = [
    pytest.param(name, sharing, id=f"{name} {sharing}")
    for name in FAMILIES
    for sharing in SHARING
    if (name, sharing) not in REFUSED
]


def randn(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@functools.cache
def model_of(name: str) -> nn.Module:
    return build_model(name, CLASSES, seed=0, image_size=SIZE)


def moved(name: str, sharing: str) -> HyperNetwork:
    """Depends on lambda, unlike a new hypernetwork."""
    hyper = HyperNetwork(model_of(name), N, sharing).train()
    with torch.no_grad():
        for number, (parameter_name, parameter) in enumerate(hyper.named_parameters()):
            if parameter_name.endswith("_V"):
                parameter.add_(0.1 * randn(*parameter.shape, seed=number))
    return hyper


def images() -> Tensor:
    return randn(BATCH, 3, SIZE, SIZE)


@pytest.mark.parametrize(("name", "sharing"), CASES)
def test_the_gradient_reaches_lambda_and_all_weights_and_plain_equals_the_hypernetwork(name: str, sharing: str) -> None:
    hyper, lam = moved(name, sharing), randn(BATCH, N).requires_grad_()
    logits = hyper(images(), lam)
    assert logits.shape == (BATCH, CLASSES)
    F.cross_entropy(logits, torch.arange(BATCH)).backward()
    assert lam.grad is not None
    assert bool((lam.grad.abs().sum(dim=1) > 0).all())
    for parameter in hyper.parameters():
        assert parameter.grad is not None
        assert bool(parameter.grad.isfinite().all())
    one = lam[0].detach()
    with torch.no_grad():
        plain = hyper.eval().to_module(one)
        assert not any(isinstance(layer, HyperLayer) for layer in plain.modules())
        expected = hyper(images(), one)
        torch.testing.assert_close(plain(images()), expected, rtol=1e-3, atol=1e-4)
        assert not torch.allclose(hyper(images(), -one), expected, rtol=1e-4)


@pytest.mark.parametrize("sharing", ["first-bn", "bn"])
def test_alexnet_has_no_batch_norm_and_says_what_works_instead(sharing: str) -> None:
    with pytest.raises(SettingsError) as raised:
        HyperNetwork(model_of("alexnet"), N, sharing)
    assert str(raised.value) == (
        f"sharing '{sharing}' needs a BatchNorm2d layer, AlexNet has none; "
        "strategies that work here: first-conv, conv, conv+bn, all, every"
    )


@pytest.mark.parametrize("name", FAMILIES)
def test_a_strategy_works_or_is_refused_as_told(name: str) -> None:
    working = working_strategies(model_of(name))
    assert working == tuple(case.values[1] for case in CASES if case.values[0] == name)


def first_executed(network: nn.Module, kind: type[nn.Module]) -> str:
    executed: list[str] = []

    def watch(name: str, layer: nn.Module) -> Any:
        return layer.register_forward_pre_hook(lambda *_arguments: executed.append(name))

    hooks = [watch(name, layer) for name, layer in network.named_modules() if isinstance(layer, kind)]
    with torch.no_grad():
        network.eval()(images())
    for hook in hooks:
        hook.remove()
    return executed[0]


def test_a_network_of_linear_layers_alone_says_what_works() -> None:
    with pytest.raises(SettingsError, match="needs a Conv2d layer, MLP has none; strategies that work here: all, ever"):
        HyperNetwork(model_of("mlp-16"), N, "conv")


@pytest.mark.parametrize(
    "name",
    [*(name for name in FAMILIES if name != "mlp-16"), "timm:resnet18", "timm:resnet26d", "timm:efficientnet_b0"],
)
def test_the_first_layer_by_definition_is_the_first_to_run(name: str) -> None:
    network = model_of(name)
    assert layers_to_replace(network, "first-conv") == [first_executed(network, nn.Conv2d)]
    if name not in WITHOUT_BATCH_NORM:
        assert layers_to_replace(network, "first-bn") == [first_executed(network, nn.BatchNorm2d)]


@pytest.mark.parametrize("name", RANDOM)
def test_the_seed_alone_decides_what_is_drawn_in_training(name: str) -> None:
    hyper, lam = HyperNetwork(model_of(name), N, "first-conv").train(), randn(BATCH, N)

    def logits(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return hyper(images(), lam).detach()

    assert torch.equal(logits(4), logits(4))
    assert not torch.allclose(logits(4), logits(5))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", SHAKEN)
def test_several_copies_run_at_once_each_with_its_own_draws(name: str, training: bool) -> None:
    hypers = [moved(name, "first-bn").train(training) for _ in range(2)]
    x, lam = images(), randn(BATCH, N)

    def call(parameters: dict[str, Tensor], buffers: dict[str, Tensor], at: Tensor) -> Tensor:
        return torch.func.functional_call(hypers[0], (parameters, buffers), (x, at))

    state = torch.func.stack_module_state(hypers)
    torch.manual_seed(0)
    logits = torch.func.vmap(call, randomness="different")(*state, lam.expand(2, -1, -1)).detach()
    assert logits.shape == (2, BATCH, CLASSES)
    assert torch.allclose(logits[0], logits[1], rtol=1e-4) == (not training)
    if not training:
        torch.testing.assert_close(logits[0], hypers[0](x, lam), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", SHAKEN)
def test_the_gradient_under_vmap_is_random_in_each_copy(name: str) -> None:
    hypers = [moved(name, "first-bn").eval() for _ in range(2)]
    for hyper in hypers:
        for layer in hyper.modules():
            # Shakes as in training, but keeps the statistics of BatchNorm.
            layer.training = not isinstance(layer, nn.BatchNorm2d)
    x = images()
    parameters, buffers = torch.func.stack_module_state(hypers)

    def loss(own: dict[str, Tensor], own_buffers: dict[str, Tensor], at: Tensor) -> Tensor:
        logits = torch.func.functional_call(hypers[0], (own, own_buffers), (x, at))
        return F.cross_entropy(logits, torch.arange(BATCH))

    torch.manual_seed(0)
    by_lambda = torch.func.vmap(torch.func.grad(loss, argnums=2), randomness="different")
    gradient = by_lambda(parameters, buffers, randn(BATCH, N).expand(2, -1, -1))
    assert bool(gradient.isfinite().all())
    assert not torch.allclose(gradient[0], gradient[1])


@pytest.mark.parametrize("name", [*SHAKEN, "wrn-10-1", "resnet-18-small", "alexnet-stn-4", "mlp-16"])
def test_compiles_into_one_graph(name: str) -> None:
    torch._dynamo.reset()
    sharing = "every" if name in WITHOUT_BATCH_NORM else "first-bn"
    hyper, lam = moved(name, sharing), randn(BATCH, N)
    compiled = torch.compile(hyper, fullgraph=True, backend="eager")
    torch.manual_seed(0)
    actual = compiled(images(), lam)
    torch.manual_seed(0)
    torch.testing.assert_close(actual, moved(name, sharing)(images(), lam))


@pytest.mark.slow
@pytest.mark.parametrize("sharing", ["first-bn", "conv+bn"])
@pytest.mark.parametrize(
    "name",
    [
        "wrn-28-10",
        "resnet-50-small",
        "shake-shake-26-2x32d",
        "shake-shake-26-2x96d",
        "shake-shake-26-2x112d",
        "pyramidnet-272-200",
    ],
)
def test_the_largest_networks_go_forward_and_back(name: str, sharing: str) -> None:
    hyper = HyperNetwork(build_model(name, 10, seed=0), N, sharing).train()
    lam = randn(2, N).requires_grad_()
    F.cross_entropy(hyper(randn(2, 3, 32, 32), lam), torch.arange(2)).backward()
    assert all(bool(part.grad is not None and part.grad.isfinite().all()) for part in hyper.parameters())
