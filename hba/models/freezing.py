"""Parts of a network of timm that training leaves as they are: weights, and the statistics of BatchNorm.

timm says what the parts are: its groups of layers, from the stem to the head, by which it gives each depth a learning
rate of its own (`group_matcher(coarse=True)`). For a ResNet they are the stem, layer1 to layer4 and the head; for a
vision transformer the embeddings, each block and the head.
"""

from collections.abc import Sequence
from typing import Any

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from hba.errors import SettingsError

NOTHING, ALL_BUT_HEAD = "none", "all-but-head"


def freeze(network: nn.Module, what: str, heads: Sequence[str]) -> None:
    """Freeze nothing, all but the head, or the first `what` groups of layers.

    heads: names of its layers. A frozen BatchNorm normalises by its running statistics and keeps them, also in
    training. SettingsError for a number of groups that there are not, or that leaves nothing to train.
    """
    if what == NOTHING:
        return
    if what == ALL_BUT_HEAD:
        starts = tuple(f"{head}." for head in heads)
        frozen = [name for name, _ in network.named_parameters() if not name.startswith(starts)]
    else:
        frozen = _first_groups(network, int(what))
    for name in frozen:
        network.get_parameter(name).requires_grad_(False)
    for name, layer in network.named_modules():
        if isinstance(layer, _BatchNorm) and _is_frozen(layer, network.get_submodule(name.rpartition(".")[0])):
            layer.register_forward_pre_hook(_keep_statistics)


def _first_groups(network: nn.Module, n_groups: int) -> list[str]:
    """Names of their parameters."""
    matcher: Any = getattr(network, "group_matcher", None)
    if matcher is None:
        raise SettingsError(
            f"freeze must be {NOTHING} or {ALL_BUT_HEAD} for this network, whose layers timm does not group, "
            f"got {n_groups}"
        )
    from timm.models import group_parameters

    groups = group_parameters(network, matcher(coarse=True))
    if n_groups >= len(groups):
        raise SettingsError(
            f"freeze must be {NOTHING}, {ALL_BUT_HEAD}, or a number of groups of layers from 1 to {len(groups) - 1} "
            f"for this network, got {n_groups}"
        )
    return [name for number in range(n_groups) for name in groups[number]]


def _is_frozen(layer: nn.Module, around: nn.Module) -> bool:
    """Whether nothing in a layer is trained, or where it has no parameters, nothing in the one around it."""
    parameters = list(layer.parameters()) or list(around.parameters())
    return bool(parameters) and not any(parameter.requires_grad for parameter in parameters)


def _keep_statistics(layer: nn.Module, inputs: Any) -> None:
    """Before each pass of a BatchNorm, whoever has set its mode; not once somebody thaws it."""
    if not any(parameter.requires_grad for parameter in layer.parameters()):
        layer.eval()
