"""What stays the same during a search, whatever the algorithm."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from hba.algorithms.temperature import best_temperature
from hba.config.search import SearchConfig
from hba.data.images import Images
from hba.policy.draw import Walk, apply_operations, draw_walk
from hba.policy.space import SearchSpace
from hba.preprocessing.preprocessing import Preprocessing


@dataclass(frozen=True)
class Problem:
    """val: the whole validation set D_V. fill (C,): the mean colour of the training images."""

    config: SearchConfig
    space: SearchSpace
    preprocessing: Preprocessing
    fill: Tensor
    val: Images

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Of validation images, whose logits are (B, classes): mean cross entropy, at the best temperature if so set.

        The temperature is found without a gradient and then held.
        """
        if self.config.calibrate:
            logits = logits / best_temperature(logits.detach(), labels)
        return F.cross_entropy(logits, labels)

    def augment(self, images: Tensor, lam: Tensor, generator: torch.Generator) -> Tensor:
        """Policy, standardisation, baseline, Cutout (paper, 4.2): images (B, C, H, W), a lambda for each (B, n)."""
        return self.augment_with(self.space.decode(lam), images, generator)[0]

    def augment_with(self, values: Tensor, images: Tensor, generator: torch.Generator) -> tuple[Tensor, Walk]:
        """The same with values in natural units for each image (B, n), and the walk that led there."""
        draw, walk = draw_walk(self.space, values, len(images), generator)
        augmented = apply_operations(self.space, draw, images, self.fill)
        return self.preprocessing.train(augmented, generator), walk
