"""The problem of a search: its batches, its augmentation and its loss. A problem does
not change during a search.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from hba.config.training import CommonSearchConfig
from hba.data.images import SearchData
from hba.data.loader import BatchStream
from hba.operations.apply import Candidates
from hba.policy.draw import SampleTrace, augment
from hba.policy.space import SearchSpace
from hba.preprocessing import Preprocessing
from hba.regularization.groups import Regularization
from hba.schedule.mixing import Mixing
from hba.tasks import ImageTask, MixedLabels, Outputs, Task, task_of
from hba.training.metrics import totals
from hba.training.mixing import mix
from hba.training.optim import Parameters, optimizer_for
from hba.utils.seeding import derived_seed, generator_for

Inputs = Any
"""Inputs of a batch, such as images (B, C, H, W); anything that has a length B."""


class Batches(Protocol):
    """Endless batches of a data set, whose position can be saved and restored."""

    batch_size: int
    """Number of examples of a batch."""

    @property
    def batches_per_pass(self) -> int:
        """Number of batches of an epoch."""

    def next(self) -> tuple[Inputs, Tensor]:
        """The next inputs and their labels."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class SearchProblem:
    """The interface between algorithms and data. A subclass defines the task and the
    batches.

    A batch is a pair of inputs and labels, whose meaning the task knows. By default,
    the network takes the inputs as they are.
    """

    config: Any
    """The settings of the search, a CommonSearchConfig for images."""
    space: SearchSpace

    @cached_property
    def task(self) -> Task:
        """What the labels mean: the loss and the error."""
        raise NotImplementedError

    @property
    def device(self) -> torch.device:
        raise NotImplementedError

    @property
    def graph(self) -> bool | None:
        """Whether steps on a GPU run as CUDA graphs; None as in the setting `graph`.

        A graph repeats only what a step does to tensors of the search, and not what a
        batch keeps for the next one.
        """
        return False

    @cached_property
    def regularization(self) -> Regularization:
        return Regularization(self.space.regularizers, self.space.n_of_policy)

    @cached_property
    def image_columns(self) -> Tensor | None:
        """Columns of regularizers that act on images, on the device; None for none."""
        columns = self.regularization.image_columns
        return torch.tensor(columns, device=self.device) if columns else None

    @cached_property
    def through_weights(self) -> Tensor:
        """Which hyperparameters act through the weights, bool (n,) on the device."""
        on_images = {*range(self.space.n_of_policy), *self.regularization.image_columns}
        return torch.tensor(
            [column not in on_images for column in range(self.space.n)],
            device=self.device,
        )

    def train_stream(self) -> Batches:
        """Endless batches of D_T."""
        raise NotImplementedError

    def val_stream(self, batch_size: int) -> Batches:
        """Endless batches of the validation set D_V."""
        raise NotImplementedError

    def generator(self) -> torch.Generator:
        """The generator, on the device, of all random numbers of the search itself."""
        return generator_for(self.config.seed, "augmentation", self.device)

    def noise(self, n_rows: int, generator: torch.Generator) -> Tensor:
        """epsilon: standard normal numbers (B, n), one row per input.

        It is 0 for hyperparameters that are not searched.
        """
        drawn = torch.randn(
            n_rows, self.space.n, generator=generator, device=generator.device
        )
        return drawn.to(self.device) * self.space.is_searched(self.device)

    def optimizer_of(self, parameters: Parameters) -> tuple[Optimizer, LRScheduler]:
        """The weights' optimizer and its learning rate schedule, from the settings."""
        raise NotImplementedError

    def augment(
        self, inputs: Inputs, lam: Tensor, generator: torch.Generator
    ) -> Inputs:
        """The network's input for a training batch, augmented at lambdas (B, n)."""
        return inputs

    def augment_with(
        self,
        values: Tensor,
        inputs: Inputs,
        labels: Tensor | None,
        generator: torch.Generator,
    ) -> tuple[Inputs, Any, SampleTrace]:
        """Like augment, with values (B, n) in natural units.

        Returns:
            The network's input, the labels, which symmetries by class may change, and
            the draws.
        """
        raise NotImplementedError

    def as_measured(self, inputs: Inputs) -> Inputs:
        """The network's input for a batch without augmentation."""
        return inputs

    def validation_loss(self, predict: Callable[[Inputs], Outputs]) -> Tensor:
        """Mean loss () on all of D_V, on the device.

        Args:
            predict: Maps inputs to outputs.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class ImageProblem(SearchProblem):
    """A search on labelled images."""

    config: CommonSearchConfig
    space: SearchSpace
    data: SearchData
    """Training set D_T and validation set D_V, on their device."""
    preprocessing: Preprocessing
    fill: Tensor
    """Color (C,) of uncovered pixels."""
    candidates: Candidates = None
    """For each step of a draw, the numbers of the operations that can be used; None for
    all.
    """

    @cached_property
    def task(self) -> ImageTask:
        return task_of(self.data.train.labels)

    @property
    def device(self) -> torch.device:
        return self.data.train.device

    @property
    def graph(self) -> bool | None:
        return self.config.graph

    def augment(
        self, inputs: Tensor, lam: Tensor, generator: torch.Generator
    ) -> Tensor:
        """Apply policy, standardization, baseline and Cutout (paper, 4.2).

        Regularizers of the network's input come last.

        Args:
            inputs: Images (B, C, H, W).
            lam: lambda of each image (B, n).
            generator: Random numbers.
        """
        return self.augment_with(self.space.decode(lam), inputs, None, generator)[0]

    def augment_with(
        self,
        values: Tensor,
        inputs: Tensor,
        labels: Tensor | None,
        generator: torch.Generator,
    ) -> tuple[Tensor, Any, SampleTrace]:
        augmented, labels, trace = augment(
            self.space,
            values,
            inputs,
            labels,
            generator,
            self.fill,
            candidates=self.candidates,
        )
        standardized = self.preprocessing.train(augmented, generator)
        inputs = self.regularization.on_inputs(standardized, values, generator)
        return inputs, labels, trace

    def mixed(
        self, row: Tensor, inputs: Tensor, labels: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor | MixedLabels]:
        """The inputs, mixed by the policy with values `row` (n,), and their labels."""
        if not self.space.mixing:
            return inputs, labels
        return mix(inputs, labels, Mixing.of(self.space, row), generator)

    def as_measured(self, inputs: Tensor) -> Tensor:
        return self.preprocessing.measure(inputs)

    def validation_loss(self, predict: Callable[[Tensor], Tensor]) -> Tensor:
        loss, _ = totals(predict, self.data.val, self.preprocessing.measure)
        return loss

    def optimizer_of(self, parameters: Parameters) -> tuple[Optimizer, LRScheduler]:
        n_images = len(self.data.train)
        steps_per_epoch = n_images // min(self.config.batch_size, n_images)
        return optimizer_for(
            self.config, parameters, steps_per_epoch, self.config.plateau_epochs
        )

    def train_stream(self, without: Tensor | None = None) -> BatchStream:
        """Endless batches of D_T.

        Args:
            without: Indices of images to leave out; None for none.
        """
        places = None
        if without is not None:
            is_kept = torch.ones(len(self.data.train), dtype=torch.bool)
            is_kept[without] = False
            places = is_kept.nonzero().flatten()
        return BatchStream(
            self.data.train,
            self.config.batch_size,
            derived_seed(self.config.seed, "training batches"),
            places,
        )

    def val_stream(self, batch_size: int) -> BatchStream:
        seed = derived_seed(self.config.seed, "validation batches")
        return BatchStream(self.data.val, batch_size, seed)
