"""Weight sharing strategies: which layers get a hyper-layer; all others share their weights (paper, 3.5, Table 2).

Layers count in the order in which the network defines them. The output projection of nn.MultiheadAttention and the two
linear layers of nn.TransformerEncoderLayer, whose weights are read directly, never get a hyper-layer. The last linear
layer gets one by `every` alone (a network that ends in a convolution has none, so `conv` takes the last convolution
too).

A frozen layer, all of whose parameters have requires_grad False, does not count: it stays the layer that it is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from torch import nn
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear

from hba.errors import SettingsError
from hba.hypernet.layers import reason_against

Named = list[tuple[str, nn.Module]]


@dataclass(frozen=True)
class Strategy:
    """All layers of some kinds, or the first of them only. last_linear: the last linear layer counts too."""

    kinds: tuple[type[nn.Module], ...]
    first_only: bool = False
    last_linear: bool = False

    def select(self, layers: Named) -> Named:
        """Of layers in the order of the network, without frozen ones."""
        trained = _trained(self.of_its_kinds(layers))
        return trained[:1] if self.first_only else trained

    def of_its_kinds(self, layers: Named) -> Named:
        """With frozen ones. The last linear layer is the last of all of them."""
        linear = [name for name, layer in layers if isinstance(layer, nn.Linear)]
        left_out = () if self.last_linear else linear[-1:]
        return [(name, layer) for name, layer in layers if isinstance(layer, self.kinds) and name not in left_out]

    def needs(self) -> str:
        """The kinds, for people."""
        hidden = "" if self.last_linear else "hidden "
        return _either([f"{hidden}Linear" if kind is nn.Linear else kind.__name__ for kind in self.kinds])


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
"""Name of the strategy to its layers. The paper's five; `all`, which adds the hidden linear layers; and `every`, which
adds the last one too, as STN (MacKay et al. 2019) and Delta-STN (Bae and Grosse 2020) do.
"""


def layers_to_replace(model: nn.Module, sharing: str) -> list[str]:
    """Names of the modules that get a hyper-layer; but by `every`, never the last linear layer (paper, 4.1).

    Raises SettingsError for an unknown strategy, for one that finds no layer in this network, or frozen ones only, and
    for one that finds a layer for which there is no hyper-layer, or that shares a weight with another one.
    """
    if sharing not in SHARING:
        raise SettingsError(f"unknown sharing {sharing!r}; known: {', '.join(SHARING)}")
    layers = _candidates(model)
    strategy = SHARING[sharing]
    chosen = strategy.select(layers)
    if not chosen:
        kinds = strategy.needs()
        if frozen := strategy.of_its_kinds(layers):
            raise SettingsError(
                f"sharing {sharing!r} needs a {kinds} layer that is not frozen, in {_name(model)} all are frozen "
                f"({frozen[0][0]!r} first); {_advice(model)}; the algorithms lookahead and population need none"
            )
        raise SettingsError(f"sharing {sharing!r} needs a {kinds} layer, {_name(model)} has none; {_advice(model)}")
    ties = _ties(model)
    for name, layer in chosen:
        if reason := reason_against(layer) or ties.get(id(layer)):
            raise SettingsError(f"sharing {sharing!r} cannot replace {name!r}: {reason}; {_advice(model)}")
    return [name for name, _ in chosen]


def working_strategies(model: nn.Module) -> tuple[str, ...]:
    """The strategies that find layers in this network, all of which can get a hyper-layer."""
    layers, ties = _candidates(model), _ties(model)
    selected = {sharing: strategy.select(layers) for sharing, strategy in SHARING.items()}
    return tuple(
        sharing
        for sharing, chosen in selected.items()
        if chosen and not any(reason_against(layer) or id(layer) in ties for _, layer in chosen)
    )


def _ties(model: nn.Module) -> Mapping[int, str]:
    """By id of each layer that shares a weight with another one, why it cannot get a hyper-layer, which has weights of
    its own.
    """
    users: dict[int, list[tuple[str, nn.Module]]] = {}
    for named in model.named_modules():
        for parameter in named[1].parameters(recurse=False):
            users.setdefault(id(parameter), []).append(named)
    ties: dict[int, str] = {}
    for sharing in [found for found in users.values() if len(found) > 1]:
        for _, layer in sharing:
            other = next(name for name, one in sharing if one is not layer) or "the network itself"
            ties.setdefault(id(layer), f"it shares a weight with {other!r}, which would be two")
    return ties


def _candidates(model: nn.Module) -> Named:
    of_encoders = {
        id(layer)
        for encoder in model.modules()
        if isinstance(encoder, nn.TransformerEncoderLayer)
        for layer in (encoder.linear1, encoder.linear2)
    }
    return [
        (name, layer)
        for name, layer in model.named_modules()
        if layer is not model
        and not isinstance(layer, NonDynamicallyQuantizableLinear)
        and id(layer) not in of_encoders
    ]


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
