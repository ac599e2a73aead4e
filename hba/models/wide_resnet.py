"""Wide residual networks (Zagoruyko and Komodakis, BMVC 2016), and functions that other
networks use too.

Dropout is between the convolutions of a block, as in the paper (section 2.4). The
initial rate, 0, draws nothing.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def conv(
    in_channels: int, out_channels: int, kernel_size: int, stride: int = 1
) -> nn.Conv2d:
    """A convolution without bias that keeps the size at stride 1.

    It has the initialization of He et al. (2015).
    """
    layer = nn.Conv2d(
        in_channels,
        out_channels,
        kernel_size,
        stride,
        padding=kernel_size // 2,
        bias=False,
    )
    nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    return layer


def uniform_per_image(images: Tensor) -> Tensor:
    """One draw from U(0, 1) for each image of (B, ...), float32 (B, 1, 1, 1).

    It is from the global generator.
    """
    return torch.rand(len(images), 1, 1, 1, device=images.device)


def three_stages(
    block: Callable[[int, int, int], nn.Module], width: int, n_blocks: int
) -> nn.Sequential:
    """Stages of n_blocks blocks with width, 2 width and 4 width channels.

    They come after a stem of 16 channels.

    Args:
        block: Makes a block from input channels, output channels and stride, which is 2
            in the first block of the last two stages.
        width: Channels of the first stage.
        n_blocks: Number of blocks in each stage.
    """
    blocks: list[nn.Module] = []
    channels = 16
    for stage, stride in enumerate((1, 2, 2)):
        for number in range(n_blocks):
            blocks.append(
                block(channels, width * 2**stage, stride if number == 0 else 1)
            )
            channels = width * 2**stage
    return nn.Sequential(*blocks)


class WideResNet(nn.Module):
    """WRN-depth-width for small images.

    It maps images (B, in_channels, H, W) to logits (B, n_classes); H and W are at least
    4.

    Args:
        depth: 6 k + 4, for three stages of k blocks.
        width: A factor; stages have 16, 32 and 64 times width channels.
        n_classes: Number of logits.
        in_channels: Channels of the images.
    """

    def __init__(
        self, depth: int, width: int, n_classes: int, in_channels: int = 3
    ) -> None:
        super().__init__()
        self.conv = conv(in_channels, 16, kernel_size=3)
        self.blocks = three_stages(_Block, 16 * width, n_blocks=(depth - 4) // 6)
        self.bn = nn.BatchNorm2d(64 * width)
        self.linear = nn.Linear(64 * width, n_classes)
        nn.init.zeros_(self.linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        x = self.blocks(self.conv(x))
        x = F.relu(self.bn(x)).mean(dim=(2, 3))
        return self.linear(x)


class _Block(nn.Module):
    """Two 3x3 convolutions, each after BatchNorm and ReLU, beside a shortcut."""

    def __init__(self, in_channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(in_channels)
        self.conv1 = conv(in_channels, out_channels, kernel_size=3, stride=stride)
        self.bn2 = nn.BatchNorm2d(out_channels)
        self.between_convs = nn.Dropout(0.0)
        self.conv2 = conv(out_channels, out_channels, kernel_size=3)
        self.shortcut = None
        if in_channels != out_channels or stride != 1:
            self.shortcut = conv(
                in_channels, out_channels, kernel_size=1, stride=stride
            )

    def forward(self, x: Tensor) -> Tensor:
        activated = F.relu(self.bn1(x))
        residual = self.conv2(
            self.between_convs(F.relu(self.bn2(self.conv1(activated))))
        )
        # Where the shape changes, the shortcut too starts from the activated input.
        return residual + (x if self.shortcut is None else self.shortcut(activated))
