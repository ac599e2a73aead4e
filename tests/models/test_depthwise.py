"""Depthwise convolutions of small maps: gradients are those of PyTorch's own layer."""

import copy

import torch
from torch import nn
from torch.func import functional_call, jvp, stack_module_state, vmap

from hba.models import build_model
from hba.models.depthwise import SmallMapConv2d, with_fast_small_maps


def layers(kernel: int) -> tuple[nn.Conv2d, nn.Conv2d]:
    """PyTorch's layer, and the same as a SmallMapConv2d, in double precision."""
    torch.manual_seed(0)
    layer = nn.Conv2d(6, 6, kernel, padding=kernel // 2, groups=6, bias=False).double()
    fast_layer = with_fast_small_maps(copy.deepcopy(layer))
    assert isinstance(fast_layer, SmallMapConv2d)
    return layer, fast_layer


def test_values_and_gradients_are_those_of_pytorch() -> None:
    for kernel, side in ((3, 2), (5, 2), (5, 3), (5, 8), (7, 4)):
        results = []
        for layer in layers(kernel):
            maps = (
                torch.arange(3 * 6 * side * side, dtype=torch.float64)
                .cos()
                .view(3, 6, side, side)
                .requires_grad_()
            )
            value = layer(maps).square().sum()
            first = torch.autograd.grad(value, (maps, layer.weight), create_graph=True)
            second = torch.autograd.grad(
                first[0].pow(3).sum() + first[1].pow(3).sum(), (maps, layer.weight)
            )
            results.append([value, *first, *second])
        torch.testing.assert_close(*results)


def test_forward_derivatives_and_several_networks_at_once_are_those_of_pytorch() -> (
    None
):
    layer, fast_layer = layers(5)
    maps = torch.arange(6 * 16, dtype=torch.float64).sin().view(1, 6, 4, 4)
    weight = layer.weight.detach()
    along = torch.arange(150, dtype=torch.float64).view(6, 1, 5, 5)
    changes = [
        jvp(
            lambda w, at=at: functional_call(at, {"weight": w}, (maps,)),
            (weight,),
            (along,),
        )[1]
        for at in layers(5)
    ]
    torch.testing.assert_close(*changes)
    of_several = []
    for either in (layer, fast_layer):
        weights, _ = stack_module_state([either, copy.deepcopy(either)])
        losses = vmap(
            lambda w, at=either: functional_call(at, w, (maps,)).square().sum()
        )(weights)
        of_several.append(torch.autograd.grad(losses.sum(), weights["weight"])[0])
    torch.testing.assert_close(*of_several)


def test_efficientnet_lite0_has_such_layers() -> None:
    network = build_model("efficientnet-lite0", 3, 0)
    assert sum(isinstance(layer, SmallMapConv2d) for layer in network.modules()) == 12
