"""HyperNetwork: an ordinary network in which some weights are affine in lambda."""

import copy
from typing import Any

import torch
from torch import Tensor, nn

from hba.errors import SettingsError
from hba.hypernet.dropout import TunedDropout, TunedRates
from hba.hypernet.layers import HyperBatchNorm2d, HyperLayer, HyperLinear, LambdaContext
from hba.hypernet.sharing import layers_to_replace


class HyperNetwork(nn.Module):
    """F(x; theta(lambda)): a copy of a network with hyper-layers in place of layers.

    At the start, theta does not depend on lambda and equals the model's weights.

    Args:
        model: The network to copy.
        n: Number of hyperparameters.
        sharing: A key of SHARING, the strategy that chooses the layers.
        generator: For the directions phi_U; None uses seed 0.
        rates: Of dropout modules with tuned rates.
    """

    center: Tensor
    """The lambda (n,) at which theta is phi_0; the layers get lambda - center.

    With zero, this is the paper's hypernetwork. With the current lambda of a search, it
    is the centered one (Delta-STN, eq. 3.1 and 3.14): phi_0 are the current weights,
    and phi_U and phi_V only their response to a change of lambda.
    """

    def __init__(
        self,
        model: nn.Module,
        n: int,
        sharing: str = "first-bn",
        generator: torch.Generator | None = None,
        rates: TunedRates | None = None,
    ) -> None:
        super().__init__()
        self.n = n
        self.register_buffer("center", torch.zeros(n))
        self.model = copy.deepcopy(model)
        self.context = LambdaContext()
        generator = generator or torch.Generator().manual_seed(0)
        for name in layers_to_replace(model, sharing):
            layer = self.model.get_submodule(name)
            if isinstance(layer, nn.BatchNorm2d):
                hyper: HyperLayer = HyperBatchNorm2d(layer, n, self.context)
            else:
                assert isinstance(layer, nn.Conv2d | nn.Linear)
                hyper = HyperLinear(layer, n, self.context, generator)
            _replace(self.model, layer, hyper)
        self.rates = rates
        for name, column in (rates.columns if rates else {}).items():
            layer = self.model.get_submodule(name)
            _replace(self.model, layer, TunedDropout(layer, name, column, self.context))

    def forward(self, x: Any, lam: Tensor) -> Any:
        """The network's output at lambda.

        No gradient flows through the rates of dropout.

        Args:
            x: Input of length B.
            lam: lambda, (n,) for all images or (B, n) with one row per image.
        """
        if lam.shape not in ((self.n,), (len(x), self.n)):
            raise SettingsError(
                f"lam must be of shape ({self.n},) or ({len(x)}, {self.n}), got"
                f" {tuple(lam.shape)}"
            )
        self.context.lam = lam - self.center
        return self._through_door(x, lam)

    def first_order(self, x: Any, lam_rows: Tensor) -> Any:
        """The output at the center, and its derivative along lambda minus the center.

        Only phi_U and phi_V get gradients from the derivative. Dropout uses the rates
        of lam_rows.

        Args:
            x: Input of length B.
            lam_rows: lambda (B, n).

        Returns:
            Dual numbers of a forward_ad.dual_level.
        """
        self.context.eps = lam_rows - self.center
        return self._through_door(x, lam_rows)

    def _through_door(self, x: Any, lam: Tensor) -> Any:
        if self.rates is not None and self.training:
            self.context.values = self.rates.decode(lam.detach())
        try:
            return self.model(x)
        except AttributeError as error:
            if not isinstance(error.obj, HyperLayer | TunedDropout):
                raise
            problem = (
                f"the network reads {error.name!r} of a layer that a hyper-layer or a"
                " tuned dropout replaces"
            )
            remedy = "choose another sharing or model, or omit dropout from tune"
            raise SettingsError(f"{problem}; {remedy}") from None
        finally:
            self.context.lam = self.context.eps = self.context.values = None

    def to_module(self, lam: Tensor) -> nn.Module:
        """An ordinary network without hyper-layers, with the weights at lam (n,)."""
        network = copy.deepcopy(self.model)
        for layer in [
            module for module in network.modules() if isinstance(module, HyperLayer)
        ]:
            _replace(network, layer, layer.to_module((lam - self.center).detach()))
        if self.rates is not None:
            values = self.rates.decode(lam.detach())
            for dropout in [
                module
                for module in network.modules()
                if isinstance(module, TunedDropout)
            ]:
                _replace(network, dropout, dropout.to_module(values))
        return network

    def squared_norm(self, lam: Tensor) -> Tensor:
        """Squared norm (B,) of all trained weights at each row of lam (B, n), with a
        graph.
        """
        layers = self._hyper_layers()
        replaced_ids = {
            id(parameter)
            for layer in layers
            for parameter in layer.parameters(recurse=False)
        }
        shared = [
            parameter
            for parameter in self.parameters()
            if parameter.requires_grad and id(parameter) not in replaced_ids
        ]
        of_shared = sum(
            (parameter.square().sum() for parameter in shared), lam.new_zeros(())
        )
        return sum(
            (layer.squared_norm(lam - self.center) for layer in layers),
            of_shared.expand(len(lam)),
        )

    def response_parameters(self) -> list[nn.Parameter]:
        """phi_U and phi_V of all hyper-layers, the response of the weights to a change
        of lambda.
        """
        parameters = [
            named
            for layer in self._hyper_layers()
            for named in layer.named_parameters(recurse=False)
        ]
        return [
            parameter for name, parameter in parameters if name.endswith(("_U", "_V"))
        ]

    def current_parameters(self) -> dict[str, nn.Parameter]:
        """All other parameters by name: phi_0 and the weights that do not depend on
        lambda.
        """
        response = {id(parameter) for parameter in self.response_parameters()}
        return {
            name: parameter
            for name, parameter in self.named_parameters()
            if id(parameter) not in response
        }

    def _hyper_layers(self) -> list[HyperLayer]:
        return [module for module in self.modules() if isinstance(module, HyperLayer)]


def _replace(network: nn.Module, old: nn.Module, new: nn.Module) -> None:
    """Replace a layer under all its names, so that a layer with two names remains one
    layer.
    """
    for name, module in list(network.named_modules(remove_duplicate=False)):
        if module is old:
            parent, _, child = name.rpartition(".")
            network.get_submodule(parent).add_module(child, new)
