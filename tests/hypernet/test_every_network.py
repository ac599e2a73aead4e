"""Every family of networks under every weight sharing strategy, small; the largest ones among the slow tests."""

import functools
from typing import Any

import torch
import torch.nn.functional as F
from each import each
from torch import Tensor, nn

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
    "shake-shake-26-2x4d",
    "pyramidnet-11-6",
    "alexnet-stn-4",
    "vgg-16-stn-8",
    "simple-cnn-4",
    "mlp-16",
    "timm:mobilenetv3_small_050",
)
"""The last of timm's has BatchNormAct2d, and a last linear layer of its own kind."""
WITHOUT_BATCH_NORM = ("alexnet-stn-4", "vgg-16-stn-8", "simple-cnn-4", "mlp-16")
REFUSED = {
    *{(name, sharing) for name in WITHOUT_BATCH_NORM for sharing in ("first-bn", "bn")},
    *{("mlp-16", sharing) for sharing in ("first-conv", "conv", "conv+bn")},
    ("timm:mobilenetv3_small_050", "every"),
}


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


@each("name", FAMILIES)
def test_by_every_strategy_the_gradient_reaches_lambda_and_all_weights(name: str) -> None:
    working = [sharing for sharing in SHARING if (name, sharing) not in REFUSED]
    assert list(working_strategies(model_of(name))) == working
    for sharing in {"first-bn", "conv+bn", "every"} & {*working}:
        check(name, sharing)


def check(name: str, sharing: str) -> None:
    """The module has the hypernetwork's output, which depends on lambda."""
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


@each("name", [*(name for name in FAMILIES if name != "mlp-16"), "timm:efficientnet_b0"])
def test_the_first_layer_by_definition_is_the_first_to_run(name: str) -> None:
    network = model_of(name)
    assert layers_to_replace(network, "first-conv") == [first_executed(network, nn.Conv2d)]
    if name not in WITHOUT_BATCH_NORM:
        assert layers_to_replace(network, "first-bn") == [first_executed(network, nn.BatchNorm2d)]
