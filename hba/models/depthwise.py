"""Depthwise convolutions of small maps, whose backward pass is slow on CPUs.

oneDNN computes gradients of the weights of a depthwise convolution by a reference
implementation if maps are hardly larger than the kernel: for 672 maps of 4x4 and
kernels of 5x5, 40 times the time of the forward pass. As a sum of products for each
place of the kernel, they take a fifth of that, and a training step of
efficientnet-lite0 on images of 48 or 64 pixels takes 0.6 to 0.7 of the time (one thread
of an AMD EPYC, PyTorch 2.14).
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

LARGEST_MAP = 8
"""Largest side of maps for which this is faster."""


class SmallMapConv2d(nn.Conv2d):
    """A depthwise convolution with stride 1.

    It computes the same numbers as nn.Conv2d, up to rounding.
    """

    computes_as = nn.Conv2d  # So a hyper-layer can replace it.

    def forward(self, input: Tensor) -> Tensor:
        is_slow = (
            input.device.type == "cpu"
            and input.shape[-1] <= LARGEST_MAP
            and self.weight.requires_grad
        )
        if (
            is_slow
            and self.training
            and torch.is_grad_enabled()
            and not torch.is_autocast_enabled("cpu")
        ):
            return _Depthwise.apply(input, self.weight, self.padding[0])
        return super().forward(input)


class _Depthwise(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(maps: Tensor, weight: Tensor, padding: int) -> Tensor:
        return F.conv2d(maps, weight, padding=padding, groups=len(weight))

    @staticmethod
    def setup_context(
        ctx: Any, inputs: tuple[Tensor, Tensor, int], output: Tensor
    ) -> None:
        maps, weight, ctx.padding = inputs
        ctx.save_for_backward(maps, weight)
        ctx.save_for_forward(maps, weight)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        maps, weight = ctx.saved_tensors
        height, width = grad.shape[-2:]
        side = weight.shape[-1]
        maps_gradient = F.conv2d(
            grad, weight.flip(2, 3), padding=side - 1 - ctx.padding, groups=len(weight)
        )
        padded = F.pad(maps, (ctx.padding,) * 4)
        places = [(row, column) for row in range(side) for column in range(side)]
        products = [
            (padded[:, :, i : i + height, j : j + width] * grad).sum((0, 2, 3))
            for i, j in places
        ]
        return maps_gradient, torch.stack(products, dim=1).view_as(weight), None

    @staticmethod
    def jvp(
        ctx: Any, maps_tangent: Tensor | None, weight_tangent: Tensor | None, _: None
    ) -> Tensor:
        maps, weight = ctx.saved_tensors
        convolve = partial(F.conv2d, padding=ctx.padding, groups=len(weight))
        terms = []
        if maps_tangent is not None:
            terms.append(convolve(maps_tangent, weight))
        if weight_tangent is not None:
            terms.append(convolve(maps, weight_tangent))
        return torch.stack(terms).sum(dim=0)


def with_fast_small_maps(network: nn.Module) -> nn.Module:
    """Change the class of depthwise convolutions to SmallMapConv2d, where it fits.

    Returns:
        The network.
    """
    for layer in network.modules():
        if (
            type(layer) is nn.Conv2d
            and layer.groups == layer.in_channels == layer.out_channels
            and layer.stride == (1, 1)
            and layer.dilation == (1, 1)
            and layer.padding_mode == "zeros"
            and layer.bias is None
            and layer.padding == (layer.kernel_size[0] // 2,) * 2
        ):
            layer.__class__ = SmallMapConv2d
    return network
