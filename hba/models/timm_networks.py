"""The networks of timm, an optional dependency, and what timm knows of their pretrained weights."""

import difflib
from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from hba.errors import SettingsError
from hba.utils.imports import import_extra

PREFIX = "timm:"


def timm_names() -> list[str]:
    """The names of timm's networks, none where timm is not installed."""
    try:
        import timm
    except ImportError:
        return []
    return list(timm.list_models())


def find_timm_network(name: str, *, may_have_tag: bool = False) -> Callable[..., nn.Module]:
    """The function that builds timm's network of that name, given without the prefix, from the number of classes.

    may_have_tag: `resnet18.a1_in1k` names a network and its weights, which are not loaded here. Raises SettingsError
    for an unknown name or tag, and where timm is not installed.
    """
    timm = import_extra("timm", "timm", f"model '{PREFIX}{name}'")
    architecture, _, tag = name.partition(".")
    known = timm.list_models()
    if architecture not in known:
        similar = difflib.get_close_matches(name, known, n=3)
        advice = f"similar: {', '.join(similar)}" if similar else "timm.list_models() lists the known ones"
        raise SettingsError(f"unknown timm model {name!r}; {advice}")
    if tag and not may_have_tag:
        raise SettingsError(
            f"weights are loaded only where pretrained is given: give it, or omit their tag: {PREFIX}{architecture}, "
            f"not {PREFIX + name!r}"
        )
    tagged = timm.list_pretrained(f"{architecture}.*")
    if tag and name not in tagged:
        raise SettingsError(f"unknown tag of weights in timm model {name!r}; known: {', '.join(tagged) or 'none'}")

    def build(n_classes: int, in_channels: int = 3) -> nn.Module:
        return timm.create_model(name, pretrained=False, num_classes=n_classes, in_chans=in_channels)

    return build


@dataclass(frozen=True)
class TimmFacts:
    """What timm knows of weights. mean, std: by channel, what images in [0, 1] are standardised with. image_size: side
    in pixels that they were trained with. heads: names of the layers whose size is the number of classes.
    has_weights: whether timm can download some.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]
    image_size: int
    heads: tuple[str, ...]
    has_weights: bool


def timm_facts(name: str) -> TimmFacts:
    """Of the network `timm:NAME`, or of the weights `timm:NAME.TAG`. SettingsError where timm does not know any."""
    found_name = name.removeprefix(PREFIX)
    find_timm_network(found_name, may_have_tag=True)
    import timm

    found = timm.models.get_pretrained_cfg(found_name)
    if found is None or not found.classifier:
        raise SettingsError(
            f"timm does not tell how weights of {name} were trained and which layer is their head; choose another "
            "network, or in Python give one with its weights as network="
        )
    heads = (found.classifier,) if isinstance(found.classifier, str) else tuple(found.classifier)
    return TimmFacts(tuple(found.mean), tuple(found.std), found.input_size[-1], heads, bool(found.has_weights))
