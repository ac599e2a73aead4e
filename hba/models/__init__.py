"""Networks by name."""

import inspect
import re
from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import nn

from hba.errors import SettingsError
from hba.models.pyramidnet import PyramidNet
from hba.models.resnet import resnet
from hba.models.shake_shake import ShakeShake
from hba.models.stn_networks import MLP, VGG16STN, AlexNetSTN, SimpleCNN
from hba.models.timm_networks import (
    LITE,
    LITE_NETWORK,
    PREFIX,
    Start,
    find_timm_network,
)
from hba.models.unet import UNET, UNet, encoder_of
from hba.models.wide_resnet import WideResNet
from hba.utils.files import reason_of
from hba.utils.seeding import default_generators
from hba.utils.text import unknown

__all__ = ["MODELS", "PATTERNS", "Start", "build_model", "find_model"]

Build = Callable[..., nn.Module]
"""A function of the number of classes, channels (default 3), and image_size (default
32) if layers depend on it.
"""


MODELS: Mapping[str, Build] = {
    "wrn-40-2": partial(WideResNet, 40, 2),
    "wrn-28-10": partial(WideResNet, 28, 10),
    "wrn-10-1": partial(WideResNet, 10, 1),
    "resnet-18": partial(resnet, 18),
    "resnet-50": partial(resnet, 50),
    "resnet-18-small": partial(resnet, 18, small_images=True),
    "resnet-50-small": partial(resnet, 50, small_images=True),
    "shake-shake-26-2x32d": partial(ShakeShake, 32),
    "shake-shake-26-2x96d": partial(ShakeShake, 96),
    "shake-shake-26-2x112d": partial(ShakeShake, 112),
    "pyramidnet-272-200": partial(PyramidNet, 272, 200),
    "alexnet-stn": partial(AlexNetSTN, 64),
    "vgg-16-stn": partial(VGG16STN, 64),
    "simple-cnn": partial(SimpleCNN, 32),
    "mlp": partial(MLP, 1200),
    LITE: lambda n_classes, in_channels=3: find_timm_network(LITE_NETWORK)(
        n_classes, in_channels
    ),
}
"""By name. Other names follow PATTERNS, or are timm:<name>; unet:<name> is a UNet with
such a network of timm as its encoder.
"""


SIZES = range(1, 1 << 16)
PATTERNS: Mapping[str, tuple[Build, *tuple[range, ...]]] = {
    "wrn-<depth>-<width>": (WideResNet, SIZES[9::6], SIZES),
    "shake-shake-26-2x<width>d": (ShakeShake, SIZES[1::2]),
    "pyramidnet-<depth>-<alpha>": (PyramidNet, SIZES[10::9], SIZES),
    "alexnet-stn-<width>": (AlexNetSTN, SIZES),
    "vgg-16-stn-<width>": (VGG16STN, SIZES),
    "simple-cnn-<width>": (SimpleCNN, SIZES),
    "mlp-<width>": (MLP, SIZES),
}
"""Networks with numbers in their names, which they take before the number of classes,
and the range of each number.
"""
IMAGENET_NETWORKS = ("resnet-18", "resnet-50", LITE)
"""Networks for 224x224 pixels and 1000 classes. All others are for 32x32, with
parameters counted at 10 classes.
"""


def find_model(name: str, *, may_have_tag: bool = False) -> Build:
    """The function that builds the named network, or the encoder of a U-Net.

    Args:
        name: A key of MODELS, a name that follows PATTERNS, or timm:<name>, each also
            after unet:.
        may_have_tag: The name of a timm network may end with a tag of weights, which
            are not loaded.

    Raises:
        SettingsError: For an unknown name; lists the known ones.
    """
    if name.startswith(UNET):
        name = encoder_of(name)
        if not name.startswith((LITE, PREFIX)):
            raise SettingsError(
                f"{UNET}NAME needs {LITE} or {PREFIX}<name>, got {name!r}"
            )
    if name in MODELS:
        return MODELS[name]
    if name.startswith(PREFIX):
        return find_timm_network(name.removeprefix(PREFIX), may_have_tag=may_have_tag)
    for pattern, (network, *allowed) in PATTERNS.items():
        if match := re.fullmatch(re.sub("<.*?>", "([0-9]+)", pattern), name):
            numbers = [int(digits) for digits in match.groups()]
            if any(
                number not in sizes
                for number, sizes in zip(numbers, allowed, strict=True)
            ):
                needed = " and ".join(
                    ", ".join(map(str, sizes[:3])) for sizes in allowed
                )
                raise SettingsError(
                    f"the model {pattern} needs the numbers {needed}, ..., got {name}"
                )
            return partial(network, *numbers)
    raise SettingsError(
        f"{unknown('model', name, MODELS)}, or any {', '.join(PATTERNS)},"
        f" {PREFIX}<name>, {UNET}<name>"
    )


def build_model(
    name: str,
    n_classes: int,
    seed: int,
    image_size: int | None = None,
    start: Start | None = None,
    in_channels: int = 3,
) -> nn.Module:
    """A freshly initialized network, whose weights depend on the seed only.

    It returns logits (B, n_classes), a U-Net (B, n_classes, H, W). The global generator
    is not touched.

    Args:
        name: As find_model takes it.
        n_classes: Number of outputs.
        seed: Decides the weights.
        image_size: Side in pixels of the images, 32 by default if layers depend on it.
        start: Pretrained weights, except for a head that does not fit.
        in_channels: Channels of the images.

    Raises:
        SettingsError: For an unknown name, and if the network cannot take the images.
    """
    build = find_model(name, may_have_tag=start is not None)
    options = {}
    if image_size is not None and "image_size" in inspect.signature(build).parameters:
        options["image_size"] = image_size
    with default_generators(torch.device("cpu"), seed):
        network = build(n_classes, in_channels, **options)
        if start is not None:
            start.give(network, in_channels)
        if name.startswith(UNET):
            network = UNet(network, n_classes)
        if image_size is not None:
            # Some of timm's networks take one size only.
            try:
                with torch.no_grad():
                    network.eval()(torch.zeros(1, in_channels, image_size, image_size))
            except Exception as error:
                problem = (
                    f"the model {name!r} cannot take images of"
                    f" {image_size}x{image_size} ({reason_of(error)})"
                )
                raise SettingsError(
                    f"{problem}; choose another image_size or model"
                ) from None
            network.train()
        return network
