"""What a training does to its images before the baseline augmentation: schedules, nothing, or your own function."""

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Protocol

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from hba.data.images import Images
from hba.operations.apply import fill_for
from hba.policy.draw import apply_operations, draw_by_means, means_of
from hba.policy.space import SearchSpace
from hba.regularization.groups import Regularization
from hba.schedule.schedule import Schedule

Augment = Callable[[Tensor, torch.Generator], Tensor]
"""From images (B, C, H, W) float in [0, 1], and a generator on their device, to new images of that kind."""


class Augmentation(Protocol):
    """An augmentation for a whole training, of which an evaluation makes a row: `hba.evaluate(..., against=[Mine()])`.

    Your class needs no base class, only the members below. Its row is named by an attribute `name` (a string), or else
    by the class. It must be picklable if jobs run in their own processes. If several processes share every batch, each
    gives it the whole batch; with an attribute `shares_batches = True` it gets the images of its process instead, and
    must draw by hba.distributed.collectives.draw_then_shard. An example, which adds noise that grows:

        @dataclass(frozen=True)
        class Noise:
            deviation: float

            @property
            def definition(self) -> str:
                return f"noise that grows to {self.deviation}"

            def by_epoch(self, epochs, train):
                return [partial(self._add, self.deviation * (epoch + 1) / epochs) for epoch in range(epochs)]

            def _add(self, deviation, images, generator):
                noise = torch.randn(images.shape, generator=generator, device=images.device)
                return (images + deviation * noise).clamp(0, 1)
    """

    @property
    def definition(self) -> str:
        """A string that is equal for augmentations that do the same, in this process or a later one, and for no others.
        A resumed evaluation recognises its rows by it.
        """
        ...

    def by_epoch(self, epochs: int, train: Images) -> Sequence[Augment]:
        """For each of `epochs` epochs, the function of a batch: it returns a new tensor (B, C, H, W), float in [0, 1],
        on the device of the training images `train`, and must not write into its input.

        Draw from the generator that is passed to each call, or from torch's default ones. Both depend on the seed of
        the training only.
        """
        ...


@dataclass(frozen=True)
class EpochRegularization:
    """The regularizers of a schedule in one epoch.

    row: values of regularizers by name. values (n,): the whole row, on the device. fill: colour of uncovered pixels.
    """

    acts: Regularization
    row: Mapping[str, float]
    values: Tensor
    fill: tuple[float, ...]

    def begin(self, network: nn.Module, optimizer: Optimizer) -> None:
        """Set the network's dropout rates and the optimizer's weight decay of this epoch."""
        self.acts.give(network, optimizer, self.row)

    def pixels(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Images (B, C, H, W) in [0, 1] after the policy."""
        return self.acts.on_pixels(images, self.values, generator, fill_for(images, self.fill))

    def inputs(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """The network's input (B, C, H, W)."""
        return self.acts.on_inputs(images, self.values, generator)

    def penalty(self, logits: Tensor, labels: Tensor) -> Tensor:
        """What is added to the loss ()."""
        return self.acts.penalty(logits, labels, self.values)


@dataclass(frozen=True)
class Unchanged:
    """Leaves images as they are."""

    shares_batches: ClassVar[bool] = True

    @property
    def definition(self) -> str:
        return "unchanged"

    def by_epoch(self, epochs: int, train: Images) -> Sequence[Augment]:
        return [_unchanged] * epochs


def _unchanged(images: Tensor, generator: torch.Generator) -> Tensor:
    return images


@dataclass(frozen=True)
class ScheduleAugmentation:
    """A schedule, stretched to the epochs, with its own fill colour."""

    schedule: Schedule

    shares_batches: ClassVar[bool] = True

    @property
    def definition(self) -> str:
        """A hash of everything but the provenance and the functions of your own operations."""
        space = self.schedule.space
        content = {
            "operations": [[row.name, row.magnitude_range, row.interpolation] for row in space.operations],
            "copies": space.copies,
            "count_probabilities": space.count_probabilities,
            "fill": self.schedule.fill,
            "values": self.schedule.values.tolist(),
            **({"spread": self.schedule.spread.tolist()} if self.schedule.spread.any() else {}),
            **({"searches_count": True} if space.searches_count else {}),
            **(
                {"regularizers": [dataclasses.astuple(one) for one in space.regularizers]} if space.regularizers else {}
            ),
        }
        return "schedule " + hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]

    def by_epoch(self, epochs: int, train: Images) -> Sequence[Augment]:
        return self.augments(epochs, train.device)

    def augments(self, epochs: int, device: torch.device) -> Sequence[Augment]:
        """The functions of by_epoch, which do not depend on the training images."""
        stretched = self.schedule.stretched(epochs)
        rows, spreads = (
            torch.tensor(one, dtype=torch.float32, device=device) for one in (stretched.values, stretched.spread)
        )
        is_spread = bool(spreads.any())
        if not stretched.space.operations:
            return [_unchanged] * epochs
        means = means_of(stretched.space, rows, spreads if is_spread else None)
        return [
            partial(_augment, stretched.space, row, spread if is_spread else None, stretched.fill)
            for row, spread in zip(means, spreads, strict=True)
        ]

    def regularization_by_epoch(self, epochs: int, device: torch.device) -> Sequence[EpochRegularization]:
        """The regularization of each epoch; empty for none. The trainer calls it if an augmentation has it."""
        return regularization_of(self.schedule, epochs, device)


def regularization_of(schedule: Schedule, epochs: int, device: torch.device) -> tuple[EpochRegularization, ...]:
    """The regularization by a schedule, stretched to the epochs; empty for a schedule without regularizers."""
    if not schedule.space.regularizers:
        return ()
    stretched = schedule.stretched(epochs)
    acts = Regularization(schedule.space.regularizers, schedule.space.n_of_policy)
    rows = torch.tensor(stretched.values, dtype=torch.float32, device=device)
    return tuple(
        EpochRegularization(acts, stretched.regularization(epoch), rows[epoch], schedule.fill)
        for epoch in range(epochs)
    )


def augmentation_of(schedule: Schedule | None) -> Augmentation:
    """None stands for the baseline augmentation alone."""
    return Unchanged() if schedule is None else ScheduleAugmentation(schedule)


def _augment(
    space: SearchSpace,
    means: Tensor,
    spread: Tensor | None,
    fill: tuple[float, ...],
    images: Tensor,
    generator: torch.Generator,
) -> Tensor:
    draw, _ = draw_by_means(space, means, len(images), generator, spread)
    return apply_operations(space, draw, images, fill_for(images, fill))
