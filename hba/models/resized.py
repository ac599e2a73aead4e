"""A network that makes its input images smaller."""

import torch.nn.functional as F
from torch import Tensor, nn


class Resized(nn.Module):
    """Resize images (B, C, H, W) before the network, and its outputs back, if they are
    maps.

    The resizing is bilinear, of images with antialiasing.

    Args:
        network: Takes the resized images.
        side: Of the resized images in pixels.
    """

    def __init__(self, network: nn.Module, side: int) -> None:
        super().__init__()
        self.network = network
        self.side = side

    def forward(self, images: Tensor) -> Tensor:
        smaller = F.interpolate(
            images, size=(self.side, self.side), mode="bilinear", antialias=True
        )
        outputs: Tensor = self.network(smaller)
        if outputs.ndim == images.ndim:
            outputs = F.interpolate(outputs, images.shape[-2:], mode="bilinear")
        return outputs
