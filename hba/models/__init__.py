"""Networks by name."""

import re
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Protocol

import torch
from torch import nn

from hba.errors import SettingsError
from hba.models.pyramidnet import PyramidNet, check_depth_and_alpha
from hba.models.resnet import resnet
from hba.models.shake_shake import ShakeShake, check_width
from hba.models.stn_networks import MLP, VGG16STN, AlexNet, AlexNetSTN, SimpleCNN, check_first_width
from hba.models.timm_networks import PREFIX, Pretrained, Start, find_timm_network, timm_names
from hba.models.wide_resnet import WideResNet, check_depth_and_width
from hba.utils.seeding import default_generators
from hba.utils.text import unknown


class Build(Protocol):
    """A network, from the numbers of classes and of an image's channels, and the side of images in pixels."""

    def __call__(self, n_classes: int, in_channels: int = 3, image_size: int = 32) -> nn.Module: ...


def _of_any_size(network: Callable[[int, int], nn.Module]) -> Build:
    """For a network whose layers are the same whatever the size of images."""

    def build(n_classes: int, in_channels: int = 3, image_size: int = 32) -> nn.Module:
        return network(n_classes, in_channels)

    return build


def _wide_resnet(depth: int, width: int) -> Build:
    check_depth_and_width(depth, width)
    return _of_any_size(partial(WideResNet, depth, width))


def _resnet(depth: int, *, small_images: bool = False) -> Build:
    return _of_any_size(partial(resnet, depth, small_images=small_images))


def _shake_shake(width: int) -> Build:
    check_width(width)
    return _of_any_size(partial(ShakeShake, width))


def _pyramidnet(depth: int, alpha: int) -> Build:
    check_depth_and_alpha(depth, alpha)
    return _of_any_size(partial(PyramidNet, depth, alpha))


def _of_first_width(network: Callable[[int, int, int, int], nn.Module]) -> Callable[[int], Build]:
    def build_of(width: int) -> Build:
        check_first_width(width)
        return partial(network, width)

    return build_of


_mlp, _simple_cnn = _of_first_width(MLP), _of_first_width(SimpleCNN)
_alexnet_stn, _vgg_16_stn = _of_first_width(AlexNetSTN), _of_first_width(VGG16STN)

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
"""Name to a network's function. Others go by the patterns of PATTERNS, and timm's by timm:<name>."""

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
"""Names with numbers in the places of <...>, to the function of these numbers."""

TIMM_PATTERN = f"{PREFIX}<name>"


def find_model(name: str, *, may_have_tag: bool = False) -> Build:
    """The function that builds the named network; SettingsError with the known names otherwise. Builds nothing.

    may_have_tag: a name of timm's may end with that of its weights, which are not loaded.
    """
    if name in MODELS:
        return MODELS[name]
    if name.startswith(PREFIX):
        return _of_any_size(find_timm_network(name.removeprefix(PREFIX), may_have_tag=may_have_tag))
    for pattern, build_of in PATTERNS.items():
        if match := re.fullmatch(re.sub("<.*?>", "([0-9]+)", pattern), name):
            return build_of(*map(int, match.groups()))
    in_timm = f"{PREFIX}{name}" if name in timm_names() else None
    others = f"or any {', '.join(PATTERNS)}, {TIMM_PATTERN}"
    raise SettingsError(f"{unknown('model', name, MODELS, in_timm)}, {others}")


def build_model(
    name: str,
    n_classes: int,
    seed: int,
    image_size: int | None = None,
    start: Start | None = None,
    in_channels: int = 3,
) -> nn.Module:
    """A freshly initialised network; the seed alone decides its weights, and the global generator is not touched.

    image_size: side in pixels of the images to come, by default 32 where layers depend on it; SettingsError where the
    network cannot take them. start: takes the place of fresh weights, but for a head that does not fit. in_channels: of
    the images; SettingsError for pretrained weights with other than 3.
    """
    if start is not None and in_channels != 3:
        raise SettingsError(
            f"pretrained weights are for images of 3 channels, got {in_channels}; omit pretrained, or give a network "
            "of your own"
        )
    build = find_model(name, may_have_tag=start is not None)
    with default_generators(torch.device("cpu"), seed):
        network = build(n_classes, in_channels) if image_size is None else build(n_classes, in_channels, image_size)
        if start is not None:
            start.give(network)
        if image_size is not None:
            _check_takes(network, name, image_size, in_channels)
        return network


def _check_takes(network: nn.Module, name: str, image_size: int, in_channels: int) -> None:
    """Try one image. Some of timm's networks are made for one size only, and say so each in its own way."""
    try:
        with torch.no_grad():
            network.eval()(torch.zeros(1, in_channels, image_size, image_size))
    except Exception as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise SettingsError(
            f"the model {name!r} cannot take images of {image_size}x{image_size} ({reason}); choose another image_size "
            "or model"
        ) from None
    network.train()


__all__ = [
    "MLP",
    "MODELS",
    "PATTERNS",
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
