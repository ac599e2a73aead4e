"""The augmentation of a training, before the baseline augmentation: a schedule,
nothing, or your own function.
"""

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from hba.data.images import Images
from hba.operations.apply import fill_for
from hba.policy import draw
from hba.policy.module import GRAY
from hba.regularization.groups import Regularization
from hba.schedule.mixing import Mixing
from hba.schedule.recipes import RECIPE
from hba.schedule.schedule import Schedule

Augment = Callable[[Tensor, torch.Generator], Tensor]
"""A function of images (B, C, H, W), float in [0, 1], and a generator on their device;
returns new images.
"""


class Augmentation(Protocol):
    """An augmentation for a whole training, as a row of an evaluation.

    It is used as in `hba.evaluate(..., against=[Mine()])`.

    Your class needs no base class, only the members below. Its row is named by its
    attribute `name` (a string), or else by the class. It must be picklable if jobs run
    in their own processes. An example is in
    docs/extending.md.

    An optional method `mixing_by_epoch(epochs)` returns a hba.Mixing for each epoch, or
    an empty sequence. Each batch is then mixed by Mixup or CutMix after everything
    else.
    """

    @property
    def definition(self) -> str:
        """A string that is equal for augmentations that do the same, and for no others.

        This holds in this process or a later one. A resumed evaluation recognises its
        rows by it.
        """
        ...

    def by_epoch(self, epochs: int, train: Images) -> Sequence[Augment]:
        """Return a function of a batch for each epoch.

        The function returns a new tensor (B, C, H, W), float in [0, 1], and must not
        write into its input. Draw from the generator that each call gets, or from
        torch's default ones; the training's seed decides both.

        Args:
            epochs: Number of epochs.
            train: The training images, on the device of the batches.
        """
        ...


@dataclass(frozen=True)
class EpochPolicy:
    """The function of an epoch."""

    apply: Callable[..., tuple[Tensor, Tensor | None]]
    """The same for all epochs: takes images, their labels or None, and a generator;
    returns new images and their labels.
    """
    tensors: tuple[Tensor, ...] = ()
    """The epoch's own tensors, the first arguments of `apply`."""

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """New images, which keep their labels."""
        augmented, _ = self.apply(*self.tensors, images, None, generator)
        return augmented

    @staticmethod
    def of(augment: Augment) -> "EpochPolicy":
        """A function of images alone as one that keeps labels."""
        if isinstance(augment, EpochPolicy):
            return augment
        return EpochPolicy(
            lambda images, labels, generator: (augment(images, generator), labels)
        )


class EpochRegularization(NamedTuple):
    """Regularizers in one epoch."""

    acts: Regularization
    """The regularizers."""
    row: Mapping[str, float]
    """Their values by name."""
    values: Tensor
    """All values of the epoch (n,), on the device."""


@dataclass(frozen=True)
class ScheduleAugmentation:
    """A schedule, stretched to the epochs of the training.

    It has its own fill colour. A recipe, which was made without images, fills with the
    mean colour of the training images instead of GRAY.
    """

    schedule: Schedule | None
    """None leaves images unchanged."""

    @property
    def definition(self) -> str:
        """A hash of the schedule.

        Everything is hashed except the provenance and the functions of your own
        operations.
        """
        if self.schedule is None:
            return "unchanged"
        space = self.schedule.space
        content = {
            "operations": [
                [row.name, row.magnitude_range, row.interpolation]
                for row in space.operations
            ],
            "copies": space.copies,
            "count_probabilities": space.count_probabilities,
            "fill": "mean" if _fills_with_mean(self.schedule) else self.schedule.fill,
            "values": self.schedule.values.tolist(),
        }
        if self.schedule.spread.any():
            content["spread"] = self.schedule.spread.tolist()
        if space.class_moves:
            content["class_moves"] = dataclasses.astuple(space.class_moves)
        if space.searches_count:
            content["searches_count"] = True
        if space.regularizers:
            content["regularizers"] = [
                dataclasses.astuple(regularizer) for regularizer in space.regularizers
            ]
        return (
            "schedule " + hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]
        )

    def for_classes(self, class_names: tuple[str, ...]) -> "ScheduleAugmentation":
        """The augmentation of data with these classes.

        Raises:
            SettingsError: If symmetries of the schedule hold only for some classes, and
                the data have none of those that the schedule knows.
        """
        if self.schedule is None or self.schedule.space.class_moves is None:
            return self
        space = self.schedule.space
        moves = self.schedule.space.class_moves.for_classes(class_names)
        space = dataclasses.replace(space, class_moves=moves)
        return ScheduleAugmentation(dataclasses.replace(self.schedule, space=space))

    def by_epoch(self, epochs: int, train: Images | Tensor) -> Sequence[Augment]:
        """As Augmentation.by_epoch.

        Only the device of the training images matters, and for a recipe their colour
        and the number of their channels.
        """
        if self.schedule is None or not self.schedule.space.acts_on_images:
            nothing = EpochPolicy(lambda images, labels, generator: (images, labels))
            return [nothing] * epochs
        stretched = self.schedule.stretched(epochs)
        if RECIPE in stretched.provenance:
            n_channels = (
                train.shape[1] if isinstance(train, Tensor) else train.n_channels
            )
            stretched = stretched.for_channels(n_channels)
        space = stretched.space
        fill = stretched.fill
        if _fills_with_mean(stretched):
            fill = (
                tuple(train.mean((0, 2, 3)).tolist())
                if isinstance(train, Tensor)
                else train.mean_color()
            )
        on_device = partial(torch.tensor, dtype=torch.float32, device=train.device)
        rows = on_device(stretched.values)
        spreads = on_device(stretched.spread)
        is_spread = bool(spreads.any())
        candidates = space.candidates(stretched.values)

        def augment(
            means: Tensor,
            spread: Tensor,
            images: Tensor,
            labels: Tensor | None,
            generator: torch.Generator,
        ) -> tuple[Tensor, Tensor | None]:
            augmented, labels, _ = draw.augment(
                space,
                means,
                images,
                labels,
                generator,
                fill_for(images, fill),
                candidates=candidates,
                spread=spread if is_spread else None,
            )
            return augmented, labels

        means = draw.mean_probabilities(space, rows, spreads if is_spread else None)
        return [
            EpochPolicy(augment, tensors)
            for tensors in zip(means, spreads, strict=True)
        ]

    def regularization_by_epoch(
        self, epochs: int, device: torch.device
    ) -> Sequence[EpochRegularization]:
        """The regularization of each epoch; empty for none.

        The trainer calls this method if it exists.
        """
        if self.schedule is None or not self.schedule.space.regularizers:
            return ()
        stretched = self.schedule.stretched(epochs)
        acts = Regularization(stretched.space.regularizers, stretched.space.n_of_policy)
        rows = torch.tensor(stretched.values, dtype=torch.float32, device=device)
        return [
            EpochRegularization(acts, stretched.regularization(epoch), row)
            for epoch, row in enumerate(rows)
        ]

    def mixing_by_epoch(self, epochs: int) -> Sequence[Mixing]:
        """How batches are mixed in each epoch; empty for a schedule without mixing."""
        if self.schedule is None or not self.schedule.space.mixing:
            return ()
        return [
            Mixing.of(self.schedule.space, row)
            for row in self.schedule.stretched(epochs).values
        ]


def _fills_with_mean(schedule: Schedule) -> bool:
    return RECIPE in schedule.provenance and schedule.fill == GRAY
