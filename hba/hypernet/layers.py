"""Hyper-layers: ordinary layers whose weights are affine in lambda (paper, Appendix D).

    symbol      in the code      meaning                                                    shape
    lambda      lam              hyperparameters as logits, for all images or for each      (n,) or (B, n)
    phi_0       ..._0            weights at lambda = 0                                      as the layer's
    phi_U       ..._U            direction in which a row of weights moves                  as phi_0
    phi_V       ..._V            how far lambda moves each row                              (rows, n)

theta(lambda) = phi_0 + diag(phi_V lambda) phi_U                                            (eq. 10 to 14)

One lambda for all images: the weights are computed, then the layer runs once. One lambda per image: row j of the
weights of image i is phi_0[j] + (phi_V[j] . lambda_i) phi_U[j], and because the layer is linear its output is the
one of phi_0 plus (phi_V[j] . lambda_i) times the one of phi_U. No weights are ever made per image.

phi_V starts at zero, so a hyper-layer begins as the layer it replaces (as in Delta-STN); phi_U starts as PyTorch
starts weights and biases of that shape (as in STN's listing 1), and at one for BatchNorm, where zero would be a saddle
point.

The network linearized in lambda at its center needs no more: what a move eps (B, n) from there changes in an output is
(phi_V eps) times the one of phi_U, of the input at the center, and what it changed in the input, through phi_0.

A weight or bias that is frozen in the layer (requires_grad False) stays frozen here and in the plain layer, and does
not depend on lambda: its phi_V stays at zero.
"""

import copy
import math
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import forward_ad

from hba.errors import SettingsError


class Door:
    """The place where a HyperNetwork puts lambda for its hyper-layers, and values in natural units for its dropouts,
    open during one forward pass only.

    eps (B, n): in the place of lambda, a move from the center, along which dual numbers carry the change of outputs.
    """

    lam: Tensor | None = None
    eps: Tensor | None = None
    values: Tensor | None = None

    def read(self) -> Tensor:
        return self._read(self.lam)

    def read_values(self) -> Tensor:
        return self._read(self.values)

    def _read(self, found: Tensor | None) -> Tensor:
        if found is None:
            raise SettingsError("a hyper-layer ran outside of HyperNetwork.forward, which alone hands it lambda")
        return found


class HyperLayer(nn.Module):
    """What all hyper-layers share: the network they belong to hands them lambda through `door`."""

    def __init__(self, door: Door) -> None:
        super().__init__()
        self.door = door

    def to_module(self, lam: Tensor) -> nn.Module:
        """An ordinary layer with the weights at lam (n,)."""
        raise NotImplementedError

    def squared_norm(self, lam: Tensor) -> Tensor:
        """Of the trained weights at lam (B, n), a number for each image (B,), with a graph. No weights are made."""
        raise NotImplementedError

    def response_parameters(self) -> list[nn.Parameter]:
        """phi_U and phi_V, as far as they are trained."""
        named = self.named_parameters(recurse=False)
        return [one for name, one in named if name.endswith(("_U", "_V")) and one.requires_grad]


def modulated(phi_0: Tensor, phi_U: Tensor, phi_V: Tensor, lam: Tensor) -> Tensor:
    """phi_0 + diag(phi_V lam) phi_U for one lam (n,), any number of weight dimensions after the rows (eq. 10)."""
    scale = phi_V @ lam
    return phi_0 + scale.reshape(-1, *[1] * (phi_0.ndim - 1)) * phi_U


def modulated_squares(phi_0: Tensor, phi_U: Tensor, phi_V: Tensor, lam: Tensor) -> Tensor:
    """Sum of squares (B,) of `modulated` at each row of lam (B, n).

    With s = phi_V lam, row j has |phi_0[j]|^2 + 2 s_j phi_0[j] . phi_U[j] + s_j^2 |phi_U[j]|^2.
    """
    rows_0, rows_U, scale = phi_0.flatten(1), phi_U.flatten(1), lam @ phi_V.T
    return rows_0.square().sum() + 2 * scale @ (rows_0 * rows_U).sum(1) + scale.square() @ rows_U.square().sum(1)


