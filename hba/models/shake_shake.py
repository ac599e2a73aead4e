"""Shake-Shake networks of depth 26 (Gastaldi, Shake-Shake regularization, 2017), level
"Image", for small images.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hba.models.wide_resnet import conv, three_stages, uniform_per_image


class ShakeShake(nn.Module):
    """Shake-Shake-Image 26 2x<width>d: images (B, C, H, W) to logits (B, n_classes)."""

    def __init__(self, width: int, n_classes: int, in_channels: int = 3) -> None:
        super().__init__()
        self.conv = conv(in_channels, 16, kernel_size=3)
        self.bn = nn.BatchNorm2d(16)
        self.blocks = three_stages(_Block, width, n_blocks=4)
        self.linear = nn.Linear(4 * width, n_classes)
        nn.init.zeros_(self.linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        x = self.blocks(self.bn(self.conv(x)))
        return self.linear(F.relu(x).mean(dim=(2, 3)))


def shake(a: Tensor, b: Tensor) -> Tensor:
    """Add two branches in random proportions, which differ in the backward pass.

    alpha a + (1 - alpha) b for (B, c, H, W), with the gradient of beta a + (1 - beta)
    b. alpha and beta are from U(0, 1), each independent for every image.
    """
    alpha = uniform_per_image(a).to(a.dtype)
    beta = uniform_per_image(a).to(a.dtype)
    difference = a - b
    return b + beta * difference + ((alpha - beta) * difference).detach()


class _Block(nn.Module):
    """Two branches of two 3x3 convolutions, added in random proportions, at test by
    halves, beside a shortcut.
    """

    def __init__(self, in_channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        self.branch1 = _branch(in_channels, out_channels, stride)
        self.branch2 = _branch(in_channels, out_channels, stride)
        changes = in_channels != out_channels or stride != 1
        self.shortcut = (
            _Shortcut(in_channels, out_channels, stride) if changes else nn.Identity()
        )

    def forward(self, x: Tensor) -> Tensor:
        a = self.branch1(x)
        b = self.branch2(x)
        return self.shortcut(x) + (shake(a, b) if self.training else 0.5 * (a + b))


def _branch(in_channels: int, out_channels: int, stride: int) -> nn.Sequential:
    return nn.Sequential(
        nn.ReLU(),
        conv(in_channels, out_channels, kernel_size=3, stride=stride),
        nn.BatchNorm2d(out_channels),
        nn.ReLU(),
        conv(out_channels, out_channels, kernel_size=3),
        nn.BatchNorm2d(out_channels),
    )


class _Shortcut(nn.Module):
    """Two paths, each to half of the channels; the second sees the image a pixel
    further right and down.
    """

    def __init__(self, in_channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        self.conv1 = conv(in_channels, out_channels // 2, kernel_size=1)
        self.conv2 = conv(in_channels, out_channels // 2, kernel_size=1)
        self.bn = nn.BatchNorm2d(out_channels)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(x)
        first, shifted = (
            maps[:, :, :: self.stride, :: self.stride]
            for maps in (x, F.pad(x, (1, -1, 1, -1)))
        )
        return self.bn(torch.cat([self.conv1(first), self.conv2(shifted)], dim=1))
