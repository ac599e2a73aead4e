"""Networks by name."""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from torch import nn

from hba.errors import SettingsError
from hba.models.resnet import resnet
from hba.models.wide_resnet import WideResNet, check_depth_and_width

MODELS: Mapping[str, Callable[[int], nn.Module]] = MappingProxyType(
    {
        "wrn-40-2": lambda n_classes: WideResNet(40, 2, n_classes),
        "wrn-28-10": lambda n_classes: WideResNet(28, 10, n_classes),
        "wrn-10-1": lambda n_classes: WideResNet(10, 1, n_classes),
        "resnet-18": lambda n_classes: resnet(18, n_classes),
        "resnet-50": lambda n_classes: resnet(50, n_classes),
        "resnet-18-small": lambda n_classes: resnet(18, n_classes, small_images=True),
        "resnet-50-small": lambda n_classes: resnet(50, n_classes, small_images=True),
    }
)
"""Name to a function of the number of classes. Any other wide ResNet goes by wrn-<depth>-<width>."""


def find_model(name: str) -> Callable[[int], nn.Module]:
    """The function that builds the named network; SettingsError with the known names otherwise."""
    if name in MODELS:
        return MODELS[name]
    if match := re.fullmatch(r"wrn-(\d+)-(\d+)", name):
        depth, width = int(match[1]), int(match[2])
        check_depth_and_width(depth, width)
        return lambda n_classes: WideResNet(depth, width, n_classes)
    raise SettingsError(f"unknown model {name!r}; known: {', '.join(MODELS)}, or any wrn-<depth>-<width>")


def build_model(name: str, n_classes: int, seed: int) -> nn.Module:
    """A freshly initialised network; the seed alone decides its weights, the global generator is left alone."""
    build = find_model(name)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build(n_classes)


__all__ = ["MODELS", "WideResNet", "build_model", "find_model", "resnet"]
