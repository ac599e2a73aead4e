"""The pretrained networks that `hba auto` considers: which, why, and whether their
weights are on this machine.
"""

import time
from collections.abc import Callable, Mapping

from hba.errors import SettingsError
from hba.models import build_model
from hba.models.timm_networks import (
    LITE,
    OFFLINE,
    TIMM,
    Start,
    fetch_weights,
    weights_at_hand,
)
from hba.utils.files import reason_of

ON_CPU: Mapping[str, str] = {
    LITE: (
        "its weights are installed with hba; 4.7 million parameters, 75 % of ImageNet"
        " right"
    ),
    "timm:mobilenetv3_small_100.lamb_in1k": (
        "a seventh of the multiplications of efficientnet-lite0"
    ),
    "timm:resnet18.a1_in1k": (
        "convolutions without groups, whose backward pass is fast on a CPU"
    ),
}
"""By name, why a network is considered for a CPU: small ones."""
ON_GPU: Mapping[str, str] = {
    LITE: ON_CPU[LITE],
    "timm:resnet50.a1_in1k": "the network that most comparisons use",
    "timm:convnext_tiny.fb_in22k_ft_in1k": (
        "weights of 14 million images in 22 thousand classes"
    ),
    "timm:vit_small_patch14_dinov2.lvd142m": (
        "self-supervised features, which need little training"
    ),
}
"""By name, why a network is considered for a GPU: those that it trains in minutes."""


def usable_networks(
    device_type: str, say: Callable[[str], None], *, may_download: bool, seconds: float
) -> tuple[str, ...]:
    """Names of the networks for a device whose weights can be read.

    They are downloaded if they are not cached.

    Args:
        device_type: cuda or another one.
        say: Called with each download and its size, and with the reason for each
            network that is left out.
        may_download: Whether weights may be downloaded.
        seconds: The most that all downloads may take.
    """
    usable = list[str]()
    is_reachable = may_download
    until = time.monotonic() + seconds
    for model in ON_GPU if device_type == "cuda" else ON_CPU:
        if not weights_at_hand(model):
            if not is_reachable:
                continue
            try:
                fetch_weights(model, say, max(0.0, until - time.monotonic()))
            except Exception as error:
                reason = (
                    f"No more pretrained weights can be downloaded ({reason_of(error)})"
                )
                say(
                    f"{reason}, so those on this machine are used; {OFFLINE} prevents"
                    " downloads"
                )
                is_reachable = False
                continue
        try:
            build_model(model, 2, 0, start=Start.of(model, TIMM))
            usable.append(model)
        except SettingsError as error:
            say(f"{model} is left out: {error}")
    return tuple(usable)
