"""What stays the same during a search, whatever the algorithm."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from hba.config.search import CommonSearchConfig
from hba.data.batches import BatchStream
from hba.data.images import Images
from hba.data.load import SearchData
from hba.policy.draw import Walk, apply_operations, draw_walk
from hba.policy.space import SearchSpace
from hba.policy.starts import at_fraction, of_row, randaugment
from hba.preprocessing.preprocessing import Preprocessing
from hba.runtime.seeding import derived_seed, generator_for


@dataclass(frozen=True)
class Problem:
    """data: training set D_T and validation set D_V, on their device. fill (C,): what operations uncover."""

    config: CommonSearchConfig
    space: SearchSpace
    data: SearchData
    preprocessing: Preprocessing
    fill: Tensor

    @property
    def device(self) -> torch.device:
        return self.data.train.device

    @property
    def val(self) -> Images:
        """D_V, whole."""
        return self.data.val

    def augment(self, images: Tensor, lam: Tensor, generator: torch.Generator) -> Tensor:
        """Policy, standardisation, baseline, Cutout (paper, 4.2): images (B, C, H, W), a lambda for each (B, n)."""
        return self.augment_with(self.space.decode(lam), images, generator)[0]

    def augment_with(self, values: Tensor, images: Tensor, generator: torch.Generator) -> tuple[Tensor, Walk]:
        """The same with values in natural units for each image (B, n), and the walk that led there."""
        draw, walk = draw_walk(self.space, values, len(images), generator)
        augmented = apply_operations(self.space, draw, images, self.fill)
        return self.preprocessing.train(augmented, generator), walk

    def initial_lambda(self, fraction: float, init: str = "fraction", row: Mapping[str, float] | None = None) -> Tensor:
        """Logits (n,) on the device: of a schedule's row, if there is one; else at a fraction of every range, or
        RandAugment's where init says so.
        """
        if row is not None:
            found = of_row(self.space, row)
        else:
            found = randaugment(self.space) if init == "randaugment" else at_fraction(self.space, fraction)
        return found.to(self.device)

    def train_stream(self) -> BatchStream:
        """Batches of D_T."""
        return BatchStream(self.data.train, self.config.batch_size, derived_seed(self.config.seed, "training batches"))

    def val_stream(self, batch_size: int) -> BatchStream:
        """Batches of D_V."""
        return BatchStream(self.data.val, batch_size, derived_seed(self.config.seed, "validation batches"))

    def generator(self) -> torch.Generator:
        """For all that a search draws itself, on the device."""
        return generator_for(self.config.seed, "augmentation", self.device)
