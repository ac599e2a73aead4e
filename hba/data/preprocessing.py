"""From images in [0, 1] to the input of a network, in training and in measuring alike."""

from dataclasses import dataclass

import torch
from torch import Tensor

from hba.data.baseline import Baseline, augment
from hba.data.batches import Standardize


@dataclass(frozen=True)
class Preprocessing:
    """What stands between the policy and the network: standardisation and the dataset's baseline augmentation."""

    standardize: Standardize
    baseline: Baseline

    def train(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Images (B, C, H, W) in [0, 1], behind the policy, each baseline-augmented on its own draw (paper, 4.2)."""
        return augment(self.standardize(images), self.baseline, generator)

    def measure(self, images: Tensor) -> Tensor:
        """Images (B, C, H, W) in [0, 1] that are not augmented: those of validation and test."""
        return self.standardize(images)
