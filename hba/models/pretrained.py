"""The pretrained networks that `hba auto` considers: which, why, and whether their weights are on this machine."""

from collections.abc import Callable, Mapping
from typing import Any

from hba.errors import SettingsError
from hba.models import build_model
from hba.models.timm_networks import LITE, TIMM, Start, timm_config
from hba.utils.files import reason_of

ON_CPU: Mapping[str, str] = {
    LITE: "its weights are installed with hba; 4.7 million parameters, 75 % of ImageNet right",
    "timm:mobilenetv3_small_100.lamb_in1k": "a seventh of the multiplications of efficientnet-lite0",
    "timm:resnet18.a1_in1k": "convolutions without groups, whose backward pass is fast on a CPU",
}
ON_GPU: Mapping[str, str] = {
    LITE: ON_CPU[LITE],
    "timm:resnet50.a1_in1k": "the network that most comparisons use",
    "timm:convnext_tiny.fb_in22k_ft_in1k": "weights of 14 million images in 22 thousand classes",
    "timm:vit_small_patch14_dinov2.lvd142m": "self-supervised features, which need little training",
}
"""By name, why a network is considered: small ones for a CPU, and those that a GPU trains in minutes."""
SECONDS_TO_CONNECT = 5.0


def usable_networks(device_type: str, say: Callable[[str], None], *, may_download: bool) -> tuple[str, ...]:
    """Names of the networks for a device whose weights can be read, and are downloaded if they are not cached.

    say: called with each download and its size, and with the reason for each network that is left out.
    """
    found, is_reachable = list[str](), may_download
    for model in ON_GPU if device_type == "cuda" else ON_CPU:
        if not weights_at_hand(model):
            if not is_reachable:
                continue
            try:
                say(words_of_download(model))
            except Exception as error:
                # Without a network, a proxy or the hub, this raises errors of many kinds.
                say(f"No pretrained weights can be downloaded ({reason_of(error)}), so those on this machine are used")
                is_reachable = False
                continue
        try:
            build_model(model, 2, 0, start=Start.of(model, TIMM))
            found.append(model)
        except SettingsError as error:
            say(f"{model} is left out: {error}")
    return tuple(found)


def weights_at_hand(model: str) -> bool:
    """Whether the weights need no download: those of LITE are installed, others may be in the cache of the hub."""
    from huggingface_hub import try_to_load_from_cache

    return model == LITE or isinstance(try_to_load_from_cache(*_place(model)), str)


def words_of_download(model: str) -> str:
    return f"Downloading the weights of {model}, {download_size(model) / 1e6:.0f} MB"


def download_size(model: str) -> int:
    """Size of the weights in bytes. Raises errors of many kinds if the hub cannot be reached."""
    from huggingface_hub import get_hf_file_metadata, hf_hub_url

    found: Any = get_hf_file_metadata(hf_hub_url(*_place(model)), timeout=SECONDS_TO_CONNECT)
    return int(found.size)


def _place(model: str) -> tuple[str, str]:
    """Repository and file of the weights."""
    return str(timm_config(model).hf_hub_id), "model.safetensors"
