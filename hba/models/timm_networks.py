"""The networks of timm, an optional dependency, without pretrained weights."""

import difflib
from collections.abc import Callable

from torch import nn

from hba.errors import SettingsError

PREFIX = "timm:"


def timm_names() -> list[str]:
    """The names of timm's networks, none where timm is not installed."""
    try:
        import timm
    except ImportError:
        return []
    return list(timm.list_models())


def find_timm_network(name: str) -> Callable[[int], nn.Module]:
    """The function of the number of classes that builds timm's network of that name, given without the prefix."""
    try:
        import timm
    except ImportError:
        raise SettingsError(f"model '{PREFIX}{name}' needs timm: pip install 'hba-augment[timm]'") from None
    architecture, _, tag = name.partition(".")
    known = timm.list_models()
    if architecture not in known:
        similar = difflib.get_close_matches(name, known, n=3)
        advice = f"similar: {', '.join(similar)}" if similar else "timm.list_models() lists the known ones"
        raise SettingsError(f"unknown timm model {name!r}; {advice}")
    if tag:
        raise SettingsError(f"weights are not loaded, so omit their tag: {PREFIX}{architecture}, not {PREFIX + name!r}")
    return lambda n_classes: timm.create_model(architecture, pretrained=False, num_classes=n_classes)
