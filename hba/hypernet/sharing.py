"""Weight sharing strategies: which layers get a hyper-layer; all others share their
weights (paper, 3.5, Table 2).

The order of layers is the order in which the network defines them. The last linear
layer gets a hyper-layer only with `every` (there is no such exception for a last
convolution). These layers never get one: the output projection of
nn.MultiheadAttention, whose weights are read directly, and layers with a frozen
parameter (requires_grad False).
"""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from torch import nn
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear as OutputOfAttention

from hba.errors import SettingsError
from hba.hypernet.layers import can_be_replaced


class Strategy(NamedTuple):
    """All layers of some classes, or only the first of them."""

    kinds: tuple[type[nn.Module], ...]
    """The classes of the layers."""
    first_only: bool = False
    """Whether only the first layer is chosen."""
    last_linear: bool = False
    """Whether the last linear layer can be chosen."""


SHARING: Mapping[str, Strategy] = {
    "first-bn": Strategy((nn.BatchNorm2d,), first_only=True),
    "bn": Strategy((nn.BatchNorm2d,)),
    "first-conv": Strategy((nn.Conv2d,), first_only=True),
    "conv": Strategy((nn.Conv2d,)),
    "conv+bn": Strategy((nn.Conv2d, nn.BatchNorm2d)),
    "all": Strategy((nn.Conv2d, nn.BatchNorm2d, nn.Linear)),
    "every": Strategy((nn.Conv2d, nn.BatchNorm2d, nn.Linear), last_linear=True),
}
"""By name: the paper's five; `all`; and `every`, as in STN (MacKay et al. 2019) and
Delta-STN (Bae and Grosse 2020).
"""


def layers_to_replace(model: nn.Module, sharing: str) -> list[str]:
    """Names of the modules that get a hyper-layer.

    Args:
        model: The network.
        sharing: Name of the strategy.

    Raises:
        SettingsError: If the strategy is unknown, if it finds no layer in this network,
            or if it finds a layer that no hyper-layer can replace or that shares its
            weights with another layer.
    """
    if sharing not in SHARING:
        raise SettingsError(f"unknown sharing {sharing!r}; known: {', '.join(SHARING)}")
    chosen, problem = _chosen(model, SHARING[sharing])
    if problem:
        working = ", ".join(working_strategies(model)) or "none"
        remedy = (
            f"sharing that works here: {working}; the algorithms lookahead and"
            " population need none"
        )
        raise SettingsError(
            f"sharing {sharing!r} {problem} in {type(model).__name__}; {remedy}"
        )
    return chosen


def working_strategies(model: nn.Module) -> tuple[str, ...]:
    """The strategies that find layers in this network, and only layers that a
    hyper-layer can replace.
    """
    return tuple(
        sharing
        for sharing, strategy in SHARING.items()
        if not _chosen(model, strategy)[1]
    )


def _chosen(model: nn.Module, strategy: Strategy) -> tuple[list[str], str | None]:
    """Names of the layers that a strategy chooses, and why hyper-layers cannot replace
    them; None if they can.
    """
    layers = {
        name: module
        for name, module in model.named_modules()
        if name and not isinstance(module, OutputOfAttention)
    }
    linear = [name for name, layer in layers.items() if isinstance(layer, nn.Linear)]
    left_out = () if strategy.last_linear else linear[-1:]
    trained = [
        name
        for name, layer in layers.items()
        if all(parameter.requires_grad for parameter in layer.parameters())
    ]
    chosen = [
        name
        for name in trained
        if isinstance(layers[name], strategy.kinds) and name not in left_out
    ]
    chosen = chosen[:1] if strategy.first_only else chosen
    if not chosen:
        class_names = " or ".join(
            layer_class.__name__ for layer_class in strategy.kinds
        )
        return chosen, f"needs a {class_names} that is trained"
    # A hyper-layer has its own weights, so tied weights would no longer be tied.
    uses = Counter(
        id(parameter)
        for module in model.modules()
        for parameter in module.parameters(recurse=False)
    )
    for name in chosen:
        if not can_be_replaced(layers[name]):
            return chosen, f"cannot replace {name!r}, a {type(layers[name]).__name__}"
        if any(
            uses[id(parameter)] > 1
            for parameter in layers[name].parameters(recurse=False)
        ):
            return (
                chosen,
                (
                    f"cannot replace {name!r}, which shares its weights with another"
                    " layer,"
                ),
            )
    return chosen, None
