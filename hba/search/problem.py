"""What stays the same during a search, whatever the algorithm."""

from dataclasses import dataclass

import torch
from torch import Tensor

from hba.config import SearchConfig
from hba.data.images import Images
from hba.data.preprocessing import Preprocessing
from hba.policy import apply_operations, draw_operations
from hba.space import SearchSpace


@dataclass(frozen=True)
class Problem:
    """val: the whole validation set D_V. fill (C,): the mean colour of the training images."""

    config: SearchConfig
    space: SearchSpace
    preprocessing: Preprocessing
    fill: Tensor
    val: Images

    def augment(self, images: Tensor, lam: Tensor, generator: torch.Generator) -> Tensor:
        """Policy, standardisation, baseline, Cutout (paper, 4.2): images (B, C, H, W), a lambda for each (B, n)."""
        draw = draw_operations(self.space, self.space.decode(lam), len(images), generator)
        return self.preprocessing.train(apply_operations(self.space, draw, images, self.fill), generator)