class _HyperLinearMap(HyperLayer):
    """Eq. 10 and 11, and 12 and 13: a linear map with one row of weights per output channel."""

    def __init__(self, layer: nn.Linear | nn.Conv2d, n: int, door: Door, generator: torch.Generator) -> None:
        super().__init__(door)
        self.template = _without_parameters(layer)
        weight, trained = layer.weight.detach(), layer.weight.requires_grad
        bound = 1 / math.sqrt(weight[0].numel())

        def direction(of: Tensor) -> Tensor:
            return torch.empty(of.shape).uniform_(-bound, bound, generator=generator).to(of)

        self.weight_0 = _parameter(weight, trained)
        self.weight_U = nn.Parameter(direction(weight), trained)
        self.weight_V = nn.Parameter(weight.new_zeros(len(weight), n), trained)
        bias = layer.bias
        trained = bias is not None and bias.requires_grad
        self.bias_0 = None if bias is None else _parameter(bias, trained)
        self.bias_U = None if bias is None else nn.Parameter(direction(bias.detach()), trained)
        self.bias_V = None if bias is None else nn.Parameter(weight.new_zeros(len(weight), n), trained)

    def linear_map(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The layer's own function with these weights."""
        raise NotImplementedError

    def per_image(self, rows: Tensor, like: Tensor) -> Tensor:
        """(B, c) with as many dimensions as the layer's output: it scales the channels of each image."""
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        if self.door.eps is not None:
            return self.first_order(x, self.door.eps)
        lam = self.door.read()
        if lam.ndim == 1:
            return self.linear_map(x, *self.weights_at(lam))
        y = self.linear_map(x, self.weight_0, self.bias_0)
        y = y + self.per_image(lam @ self.weight_V.T, y) * self.linear_map(x, self.weight_U, None)
        if self.bias_U is not None and self.bias_V is not None:
            y = y + self.per_image((lam @ self.bias_V.T) * self.bias_U, y)
        return y

    def first_order(self, x: Tensor, eps: Tensor) -> Tensor:
        """The output at the center, and its change: dual numbers. Only the change has a graph, to phi_U and phi_V."""
        bias_0 = None if self.bias_0 is None else self.bias_0.detach()
        y = self.linear_map(x, self.weight_0.detach(), bias_0)
        at_center = forward_ad.unpack_dual(x).primal.detach()
        change = self.linear_map(at_center, self.weight_U, None)
        change = self.per_image(eps @ self.weight_V.T, change) * change
        if self.bias_U is not None and self.bias_V is not None:
            change = change + self.per_image((eps @ self.bias_V.T) * self.bias_U, change)
        return _changed(y, change)

    def weights_at(self, lam: Tensor) -> tuple[Tensor, Tensor | None]:
        """Weight and bias at lam (n,)."""
        weight = modulated(self.weight_0, self.weight_U, self.weight_V, lam)
        if self.bias_0 is None or self.bias_U is None or self.bias_V is None:
            return weight, None
        return weight, modulated(self.bias_0, self.bias_U, self.bias_V, lam)

    def squared_norm(self, lam: Tensor) -> Tensor:
        found = lam.new_zeros(len(lam))
        if self.weight_0.requires_grad:
            found = found + modulated_squares(self.weight_0, self.weight_U, self.weight_V, lam)
        if self.bias_0 is not None and self.bias_0.requires_grad:
            assert self.bias_U is not None
            assert self.bias_V is not None
            found = found + modulated_squares(self.bias_0[:, None], self.bias_U[:, None], self.bias_V, lam)
        return found

    def to_module(self, lam: Tensor) -> nn.Module:
        layer = copy.deepcopy(self.template)
        weight, bias = self.weights_at(lam)
        layer.register_parameter("weight", _parameter(weight, self.weight_0.requires_grad))
        trains_bias = self.bias_0 is not None and self.bias_0.requires_grad
        layer.register_parameter("bias", None if bias is None else _parameter(bias, trains_bias))
        return layer


class HyperLinear(_HyperLinearMap):
    """A linear layer with weights affine in lambda (eq. 10, bias eq. 11)."""

    def linear_map(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return F.linear(x, weight, bias)

    def per_image(self, rows: Tensor, like: Tensor) -> Tensor:
        return rows.reshape(len(rows), *[1] * (like.ndim - 2), rows.shape[1])


class HyperConv2d(_HyperLinearMap):
    """A convolution with filters affine in lambda (eq. 12 and 13, bias eq. 11); any stride, padding and groups."""

    def linear_map(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return cast(nn.Conv2d, self.template)._conv_forward(x, weight, bias)

    def per_image(self, rows: Tensor, like: Tensor) -> Tensor:
        return _per_channel(rows)


class HyperBatchNorm2d(HyperLayer):
    """A batch normalization with scale and offset affine in lambda (eq. 14).

    The statistics are the batch's, over all images with all their lambdas. What timm's BatchNormAct2d does after
    the normalization, drop and act, comes after scale and offset. Where one of scale and offset is frozen, `frozen`
    holds it (c,), and the hyper-layer's own rows are the other's.
    """

    def __init__(self, layer: nn.BatchNorm2d, n: int, door: Door) -> None:
        super().__init__(door)
        if not layer.affine:
            raise SettingsError("a BatchNorm without scale and offset (affine=False) cannot get a hyper-layer")
        self.trains_scale, self.trains_offset = layer.weight.requires_grad, layer.bias.requires_grad
        trained = [one for one in (layer.weight, layer.bias) if one.requires_grad]
        frozen = [one for one in (layer.weight, layer.bias) if not one.requires_grad]
        self.acts = is_batch_norm_act(layer)
        self.normalize: Any = copy.deepcopy(layer)
        self.normalize.affine = False
        self.normalize.register_parameter("weight", None)
        self.normalize.register_parameter("bias", None)
        # Scale and offset are one vector of 2c rows, as in the paper.
        affine = torch.cat([one.detach() for one in trained or frozen])
        self.affine_0 = nn.Parameter(affine, bool(trained))
        self.affine_U = nn.Parameter(torch.ones_like(affine), bool(trained))
        self.affine_V = nn.Parameter(affine.new_zeros(len(affine), n), bool(trained))
        self.frozen = _parameter(frozen[0], trained=False) if trained and frozen else None

    def forward(self, x: Tensor) -> Tensor:
        # Not self.normalize(x), which for a BatchNormAct2d would also drop and act, before scale and offset.
        y = nn.BatchNorm2d.forward(self.normalize, x)
        scale, offset = self._scale_and_offset(self.affine_of(len(x)))
        y = y * _per_channel(scale) + _per_channel(offset)
        return self.normalize.act(self.normalize.drop(y)) if self.acts else y

    def affine_of(self, n_images: int) -> Tensor:
        """Rows (B, 2c) of scale and offset; dual numbers where the door has eps."""
        if self.door.eps is not None:
            at_center = self.affine_0.detach().expand(n_images, -1).clone()
            return forward_ad.make_dual(at_center, (self.door.eps @ self.affine_V.T) * self.affine_U)
        lam = self.door.read()
        if lam.ndim == 1:
            return modulated(self.affine_0, self.affine_U, self.affine_V, lam).expand(n_images, -1)
        return self.affine_0 + (lam @ self.affine_V.T) * self.affine_U

    def squared_norm(self, lam: Tensor) -> Tensor:
        if not self.affine_0.requires_grad:
            return lam.new_zeros(len(lam))
        return modulated_squares(self.affine_0[:, None], self.affine_U[:, None], self.affine_V, lam)

    def to_module(self, lam: Tensor) -> nn.Module:
        layer = copy.deepcopy(self.normalize)
        layer.affine = True
        affine = modulated(self.affine_0, self.affine_U, self.affine_V, lam)
        scale, offset = self._scale_and_offset(affine[None])
        layer.weight, layer.bias = _parameter(scale[0], self.trains_scale), _parameter(offset[0], self.trains_offset)
        return layer

    def _scale_and_offset(self, affine: Tensor) -> tuple[Tensor, Tensor]:
        """Each (B, c), of rows (B, 2c), or (B, c) where one of both is frozen."""
        if self.frozen is None:
            scale, offset = affine.chunk(2, dim=1)
            return scale, offset
        frozen = self.frozen.expand_as(affine)
        return (affine, frozen) if self.trains_scale else (frozen, affine)


def _changed(y: Tensor, change: Tensor) -> Tensor:
    """y, a dual number or none, with a change that is added to its own."""
    value, own = forward_ad.unpack_dual(y)
    return forward_ad.make_dual(value, change if own is None else own + change)


def _parameter(value: Tensor, trained: bool) -> nn.Parameter:
    """A copy of the value, frozen unless it is trained."""
    return nn.Parameter(value.detach().clone(), trained)


def _per_channel(rows: Tensor) -> Tensor:
    """(B, c) as (B, c, 1, 1)."""
    return rows[:, :, None, None]


def _without_parameters(layer: nn.Linear | nn.Conv2d) -> nn.Module:
    """The layer's settings without its weights, which the hyper-layer holds itself."""
    template = copy.deepcopy(layer)
    template.register_parameter("weight", None)
    template.register_parameter("bias", None)
    return template


PLAIN: dict[type[nn.Module], tuple[str, ...]] = {
    nn.Conv2d: ("forward", "_conv_forward"),
    nn.BatchNorm2d: ("forward",),
    nn.Linear: ("forward",),
}
"""Each kind that has a hyper-layer, with the methods in which a subclass may not differ."""


def reason_against(layer: nn.Module) -> str | None:
    """Why the layer, of a kind in PLAIN, cannot get a hyper-layer, in a few words; None if it can."""
    kind = next(kind for kind in PLAIN if isinstance(layer, kind))
    if isinstance(layer, nn.BatchNorm2d) and not layer.affine:
        return "a BatchNorm without scale and offset (affine=False) has nothing to depend on lambda"
    if is_batch_norm_act(layer):
        return None
    if any(getattr(type(layer), method) is not getattr(kind, method) for method in PLAIN[kind]):
        return f"a {_called(type(layer), kind)} computes something else than a {kind.__name__}"
    if any(name not in ("weight", "bias") for name, _ in layer.named_parameters()):
        return f"this {kind.__name__} computes its weights from other parameters"
    return None


def _called(own: type[nn.Module], kind: type[nn.Module]) -> str:
    package = own.__module__.partition(".")[0]
    return f"{own.__name__} of {package}" if own.__name__ == kind.__name__ else own.__name__


def is_batch_norm_act(layer: nn.Module) -> bool:
    """Whether the layer runs timm's BatchNormAct2d.forward; timm need not be installed."""
    owner = next(cls for cls in type(layer).__mro__ if "forward" in vars(cls))
    return (owner.__module__, owner.__name__) == ("timm.layers.norm_act", "BatchNormAct2d")
