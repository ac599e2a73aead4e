"""What the families of networks share."""

import torch
from torch import Tensor, nn

from hba.distributed.collectives import draw_then_shard


def conv(in_channels: int, out_channels: int, kernel_size: int, stride: int = 1) -> nn.Conv2d:
    """A convolution without bias that keeps the size at stride 1, with He et al.'s (2015) weights."""
    layer = nn.Conv2d(in_channels, out_channels, kernel_size, stride, padding=kernel_size // 2, bias=False)
    nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    return layer


def uniform_per_image(images: Tensor) -> Tensor:
    """One number from U(0, 1) for each image of (B, ...), as (B, 1, 1, 1), from the global generator.

    Always in single precision, because half precision has too few numbers to compare with.
    """
    return draw_then_shard(len(images), lambda n: torch.rand(n, 1, 1, 1, device=images.device))
