"""torchvision's residual networks, unchanged or adapted to small images."""

from collections import OrderedDict

from torch import nn


def resnet(
    depth: int, n_classes: int, in_channels: int = 3, *, small_images: bool = False
) -> nn.Module:
    """ResNet-18 or ResNet-50: (B, in_channels, H, W) to (B, n_classes) logits.

    Args:
        depth: 18 or 50.
        n_classes: Number of logits.
        in_channels: Channels of the images.
        small_images: A 3x3 stem of stride 1 and no pooling after it, as usual for
            32x32, instead of 7x7 of stride 2; and the dropout modules of SmallResNet.
    """
    from torchvision.models import resnet18, resnet50

    network: nn.Module = {18: resnet18, 50: resnet50}[depth](num_classes=n_classes)
    if small_images:
        network.conv1 = nn.Conv2d(
            in_channels, 64, kernel_size=3, stride=1, padding=1, bias=False
        )
    elif in_channels != 3:
        network.conv1 = nn.Conv2d(
            in_channels, 64, kernel_size=7, stride=2, padding=3, bias=False
        )
    if small_images or in_channels != 3:
        nn.init.kaiming_normal_(
            network.get_parameter("conv1.weight"), mode="fan_out", nonlinearity="relu"
        )
    return SmallResNet(network) if small_images else network


class SmallResNet(nn.Sequential):
    """torchvision's network without its max pooling, with dropout of channels.

    Dropout modules are on the input and after each block: for ResNet-18 the 9 rates
    that Delta-STN tunes (Bae and Grosse 2020; dropping whole channels, as in its other
    networks, is our choice). The initial rate, 0, draws nothing.
    """

    def __init__(self, network: nn.Module) -> None:
        layers: OrderedDict[str, nn.Module] = OrderedDict(on_input=nn.Dropout2d(0.0))
        for name, layer in network.named_children():
            if name == "fc":
                layers["flatten"] = nn.Flatten()
            if name != "maxpool":
                layers[name] = (
                    _add_dropout(layer) if isinstance(layer, nn.Sequential) else layer
                )
        super().__init__(layers)


def _add_dropout(stage: nn.Sequential) -> nn.Sequential:
    """The blocks of a stage under their own names, each followed by dropout of
    channels.
    """
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    for name, block in stage.named_children():
        layers[name] = block
        layers[f"after_{name}"] = nn.Dropout2d(0.0)
    return nn.Sequential(layers)
