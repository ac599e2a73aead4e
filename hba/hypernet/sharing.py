"""Weight sharing strategies: which layers get a hyper-layer; all others share their weights (paper, 3.5, Table 2).

Layers count in the order in which the network defines them. The last linear layer gets a hyper-layer only with `every`
(a network that ends in a convolution has no such exception). These layers never get one: the output projection of
nn.MultiheadAttention and the two linear layers of nn.TransformerEncoderLayer, whose weights are read directly, and
layers of which a parameter is frozen (requires_grad False).
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from torch import nn
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear

from hba.errors import SettingsError
from hba.hypernet.layers import can_be_replaced


@dataclass(frozen=True)
class Strategy:
    """All layers of some kinds, or only the first of them. last_linear: the last linear layer counts too."""

    kinds: tuple[type[nn.Module], ...]
    first_only: bool = False
    last_linear: bool = False


SHARING: Mapping[str, Strategy] = MappingProxyType(
    {
        "first-bn": Strategy((nn.BatchNorm2d,), first_only=True),
        "bn": Strategy((nn.BatchNorm2d,)),
        "first-conv": Strategy((nn.Conv2d,), first_only=True),
        "conv": Strategy((nn.Conv2d,)),
        "conv+bn": Strategy((nn.Conv2d, nn.BatchNorm2d)),
        "all": Strategy((nn.Conv2d, nn.BatchNorm2d, nn.Linear)),
        "every": Strategy((nn.Conv2d, nn.BatchNorm2d, nn.Linear), last_linear=True),
    }
)
"""By name: the paper's five; `all`, which adds the hidden linear layers; and `every`, which adds the last one too, as
STN (MacKay et al. 2019) and Delta-STN (Bae and Grosse 2020) do.
"""


def layers_to_replace(model: nn.Module, sharing: str) -> list[str]:
    """Names of the modules that get a hyper-layer.

    Raises SettingsError for an unknown strategy, for one that finds no layer in this network, and for one that finds a
    layer for which there is no hyper-layer, or whose weights another layer has too.
    """
    if sharing not in SHARING:
        raise SettingsError(f"unknown sharing {sharing!r}; known: {', '.join(SHARING)}")
    chosen = _chosen(model, SHARING[sharing])
    kinds = " or ".join(kind.__name__ for kind in SHARING[sharing].kinds)
    wrong = _without_hyper_layer(model, chosen)
    if wrong or not chosen:
        found = f"cannot replace {wrong[0]}" if wrong else f"needs a {kinds} that is trained"
        raise SettingsError(
            f"sharing {sharing!r} {found} in {type(model).__name__}; sharing that works here: "
            f"{', '.join(working_strategies(model)) or 'none'}; the algorithms lookahead and population need none"
        )
    return list(chosen)


def working_strategies(model: nn.Module) -> tuple[str, ...]:
    """The strategies that find layers in this network, all of which can get a hyper-layer."""
    found = {sharing: _chosen(model, strategy) for sharing, strategy in SHARING.items()}
    return tuple(sharing for sharing, chosen in found.items() if chosen and not _without_hyper_layer(model, chosen))


def _without_hyper_layer(model: nn.Module, chosen: Mapping[str, nn.Module]) -> list[str]:
    """Those of the chosen layers that cannot become a hyper-layer, with the reason."""
    # A hyper-layer has weights of its own, so tied weights would be parted.
    uses = Counter(id(one) for module in model.modules() for one in module.parameters(recurse=False))
    tied = [name for name, layer in chosen.items() if any(uses[id(one)] > 1 for one in layer.parameters(recurse=False))]
    other = [f"{name!r}, a {type(layer).__name__}" for name, layer in chosen.items() if not can_be_replaced(layer)]
    return other + [f"{name!r}, whose weights another layer has too," for name in tied]


def _chosen(model: nn.Module, strategy: Strategy) -> dict[str, nn.Module]:
    encoders = [layer for layer in model.modules() if isinstance(layer, nn.TransformerEncoderLayer)]
    read_directly = {id(linear) for encoder in encoders for linear in (encoder.linear1, encoder.linear2)}
    layers = {
        name: layer
        for name, layer in model.named_modules()
        if layer is not model
        and not isinstance(layer, NonDynamicallyQuantizableLinear)
        and id(layer) not in read_directly
    }
    linear = [name for name, layer in layers.items() if isinstance(layer, nn.Linear)]
    left_out = () if strategy.last_linear else linear[-1:]
    chosen = {
        name: layer
        for name, layer in layers.items()
        if isinstance(layer, strategy.kinds)
        and name not in left_out
        and all(parameter.requires_grad for parameter in layer.parameters())
    }
    return dict(list(chosen.items())[:1]) if strategy.first_only else chosen
