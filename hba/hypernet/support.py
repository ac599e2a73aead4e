"""Which layers can get a hyper-layer: those whose function is known. None is silently replaced by another.

A subclass of Conv2d, BatchNorm2d or Linear with its own forward computes something else from its weights, and a
reparametrised layer has other weights than it seems to. The one exception is timm's BatchNormAct2d, a BatchNorm2d
followed by its own `drop` and `act`.
"""

from torch import nn

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
