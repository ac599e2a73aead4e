"""The networks for which Delta-STN (Bae and Grosse, NeurIPS 2020) tunes regularization.

They are sequences of layers without BatchNorm, with a ReLU after each but the last.
They have dropout modules where the public code of Delta-STN's authors has rates:
`on_input`, and `after_<layer>` after the ReLU and the pooling of a layer. Those before
linear layers drop whole channels. The rate is 0, which draws nothing, until it is set.

Our choice: poolings of 2x2 round up, so images can have any size. At 32x32 this makes
no difference.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from torch import nn


class Convolution(NamedTuple):
    """A convolution that keeps the size at stride 1."""

    channels: int
    kernel_size: int = 3
    stride: int = 1
    is_pooled: bool = False
    """Whether a max pooling of 2x2 follows."""


class _InLine(nn.Sequential):
    """Convolutions, hidden linear layers and a last one.

    They map images (B, in_channels, size, size) to logits (B, n_classes). PyTorch's
    initialization, U(-1/sqrt(fan in), 1/sqrt(fan in)), as in the authors' code.

    Args:
        convolutions: The first layers.
        hidden: Widths of the hidden linear layers.
        n_classes: Number of logits.
        in_channels: Channels of the images.
        size: Side of the images in pixels.
    """

    def __init__(
        self,
        convolutions: Sequence[Convolution],
        hidden: Sequence[int],
        n_classes: int,
        in_channels: int,
        size: int,
    ) -> None:
        layers: OrderedDict[str, nn.Module] = OrderedDict()
        layers["on_input"] = nn.Dropout2d(0.0) if convolutions else nn.Dropout(0.0)
        channels = in_channels
        side = size
        for number, layer in enumerate(convolutions, 1):
            padding = layer.kernel_size // 2
            layers[f"conv{number}"] = nn.Conv2d(
                channels, layer.channels, layer.kernel_size, layer.stride, padding
            )
            layers[f"conv{number}_relu"] = nn.ReLU()
            if layer.is_pooled:
                layers[f"conv{number}_pool"] = nn.MaxPool2d(2, ceil_mode=True)
            layers[f"after_conv{number}"] = nn.Dropout2d(0.0)
            channels = layer.channels
            if layer.stride == 2:
                side = (side + 1) // 2
            if layer.is_pooled:
                side = (side + 1) // 2
        layers["flatten"] = nn.Flatten()
        features = channels * side**2
        for number, width in enumerate(hidden, 1):
            layers[f"fc{number}"] = nn.Linear(features, width)
            layers[f"fc{number}_relu"] = nn.ReLU()
            layers[f"after_fc{number}"] = nn.Dropout(0.0)
            features = width
        layers[f"fc{len(hidden) + 1}"] = nn.Linear(features, n_classes)
        super().__init__(layers)


class MLP(_InLine):
    """Delta-STN's network for MNIST: three hidden layers, no dropout after the last.

    Args:
        width: Of each hidden layer, 1200 there.
        n_classes: Number of logits.
        in_channels: Channels of the images.
        image_size: Side of the images in pixels.
    """

    def __init__(
        self, width: int, n_classes: int, in_channels: int = 3, image_size: int = 32
    ) -> None:
        super().__init__((), (width,) * 3, n_classes, in_channels, image_size)
        del self.after_fc3


class SimpleCNN(_InLine):
    """Delta-STN's network for FashionMNIST: two convolutions, one hidden linear layer.

    The convolutions are of 5x5, with 32 and 64 filters. As in the authors' code, the
    hidden layer has as many units as the convolutions have outputs for 28x28.

    Args:
        width: Filters of the first convolution, 32 in the paper's text and 16 in the
            authors' code.
        n_classes: Number of logits.
        in_channels: Channels of the images.
        image_size: Side of the images in pixels.
    """

    def __init__(
        self, width: int, n_classes: int, in_channels: int = 3, image_size: int = 32
    ) -> None:
        convolutions = [
            Convolution(times * width, kernel_size=5, is_pooled=True)
            for times in (1, 2)
        ]
        super().__init__(
            convolutions, (7 * 7 * 2 * width,), n_classes, in_channels, image_size
        )


class AlexNetSTN(_InLine):
    """Delta-STN's AlexNet for CIFAR-10, by the authors' code.

    Args:
        width: Channels of the first convolution, 64 there.
        n_classes: Number of logits.
        in_channels: Channels of the images.
        image_size: Side of the images in pixels.
    """

    def __init__(
        self, width: int, n_classes: int, in_channels: int = 3, image_size: int = 32
    ) -> None:
        convolutions = [
            Convolution(width, stride=2, is_pooled=True),
            Convolution(3 * width, is_pooled=True),
            Convolution(6 * width),
            Convolution(4 * width),
            Convolution(4 * width, is_pooled=True),
        ]
        super().__init__(
            convolutions, (64 * width,) * 2, n_classes, in_channels, image_size
        )


class VGG16STN(_InLine):
    """Delta-STN's VGG16 for CIFAR-10, by the authors' code.

    Convolutions have the initialization of He et al. (2015), without which so deep a
    network would hardly train.

    Args:
        width: Channels of the first convolution, 64 there.
        n_classes: Number of logits.
        in_channels: Channels of the images.
        image_size: Side of the images in pixels.
    """

    def __init__(
        self, width: int, n_classes: int, in_channels: int = 3, image_size: int = 32
    ) -> None:
        convolutions = [
            Convolution(times * width, is_pooled=number == n_convolutions)
            for times, n_convolutions in ((1, 2), (2, 2), (4, 3), (8, 3), (8, 3))
            for number in range(1, n_convolutions + 1)
        ]
        super().__init__(
            convolutions, (8 * width,) * 2, n_classes, in_channels, image_size
        )
        for layer in self:
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(
                    layer.weight, mode="fan_out", nonlinearity="relu"
                )
                assert layer.bias is not None
                nn.init.zeros_(layer.bias)
