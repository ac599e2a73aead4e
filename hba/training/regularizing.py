"""What a training does by the regularizers of a schedule, epoch by epoch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeGuard

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from hba.operations import fill_for
from hba.regularization.regularization import Regularization
from hba.schedule.schedule import Schedule


class Regularizing(Protocol):
    """An augmentation that comes with regularizers."""

    def regularization_by_epoch(self, epochs: int, device: torch.device) -> Sequence["EpochRegularization"]:
        """What each of `epochs` epochs does; empty for nothing."""
        ...


def is_regularizing(augmentation: object) -> TypeGuard[Regularizing]:
    return callable(getattr(augmentation, "regularization_by_epoch", None))


@dataclass(frozen=True)
class EpochRegularization:
    """One epoch's values: of regularizers by name, and values (n,) of the whole row on the device. fill: what
    regularizers of pixels uncover.
    """

    acts: Regularization
    row: Mapping[str, float]
    values: Tensor
    fill: tuple[float, ...]

    def begin(self, network: nn.Module, optimizer: Optimizer) -> None:
        """Let the network drop, and the optimizer decay, as in this epoch."""
        self.acts.give(network, optimizer, self.row)

    def pixels(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Of images (B, C, H, W) in [0, 1] behind the policy."""
        return self.acts.on_pixels(images, self.values, generator, fill_for(images, self.fill))

    def inputs(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Of what the network is about to take (B, C, H, W)."""
        return self.acts.on_inputs(images, self.values, generator)

    def penalty(self, logits: Tensor, labels: Tensor) -> Tensor:
        """What the loss grows by ()."""
        return self.acts.penalty(logits, labels, self.values)


def regularization_of(schedule: Schedule, epochs: int, device: torch.device) -> tuple[EpochRegularization, ...]:
    """Of a schedule, stretched to the epochs; empty for one without regularizers."""
    if not schedule.space.regularizers:
        return ()
    stretched = schedule.stretched(epochs)
    acts = Regularization(schedule.space.regularizers, schedule.space.n_of_policy)
    rows = torch.tensor(stretched.values, dtype=torch.float32, device=device)
    return tuple(
        EpochRegularization(acts, stretched.regularization(epoch), rows[epoch], schedule.fill)
        for epoch in range(epochs)
    )
