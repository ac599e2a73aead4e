"""PyramidNets (Han, Kim and Kim, CVPR 2017) with ShakeDrop (Yamada et al., IEEE Access
2019), for small images.
"""

import torch.nn.functional as F
from torch import Tensor, nn

from hba.models.wide_resnet import conv, uniform_per_image

EXPANSION = 4
"""Factor by which a bottleneck expands its channels."""
STEM_CHANNELS = 16
"""Channels of the first convolution."""


class PyramidNet(nn.Module):
    """Additive PyramidNet-depth-alpha with bottlenecks, for small images.

    It maps images (B, in_channels, H, W) to logits (B, n_classes).

    Args:
        depth: 9 k + 2, for three stages of k bottlenecks.
        alpha: How many channels wider the last block is than the stem, which has 16,
            before the bottlenecks expand them by 4.
        n_classes: Number of logits.
        in_channels: Channels of the images.
    """

    def __init__(
        self, depth: int, alpha: int, n_classes: int, in_channels: int = 3
    ) -> None:
        super().__init__()
        blocks_per_stage = (depth - 2) // 9
        n_blocks = 3 * blocks_per_stage
        self.conv = conv(in_channels, STEM_CHANNELS, kernel_size=3)
        self.bn1 = nn.BatchNorm2d(STEM_CHANNELS)
        blocks: list[nn.Module] = []
        channels = STEM_CHANNELS
        for number in range(1, n_blocks + 1):
            # Rounded down as in the article, whose parameter counts need it; the
            # authors' code rounds to the nearest.
            width = STEM_CHANNELS + alpha * number // n_blocks
            starts_a_smaller_stage = number in (
                blocks_per_stage + 1,
                2 * blocks_per_stage + 1,
            )
            # p_l of block l = 1 ... L falls linearly to 0.5 in the last one (Yamada et
            # al., with p_L = 0.5).
            survival = 1 - 0.5 * number / n_blocks
            blocks.append(
                _Bottleneck(
                    channels, width, 2 if starts_a_smaller_stage else 1, survival
                )
            )
            channels = EXPANSION * width
        self.blocks = nn.Sequential(*blocks)
        self.bn2 = nn.BatchNorm2d(channels)
        self.linear = nn.Linear(channels, n_classes)
        nn.init.zeros_(self.linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        x = self.blocks(self.bn1(self.conv(x)))
        return self.linear(F.relu(self.bn2(x)).mean(dim=(2, 3)))


class ShakeDrop(nn.Module):
    """Scale the branch of a block at random, by another factor in the backward pass.

    (b + alpha - b alpha) x for (B, c, H, W), with the gradient of (b + beta - b beta) x
    (Yamada et al.). For each image, b is 1 with probability p, else 0; alpha from U(-1,
    1), beta from U(0, 1). At test, the mean: p.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return self.p * x
        survives = uniform_per_image(x) < self.p
        alpha = 2 * uniform_per_image(x) - 1
        beta = uniform_per_image(x)
        # b + alpha - b alpha is 1 where b is 1, and alpha where b is 0.
        forward, backward = (
            factor.masked_fill(survives, 1).to(x.dtype) for factor in (alpha, beta)
        )
        return backward * x + ((forward - backward) * x).detach()

    def extra_repr(self) -> str:
        return f"p={self.p:.3g}"


class _Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolution, in the order of PyramidNets, with ShakeDrop, beside
    a shortcut without weights.
    """

    def __init__(
        self, in_channels: int, width: int, stride: int, survival: float
    ) -> None:
        super().__init__()
        self.stride = stride
        self.more_channels = EXPANSION * width - in_channels
        self.residual = nn.Sequential(
            nn.BatchNorm2d(in_channels),
            conv(in_channels, width, kernel_size=1),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            conv(width, width, kernel_size=3, stride=stride),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            conv(width, EXPANSION * width, kernel_size=1),
            nn.BatchNorm2d(EXPANSION * width),
        )
        self.shake_drop = ShakeDrop(survival)

    def forward(self, x: Tensor) -> Tensor:
        residual = self.shake_drop(self.residual(x))
        if self.stride != 1:
            x = F.avg_pool2d(x, self.stride, ceil_mode=True)
        return residual + F.pad(x, (0, 0, 0, 0, 0, self.more_channels))
