"""Weight sharing strategies: which layers get a hyper-layer; all others share their weights (paper, 3.5, Table 2).

Layers count in the order in which the network defines them. Two kinds never get a hyper-layer; every strategy
shares their weights: the last linear layer (a network that ends in a convolution has none, so `conv` takes the last
convolution too), and the output projection of nn.MultiheadAttention, which reads its weights directly.

A frozen layer, all of whose parameters have requires_grad False, does not count: it stays the layer that it is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from torch import nn
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear

from hba.errors import SettingsError
from hba.hypernet.support import reason_against

Named = list[tuple[str, nn.Module]]


@dataclass(frozen=True)
class Strategy:
    """All layers of some kinds, or the first of them only."""

    kinds: tuple[type[nn.Module], ...]
    first_only: bool = False

    def select(self, layers: Named) -> Named:
        chosen = [(name, layer) for name, layer in layers if isinstance(layer, self.kinds)]
        return chosen[:1] if self.first_only else chosen


SHARING: Mapping[str, Strategy] = MappingProxyType(
    {
        "first-bn": Strategy((nn.BatchNorm2d,), first_only=True),
        "bn": Strategy((nn.BatchNorm2d,)),
        "first-conv": Strategy((nn.Conv2d,), first_only=True),
        "conv": Strategy((nn.Conv2d,)),
        "conv+bn": Strategy((nn.Conv2d, nn.BatchNorm2d)),
        "all": Strategy((nn.Conv2d, nn.BatchNorm2d, nn.Linear)),
    }
)
"""Name of the strategy to its layers. The paper's five, and `all`, which adds the hidden linear layers."""


def layers_to_replace(model: nn.Module, sharing: str) -> list[str]:
    """Names of the modules that get a hyper-layer; never the last linear layer (paper, 4.1).

    Raises SettingsError for an unknown strategy, for one that finds no layer in this network, or frozen ones only, and
    for one that finds a layer for which there is no hyper-layer.
    """
    if sharing not in SHARING:
        raise SettingsError(f"unknown sharing {sharing!r}; known: {', '.join(SHARING)}")
    layers = _candidates(model)
    chosen = SHARING[sharing].select(_trained(layers))
    if not chosen:
        kinds = _either(["hidden Linear" if kind is nn.Linear else kind.__name__ for kind in SHARING[sharing].kinds])
        if frozen := SHARING[sharing].select(layers):
            raise SettingsError(
                f"sharing {sharing!r} needs a {kinds} layer that is not frozen, in {_name(model)} all are frozen "
                f"({frozen[0][0]!r} first); {_advice(model)}; the algorithms lookahead and population need none"
            )
        raise SettingsError(f"sharing {sharing!r} needs a {kinds} layer, {_name(model)} has none; {_advice(model)}")
    for name, layer in chosen:
        if reason := reason_against(layer):
            raise SettingsError(f"sharing {sharing!r} cannot replace {name!r}: {reason}; {_advice(model)}")
    return [name for name, _ in chosen]


def working_strategies(model: nn.Module) -> tuple[str, ...]:
    """The strategies that find layers in this network, all of which can get a hyper-layer."""
    layers = _trained(_candidates(model))
    selected = {sharing: strategy.select(layers) for sharing, strategy in SHARING.items()}
    return tuple(
        sharing
        for sharing, chosen in selected.items()
        if chosen and not any(reason_against(layer) for _, layer in chosen)
    )


def _candidates(model: nn.Module) -> Named:
    layers = [
        (name, layer)
        for name, layer in model.named_modules()
        if layer is not model and not isinstance(layer, NonDynamicallyQuantizableLinear)
    ]
    linear = [name for name, layer in layers if isinstance(layer, nn.Linear)]
    return [(name, layer) for name, layer in layers if name not in linear[-1:]]


def _trained(layers: Named) -> Named:
    """Without frozen layers. A layer without parameters has nothing to freeze."""
    flags = [[parameter.requires_grad for parameter in layer.parameters()] for _, layer in layers]
    return [named for named, trained in zip(layers, flags, strict=True) if any(trained) or not trained]


def _advice(model: nn.Module) -> str:
    working = working_strategies(model)
    return f"strategies that work here: {', '.join(working)}" if working else "no other strategy works here"


def _name(model: nn.Module) -> str:
    return type(model).__name__


def _either(words: Sequence[str]) -> str:
    return " or ".join([", ".join(words[:-1]), words[-1]] if words[1:] else words)
