"""AlexNet (Krizhevsky, Sutskever and Hinton, NeurIPS 2012) for small images.

From that paper: five convolutions, three poolings, and two hidden linear layers of 4096, each after dropout of 0.5,
without BatchNorm. From Krizhevsky's later version for one column (2014): 64, 192, 384, 256 and 256 channels, without
response normalization. Self-Tuning Networks (MacKay et al., ICLR 2019) train "AlexNet" on CIFAR-10 and say no more of
it. Our choice, as usual for 32x32: padding of 5 in the first convolution, and poolings of 2x2.
"""

import torch.nn.functional as F
from torch import Tensor, nn


class AlexNet(nn.Module):
    """(B, in_channels, H, W) to (B, n_classes) logits; convolutions leave 1x1 of 32x32, larger maps are averaged."""

    def __init__(self, n_classes: int, in_channels: int = 3) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(in_channels, 64, kernel_size=11, stride=4, padding=5),
            nn.ReLU(),
            _pooling(),
            nn.Conv2d(64, 192, kernel_size=5, padding=2),
            nn.ReLU(),
            _pooling(),
            nn.Conv2d(192, 384, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.Conv2d(384, 256, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.Conv2d(256, 256, kernel_size=3, padding=1),
            nn.ReLU(),
            _pooling(),
        )
        self.classifier = nn.Sequential(
            nn.Dropout(0.5),
            nn.Linear(256, 4096),
            nn.ReLU(),
            nn.Dropout(0.5),
            nn.Linear(4096, 4096),
            nn.ReLU(),
            nn.Linear(4096, n_classes),
        )

    def forward(self, x: Tensor) -> Tensor:
        x = F.adaptive_avg_pool2d(self.features(x), 1)
        return self.classifier(x.flatten(1))


def _pooling() -> nn.MaxPool2d:
    # Rounding up leaves a pixel of images smaller than 32x32 and changes nothing at 32x32.
    return nn.MaxPool2d(2, ceil_mode=True)
