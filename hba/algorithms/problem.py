"""What stays the same during a search, whatever the algorithm."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from hba.config.search import CommonSearchConfig
from hba.data.batches import BatchStream
from hba.data.images import Images
from hba.data.load import SearchData
from hba.distributed.collectives import draw_then_shard
from hba.policy.draw import Walk, apply_operations, draw_walk
from hba.policy.space import SearchSpace
from hba.policy.starts import at_fraction, of_row, randaugment
from hba.preprocessing.preprocessing import Preprocessing
from hba.regularization.regularization import Regularization
from hba.training.criterion import error_share, loss_of
from hba.training.optimizer import Parameters, optimizer_for
from hba.utils.seeding import derived_seed, generator_for


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

    @cached_property
    def regularization(self) -> Regularization:
        """What the space's regularizers do."""
        return Regularization(self.space.regularizers, self.space.n_of_policy)

    @cached_property
    def image_columns(self) -> Tensor | None:
        """Of regularizers that act on images, on the device; None where there are none."""
        columns = self.regularization.image_columns
        return torch.tensor(columns, device=self.device) if columns else None

    @property
    def acts_on_images(self) -> bool:
        """Whether anything is tuned that a step on an image could judge."""
        return bool(self.space.operations or self.regularization.image_columns)

    @cached_property
    def through_weights(self) -> Tensor:
        """Whether what a hyperparameter does comes through the weights, bool (n,) on the device."""
        on_images = {*range(self.space.n_of_policy), *self.regularization.image_columns}
        return torch.tensor([column not in on_images for column in range(self.space.n)], device=self.device)

    def augment(self, images: Tensor, lam: Tensor, generator: torch.Generator) -> Tensor:
        """Policy, standardisation, baseline, Cutout (paper, 4.2): images (B, C, H, W), a lambda for each (B, n).

        Regularizers of images in [0, 1] act behind the policy, those of the network's input at the end.
        """
        return self.augment_with(self.space.decode(lam), images, generator)[0]

    def augment_with(self, values: Tensor, images: Tensor, generator: torch.Generator) -> tuple[Tensor, Walk]:
        """The same with values in natural units for each image (B, n), and the walk that led there."""
        draw, walk = draw_walk(self.space, values, len(images), generator)
        augmented = apply_operations(self.space, draw, images, self.fill) if self.space.operations else images
        augmented = self.regularization.on_pixels(augmented, values, generator, self.fill)
        inputs = self.preprocessing.train(augmented, generator)
        return self.regularization.on_inputs(inputs, values, generator), walk

    def initial_lambda(self, fraction: float, init: str = "fraction", row: Mapping[str, float] | None = None) -> Tensor:
        """Logits (n,) on the device: of a schedule's row, if there is one; else at a fraction of every range, or
        RandAugment's where init says so.
        """
        if row is not None:
            found = of_row(self.space, row)
        else:
            found = randaugment(self.space) if init == "randaugment" else at_fraction(self.space, fraction)
        return found.to(self.device, torch.get_default_dtype())

    def noise(self, n_rows: int, generator: torch.Generator) -> Tensor:
        """epsilon: standard normal numbers (B, n), a row for each image of a batch."""
        return draw_then_shard(n_rows, lambda n: torch.randn(n, self.space.n, generator=generator, device=self.device))

    def as_measured(self, images: Tensor) -> Tensor:
        """What the network takes of images that are not augmented."""
        return self.preprocessing.measure(images)

    def loss_of(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Mean loss () in nats."""
        return loss_of(outputs, labels)

    def error_share(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Share () of wrong answers."""
        return error_share(outputs, labels)

    def carry(self, stream: Any, outputs: Tensor) -> None:
        """Tell a stream what the network made of its batch: an image leaves nothing for the next one."""

    def optimizer_of(self, parameters: Parameters) -> tuple[Optimizer, LRScheduler]:
        """Of weights, as the settings have it, and the schedule of its learning rate."""
        n_images = len(self.data.train)
        steps_per_epoch = n_images // min(self.config.batch_size, n_images)
        return optimizer_for(self.config, parameters, steps_per_epoch, self.config.plateau_epochs)

    def train_stream(self) -> BatchStream:
        """Batches of D_T."""
        return BatchStream(self.data.train, self.config.batch_size, derived_seed(self.config.seed, "training batches"))

    def val_stream(self, batch_size: int) -> BatchStream:
        """Batches of D_V."""
        seed = derived_seed(self.config.seed, "validation batches")
        return BatchStream(self.data.val, batch_size, seed, "val_batch_size")

    def generator(self) -> torch.Generator:
        """For all that a search draws itself, on the device."""
        return generator_for(self.config.seed, "augmentation", self.device)
