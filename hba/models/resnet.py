"""torchvision's residual networks, as they are or adapted to small images."""

from torch import nn


def resnet(depth: int, n_classes: int, in_channels: int = 3, *, small_images: bool = False) -> nn.Module:
    """ResNet-18 or ResNet-50: (B, in_channels, H, W) to (B, n_classes) logits.

    small_images: a 3x3 stem of stride 1 and no pooling after it, as usual for 32x32, instead of 7x7 of stride 2.
    """
    from torchvision.models import resnet18, resnet50

    network = {18: resnet18, 50: resnet50}[depth](num_classes=n_classes)
    if small_images:
        network.conv1 = nn.Conv2d(in_channels, 64, kernel_size=3, stride=1, padding=1, bias=False)
        network.maxpool = nn.Identity()
    elif in_channels != 3:
        network.conv1 = nn.Conv2d(in_channels, 64, kernel_size=7, stride=2, padding=3, bias=False)
    if small_images or in_channels != 3:
        nn.init.kaiming_normal_(network.conv1.weight, mode="fan_out", nonlinearity="relu")
    return network
