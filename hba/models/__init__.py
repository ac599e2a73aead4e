"""Networks by name."""

import re
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

import torch
from torch import nn

from hba.errors import SettingsError
from hba.models.pyramidnet import PyramidNet, check_depth_and_alpha
from hba.models.resnet import resnet
from hba.models.shake_shake import ShakeShake, check_width
from hba.models.stn_networks import MLP, VGG16STN, AlexNet, AlexNetSTN, SimpleCNN, check_first_width
from hba.models.timm_networks import PREFIX, Pretrained, Start, find_timm_network
from hba.models.wide_resnet import WideResNet, check_depth_and_width
from hba.utils.files import reason_of
from hba.utils.seeding import default_generators
from hba.utils.text import unknown

Build = Callable[..., nn.Module]
"""From the number of classes, and by default of 3 channels and 32 pixels a side, to a network."""


def _of_any_size(network: Callable[..., nn.Module]) -> Build:
    """For a network whose layers do not depend on the size of images."""

    def build(n_classes: int, in_channels: int = 3, image_size: int = 32) -> nn.Module:
        return network(n_classes, in_channels)

    return build


def _resnet(depth: int, *, small_images: bool = False) -> Build:
    return _of_any_size(partial(resnet, depth, small_images=small_images))


def _checked(
    network: Callable[..., nn.Module], check: Callable[..., None], *, any_size: bool = True
) -> Callable[..., Build]:
    """The function from the numbers in a network's name, which are checked, to its Build."""

    def build_of(*numbers: int) -> Build:
        check(*numbers)
        build = partial(network, *numbers)
        return _of_any_size(build) if any_size else build

    return build_of


_wide_resnet = _checked(WideResNet, check_depth_and_width)
_shake_shake = _checked(ShakeShake, check_width)
_pyramidnet = _checked(PyramidNet, check_depth_and_alpha)
_mlp, _simple_cnn, _alexnet_stn, _vgg_16_stn = (
    _checked(network, check_first_width, any_size=False) for network in (MLP, SimpleCNN, AlexNetSTN, VGG16STN)
)

MODELS: Mapping[str, Build] = MappingProxyType(
    {
        "wrn-40-2": _wide_resnet(40, 2),
        "wrn-28-10": _wide_resnet(28, 10),
        "wrn-10-1": _wide_resnet(10, 1),
        "resnet-18": _resnet(18),
        "resnet-50": _resnet(50),
        "resnet-18-small": _resnet(18, small_images=True),
        "resnet-50-small": _resnet(50, small_images=True),
        "shake-shake-26-2x32d": _shake_shake(32),
        "shake-shake-26-2x96d": _shake_shake(96),
        "shake-shake-26-2x112d": _shake_shake(112),
        "pyramidnet-272-200": _pyramidnet(272, 200),
        "alexnet": _of_any_size(AlexNet),
        "alexnet-stn": _alexnet_stn(64),
        "vgg-16-stn": _vgg_16_stn(64),
        "simple-cnn": _simple_cnn(32),
        "mlp": _mlp(1200),
    }
)
"""By name. Other names follow PATTERNS, or are timm:<name>."""

PATTERNS: Mapping[str, Callable[..., Build]] = MappingProxyType(
    {
        "wrn-<depth>-<width>": _wide_resnet,
        "shake-shake-26-2x<width>d": _shake_shake,
        "pyramidnet-<depth>-<alpha>": _pyramidnet,
        "alexnet-stn-<width>": _alexnet_stn,
        "vgg-16-stn-<width>": _vgg_16_stn,
        "simple-cnn-<width>": _simple_cnn,
        "mlp-<width>": _mlp,
    }
)
"""By pattern of names with numbers for <...>, the function from these numbers to a Build."""

TIMM_PATTERN = f"{PREFIX}<name>"

PUBLISHED: Mapping[str, str] = MappingProxyType(
    {
        "wrn-40-2": "2.2 M, Zagoruyko and Komodakis 2016",
        "wrn-28-10": "36.5 M, Zagoruyko and Komodakis 2016",
        "resnet-18": "11.7 M, torchvision",
        "resnet-50": "25.6 M, torchvision",
        "shake-shake-26-2x32d": "2.9 M, Gastaldi 2017",
        "shake-shake-26-2x96d": "26.2 M, Gastaldi 2017",
        "pyramidnet-272-200": "26.0 M, Han et al. 2017",
        "alexnet-stn": "23.3 M, Bae and Grosse's code",
    }
)
"""Published numbers of parameters, with 1000 classes for torchvision's and 10 for the others."""
IMAGENET_NETWORKS = ("resnet-18", "resnet-50")
"""Networks for 224x224 pixels and 1000 classes; all others are for 32x32, and counted at 10 classes."""


def find_model(name: str, *, may_have_tag: bool = False) -> Build:
    """The function that builds the named network; SettingsError with the known names for an unknown one.

    may_have_tag: the name of a timm network may end with a tag of weights, which are not loaded.
    """
    if name in MODELS:
        return MODELS[name]
    if name.startswith(PREFIX):
        return _of_any_size(find_timm_network(name.removeprefix(PREFIX), may_have_tag=may_have_tag))
    for pattern, build_of in PATTERNS.items():
        if match := re.fullmatch(re.sub("<.*?>", "([0-9]+)", pattern), name):
            return build_of(*map(int, match.groups()))
    raise SettingsError(f"{unknown('model', name, MODELS)}, or any {', '.join(PATTERNS)}, {TIMM_PATTERN}")


def build_model(
    name: str,
    n_classes: int,
    seed: int,
    image_size: int | None = None,
    start: Start | None = None,
    in_channels: int = 3,
) -> nn.Module:
    """A freshly initialized network, whose weights depend on the seed only; the global generator is not touched.

    image_size: side in pixels of the images, 32 by default if layers depend on it; SettingsError if the network cannot
    take them. start: pretrained weights, except for a head that does not fit. in_channels: of the images; SettingsError
    for pretrained weights unless it is 3.
    """
    if start is not None and in_channels != 3:
        raise SettingsError(f"pretrained weights are for images of 3 channels, got {in_channels}; omit pretrained")
    build = find_model(name, may_have_tag=start is not None)
    with default_generators(torch.device("cpu"), seed):
        network = build(n_classes, in_channels) if image_size is None else build(n_classes, in_channels, image_size)
        if start is not None:
            start.give(network)
        if image_size is not None:
            _check_takes(network, name, image_size, in_channels)
        return network


def _check_takes(network: nn.Module, name: str, image_size: int, in_channels: int) -> None:
    """Try one image, because some of timm's networks take one size only."""
    try:
        with torch.no_grad():
            network.eval()(torch.zeros(1, in_channels, image_size, image_size))
    except Exception as error:
        raise SettingsError(
            f"the model {name!r} cannot take images of {image_size}x{image_size} ({reason_of(error)}); choose another "
            "image_size or model"
        ) from None
    network.train()


__all__ = [
    "IMAGENET_NETWORKS",
    "MLP",
    "MODELS",
    "PATTERNS",
    "PUBLISHED",
    "TIMM_PATTERN",
    "VGG16STN",
    "AlexNet",
    "AlexNetSTN",
    "Pretrained",
    "PyramidNet",
    "ShakeShake",
    "SimpleCNN",
    "Start",
    "WideResNet",
    "build_model",
    "find_model",
    "resnet",
]
