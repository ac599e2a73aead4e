"""Hyper-layers: ordinary layers whose weights are affine in lambda (paper, Appendix D).

    symbol  in the code  meaning                                        shape
    lambda  lam          hyperparameters as logits, for all images or   (n,) or (B, n)
                         for each
    phi_0   ..._0        weights at lambda = 0                          as the layer's
    phi_U   ..._U        direction in which a row of weights moves      as phi_0
    phi_V   ..._V        how far lambda moves each row                  (rows, n)

theta(lambda) = phi_0 + diag(phi_V lambda) phi_U                        (eq. 10 to 14)

With one lambda for all images, the weights are computed and the layer runs once. With
one lambda per image, row j of the weights of image i is phi_0[j] + (phi_V[j] .
lambda_i) phi_U[j]. Because the layer is linear, its output is the output with phi_0
plus (phi_V[j] . lambda_i) times the output with phi_U, so no weights are computed per
image.

phi_V starts at zero, so a hyper-layer starts as the layer that it replaces (Delta-STN).
phi_U starts as PyTorch initializes weights and biases of that shape (STN's listing 1),
and at one for BatchNorm; zero would be a saddle point.

In the network linearized in lambda at its center, a move eps (B, n) changes an output
by (phi_V eps) times the output with phi_U for the input at the center, and by the
change of the input passed through phi_0.
"""

import copy
import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import forward_ad


class LambdaContext:
    """What hyper-layers and tuned dropouts need during a forward pass.

    All are None outside of a forward pass.
    """

    lam: Any = None
    """lambda for hyper-layers."""
    eps: Tensor | None = None
    """A move (B, n) from the center, given instead of lambda. Dual numbers carry the
    change of outputs along it.
    """
    values: Any = None
    """Values in natural units, for dropouts."""


def modulated(phi_0: Tensor, phi_U: Tensor, phi_V: Tensor, lam: Tensor) -> Tensor:
    """phi_0 + diag(phi_V lam) phi_U for one lam (n,) (eq. 10).

    Weights may have any dimensions after the rows.
    """
    scale = phi_V @ lam
    return phi_0 + scale.reshape(-1, *[1] * (phi_0.ndim - 1)) * phi_U


def modulated_squares(
    phi_0: Tensor, phi_U: Tensor, phi_V: Tensor, lam: Tensor
) -> Tensor:
    """Sum of squares (B,) of `modulated` at each row of lam (B, n).

    With s = phi_V lam, row j has |phi_0[j]|^2 + 2 s_j phi_0[j] . phi_U[j] + s_j^2
    |phi_U[j]|^2.
    """
    rows_0 = phi_0.reshape(len(phi_0), -1)
    rows_U = phi_U.reshape(len(phi_0), -1)
    scale = lam @ phi_V.T
    return (
        rows_0.square().sum()
        + 2 * scale @ (rows_0 * rows_U).sum(1)
        + scale.square() @ rows_U.square().sum(1)
    )


class HyperLayer(nn.Module):
    """Base class of hyper-layers. The HyperNetwork provides lambda through `context`.

    Each tensor that is affine in lambda is kept as three parameters, such as weight_0,
    weight_U and weight_V.
    """

    def __init__(self, n: int, context: LambdaContext) -> None:
        super().__init__()
        self.n = n
        self.context = context
        self.affine_names: list[str] = []

    def add_affine(self, name: str, phi_0: Tensor, phi_U: Tensor) -> None:
        """Register the parameters of a tensor that starts at phi_0 and moves along
        phi_U.
        """
        self.affine_names.append(name)
        for suffix, value in zip(
            "0UV", (phi_0, phi_U, phi_0.new_zeros(len(phi_0), self.n)), strict=True
        ):
            self.register_parameter(f"{name}_{suffix}", _parameter(value))

    def phi(self, name: str) -> tuple[Tensor, Tensor, Tensor]:
        return (
            getattr(self, f"{name}_0"),
            getattr(self, f"{name}_U"),
            getattr(self, f"{name}_V"),
        )

    def to_module(self, lam: Tensor) -> nn.Module:
        """An ordinary layer with the weights at lam (n,)."""
        raise NotImplementedError

    def squared_norm(self, lam: Tensor) -> Tensor:
        """Squared norm (B,) of the weights at each row of lam (B, n), with a graph; the
        weights are not computed.
        """
        return sum(
            (modulated_squares(*self.phi(name), lam) for name in self.affine_names),
            lam.new_zeros(len(lam)),
        )


