"""What a training does to its images before the baseline augmentation: one interface for schedules and all else."""

import dataclasses
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from hba.data.images import Images
from hba.operations import fill_for
from hba.policy.draw import apply_operations, draw_by_means, means_of
from hba.policy.space import SearchSpace
from hba.schedule.schedule import Schedule
from hba.training.regularizing import EpochRegularization, regularization_of

Augment = Callable[[Tensor, torch.Generator], Tensor]
"""From images (B, C, H, W) float in [0, 1], and a generator on their device, to new images of that kind."""


class Augmentation(Protocol):
    """An augmentation for a whole training, of which an evaluation makes a row: `hba.evaluate(..., against=[Mine()])`.

    It needs no base class, only what stands below. Its row is called by an attribute `name` (a text), else by its
    class. For jobs in processes of their own it must be picklable. Where several processes share every batch, each
    gives it the whole batch; an attribute `shares_batches` that is True asks for the process's own images, and such an
    augmentation draws by hba.distributed.collectives.draw_then_shard. An example, which adds noise that grows:

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
        """A text that is equal for augmentations that do the same, in this process and in a later one, and no other.

        An evaluation that is resumed goes by it.
        """
        ...

    def by_epoch(self, epochs: int, train: Images) -> Sequence[Augment]:
        """What each of `epochs` epochs does to a batch: a new tensor (B, C, H, W), float in [0, 1], on the device of
        the training images `train`, which may be looked at. It must not write into the batch that it is given.

        Draws come from the generator that is passed to each call, or from torch's default ones; the seed of the
        training decides both.
        """
        ...


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
        """A hash of everything but the provenance, and where the functions of own operations are."""
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
        """by_epoch without training images, which a schedule does not look at."""
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
        """What the schedule's regularizers do."""
        return regularization_of(self.schedule, epochs, device)


def augmentation_of(schedule: Schedule | None) -> Augmentation:
    """None is the baseline augmentation alone."""
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
