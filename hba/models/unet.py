"""U-Net (Ronneberger, Fischer and Brox 2015): a class for each pixel, by any network of
timm that has feature maps of several sizes.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hba.errors import SettingsError

UNET = "unet:"
"""The beginning of the name of a U-Net, before the name of its encoder."""
WIDTHS = (256, 128, 64, 32)
"""Channels of the decoder's maps, from the smallest map on."""


def encoder_of(model: str) -> str:
    """The name of the encoder of a U-Net; any other name as it is."""
    return model.removeprefix(UNET)


class UNet(nn.Module):
    """Maps images (B, C, H, W) to logits (B, classes, H, W).

    The decoder enlarges the encoder's smallest map step by step, and at each step adds
    the encoder's map of this size. The logits are those of the largest map, which is
    half or a quarter as high as the images, interpolated.

    Args:
        encoder: A network of timm. Its head and its layers after the last map are
            removed.
        n_classes: Number of classes.

    Raises:
        SettingsError: For a network without maps of several sizes.
    """

    def __init__(self, encoder: Any, n_classes: int) -> None:
        super().__init__()
        maps = getattr(encoder, "feature_info", ())
        reductions = [of_map["reduction"] for of_map in maps]
        has_sizes = len({*reductions}) == len(reductions) > 1
        if not (has_sizes and hasattr(encoder, "prune_intermediate_layers")):
            raise SettingsError(
                f"{UNET}NAME needs a network of timm with feature maps of several"
                f" sizes, such as {UNET}efficientnet-lite0, got"
                f" {type(encoder).__name__}"
            )
        encoder.prune_intermediate_layers(range(len(reductions)), prune_head=True)
        self.encoder = encoder
        smallest, *skipped = [of_map["num_chs"] for of_map in reversed(maps)]
        blocks = []
        channels = smallest
        for n_skipped, width in zip(skipped, WIDTHS, strict=False):
            blocks.append(_Block(channels + n_skipped, width))
            channels = width
        self.blocks = nn.ModuleList(blocks)
        self.head = nn.Conv2d(channels, n_classes, 3, padding=1)
        self.to(memory_format=torch.channels_last)

    def forward(self, images: Tensor) -> Tensor:
        maps: Sequence[Tensor] = self.encoder.forward_intermediates(
            images, intermediates_only=True
        )
        decoded, *skipped = reversed(maps)
        for block, encoded in zip(self.blocks, skipped, strict=False):
            enlarged = F.interpolate(decoded, encoded.shape[-2:])
            decoded = block(torch.cat([enlarged, encoded], dim=1))
        return F.interpolate(self.head(decoded), images.shape[-2:], mode="bilinear")


class _Block(nn.Sequential):
    """Two convolutions of a map (B, n_in, H, W), which keep its size."""

    def __init__(self, n_in: int, n_out: int) -> None:
        layers: list[nn.Module] = []
        for n_channels in (n_in, n_out):
            layers += [
                nn.Conv2d(n_channels, n_out, 3, padding=1, bias=False),
                nn.BatchNorm2d(n_out),
                nn.ReLU(inplace=True),
            ]
        super().__init__(*layers)