class HyperLinear(HyperLayer):
    """A linear layer (eq. 10, bias eq. 11), or a convolution with any stride, padding
    and groups (eq. 12 and 13). Its weights are affine in lambda, with one row for each
    output channel.
    """

    weight_0: nn.Parameter
    weight_U: nn.Parameter
    weight_V: nn.Parameter
    bias_0: Any
    bias_U: Any
    bias_V: Any
    """None for a layer without a bias."""

    def __init__(
        self,
        layer: nn.Linear | nn.Conv2d,
        n: int,
        context: LambdaContext,
        generator: torch.Generator,
    ) -> None:
        super().__init__(n, context)
        # The layer's settings; the hyper-layer has the weights.
        self.template = copy.deepcopy(layer)
        bound = 1 / math.sqrt(layer.weight[0].numel())
        for name, parameter in layer.named_parameters():
            self.template.register_parameter(name, None)
            self.add_affine(
                name,
                parameter,
                torch.empty(parameter.shape)
                .uniform_(-bound, bound, generator=generator)
                .to(parameter),
            )
        if layer.bias is None:
            self.bias_0 = self.bias_U = self.bias_V = None

    def linear_map(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The layer's own function with these weights."""
        if isinstance(self.template, nn.Conv2d):
            return self.template._conv_forward(x, weight, bias)
        return F.linear(x, weight, bias)

    def per_image(self, rows: Tensor, like: Tensor) -> Tensor:
        """Reshape (B, c) to as many dimensions as the layer's output, to scale the
        channels of each image.
        """
        if isinstance(self.template, nn.Conv2d):
            return rows[:, :, None, None]
        return rows.reshape(len(rows), *[1] * (like.ndim - 2), rows.shape[1])

    def forward(self, x: Tensor) -> Tensor:
        if self.context.eps is not None:
            return self.first_order(x, self.context.eps)
        lam = self.context.lam
        if lam.ndim == 1:
            at_lam = {
                name: modulated(*self.phi(name), lam) for name in self.affine_names
            }
            return self.linear_map(x, at_lam["weight"], at_lam.get("bias"))
        y = self.linear_map(x, self.weight_0, self.bias_0)
        y = y + self.per_image(lam @ self.weight_V.T, y) * self.linear_map(
            x, self.weight_U, None
        )
        return (
            y
            if self.bias_0 is None
            else y + self.per_image((lam @ self.bias_V.T) * self.bias_U, y)
        )

    def first_order(self, x: Tensor, eps: Tensor) -> Tensor:
        """The output at the center, and its change: dual numbers. Only the change has a
        graph, to phi_U and phi_V.
        """
        bias_0 = None if self.bias_0 is None else self.bias_0.detach()
        y = self.linear_map(x, self.weight_0.detach(), bias_0)
        at_center = forward_ad.unpack_dual(x).primal.detach()
        change = self.linear_map(at_center, self.weight_U, None)
        change = self.per_image(eps @ self.weight_V.T, change) * change
        if self.bias_0 is not None:
            change = change + self.per_image(
                (eps @ self.bias_V.T) * self.bias_U, change
            )
        # If the input is a dual number, its change has already changed y through phi_0.
        value, own_change = forward_ad.unpack_dual(y)
        return forward_ad.make_dual(
            value, change if own_change is None else own_change + change
        )

    def to_module(self, lam: Tensor) -> nn.Module:
        layer = copy.deepcopy(self.template)
        for name in self.affine_names:
            layer.register_parameter(name, _parameter(modulated(*self.phi(name), lam)))
        return layer


class HyperBatchNorm2d(HyperLayer):
    """A batch normalization with scale and offset affine in lambda (eq. 14).

    The statistics are over the whole batch, with all lambdas. For timm's
    BatchNormAct2d, it also drops and activates.
    """

    def __init__(self, layer: nn.BatchNorm2d, n: int, context: LambdaContext) -> None:
        super().__init__(n, context)
        self.acts = is_batch_norm_act(layer)
        self.normalize: Any = copy.deepcopy(layer)
        self.normalize.affine = False
        self.normalize.register_parameter("weight", None)
        self.normalize.register_parameter("bias", None)
        # Scale and offset are one vector of 2c rows, as in the paper.
        affine = torch.cat([layer.weight.detach(), layer.bias.detach()])
        self.add_affine("affine", affine, torch.ones_like(affine))

    def forward(self, x: Tensor) -> Tensor:
        # self.normalize(x) would not do: BatchNormAct2d would drop and activate before
        # scale and offset.
        y = nn.BatchNorm2d.forward(self.normalize, x)
        scale, offset = self.affine_of(len(x)).chunk(2, dim=1)
        y = y * scale[:, :, None, None] + offset[:, :, None, None]
        return self.normalize.act(self.normalize.drop(y)) if self.acts else y

    def affine_of(self, n_images: int) -> Tensor:
        """Rows (B, 2c) of scale and offset; dual numbers where the context has eps."""
        phi_0, phi_U, phi_V = self.phi("affine")
        if self.context.eps is not None:
            at_center = phi_0.detach().expand(n_images, -1).clone()
            return forward_ad.make_dual(at_center, (self.context.eps @ phi_V.T) * phi_U)
        lam = self.context.lam
        if lam.ndim == 1:
            return modulated(phi_0, phi_U, phi_V, lam).expand(n_images, -1)
        return phi_0 + (lam @ phi_V.T) * phi_U

    def to_module(self, lam: Tensor) -> nn.Module:
        layer = copy.deepcopy(self.normalize)
        layer.affine = True
        affine = modulated(*self.phi("affine"), lam)
        layer.weight, layer.bias = map(_parameter, affine.chunk(2))
        return layer


def _parameter(value: Tensor) -> nn.Parameter:
    """A copy of the value."""
    return nn.Parameter(value.detach().clone())


def can_be_replaced(layer: nn.Module) -> bool:
    """Whether a hyper-layer can replace a Conv2d, BatchNorm2d or Linear: weights and
    forward must be the class's.
    """
    if isinstance(layer, nn.BatchNorm2d) and (
        not layer.affine or is_batch_norm_act(layer)
    ):
        return layer.affine
    layer_class = next(
        layer_class
        for layer_class in (nn.Conv2d, nn.BatchNorm2d, nn.Linear)
        if isinstance(layer, layer_class)
    )
    methods = ("forward", "_conv_forward") if layer_class is nn.Conv2d else ("forward",)
    computing_class = getattr(layer, "computes_as", type(layer))
    if any(
        getattr(computing_class, method) is not getattr(layer_class, method)
        for method in methods
    ):
        return False
    return all(name in ("weight", "bias") for name, _ in layer.named_parameters())


def is_batch_norm_act(layer: nn.Module) -> bool:
    """Whether the layer runs timm's BatchNormAct2d.forward; works without timm."""
    owner = next(cls for cls in type(layer).__mro__ if "forward" in vars(cls))
    return (owner.__module__, owner.__name__) == (
        "timm.layers.norm_act",
        "BatchNormAct2d",
    )
