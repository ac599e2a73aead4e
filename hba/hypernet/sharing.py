"""Weight sharing strategies: which layers get a hyper-layer; all others share their weights (paper, 3.5, Table 2).

Layers count in the order in which the network defines them.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from torch import nn

from hba.errors import SettingsError

Select = Callable[[list[tuple[str, nn.Module]]], list[str]]


def _all_of(*kinds: type[nn.Module]) -> Select:
    return lambda layers: [name for name, layer in layers if isinstance(layer, kinds)]


def _first(kind: type[nn.Module]) -> Select:
    return lambda layers: _all_of(kind)(layers)[:1]


SHARING: Mapping[str, Select] = MappingProxyType(
    {
        "first-bn": _first(nn.BatchNorm2d),
        "bn": _all_of(nn.BatchNorm2d),
        "first-conv": _first(nn.Conv2d),
        "conv": _all_of(nn.Conv2d),
        "conv+bn": _all_of(nn.Conv2d, nn.BatchNorm2d),
        "all": _all_of(nn.Conv2d, nn.BatchNorm2d, nn.Linear),
    }
)
"""Name of the strategy to the names of its layers. The paper's five, and `all`, which adds the hidden linear layers."""


def layers_to_replace(model: nn.Module, sharing: str) -> list[str]:
    """Names of the modules that get a hyper-layer; never the last linear layer (paper, 4.1).

    Raises SettingsError for an unknown strategy, and for one that finds no layer in this network.
    """
    if sharing not in SHARING:
        raise SettingsError(f"unknown sharing {sharing!r}; known: {', '.join(SHARING)}")
    layers = [(name, layer) for name, layer in model.named_modules() if layer is not model]
    linear = [name for name, layer in layers if isinstance(layer, nn.Linear)]
    chosen = [name for name in SHARING[sharing](layers) if name not in linear[-1:]]
    if not chosen:
        raise SettingsError(f"sharing {sharing!r} finds no layer to replace in {type(model).__name__}")
    return chosen
