"""How strong an augmentation is: how far it moves images, in grey levels; and schedules made equally strong by it."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from hba.data.images import Images
from hba.data.loader import as_floats
from hba.schedule.schedule import Schedule
from hba.training.augmentation import Augment, EpochRegularization, ScheduleAugmentation, regularization_of
from hba.utils.seeding import generator_for

N_IMAGES = 256
"""Of the training images, at equal distances, that strength is measured on."""
N_EPOCHS = 9
"""Of a schedule, at equal distances from the first to the last, that strength is measured at."""
N_DRAWS = 4096
"""At least, of all epochs and images together: the standard error of a strength is then some 2 %."""
LARGEST_FACTOR = 16.0
N_HALVINGS = 10
LARGEST_MISS = 0.1
"""Share of a strength; beyond it, a schedule counts as not matched."""


@dataclass(frozen=True)
class AsStrong:
    """A schedule whose magnitudes are brought nearer to, or farther from, doing nothing, all by one factor, so on
    the training images it is as strong as another one; to be weaker, its probabilities are lowered by the factor too.

    schedule and like have the same space. What no factor reaches is left as near to it as can be, with a warning.
    """

    schedule: Schedule
    like: Schedule

    shares_batches: ClassVar[bool] = True

    @property
    def definition(self) -> str:
        own, other = (ScheduleAugmentation(each).definition for each in (self.schedule, self.like))
        return f"{own}, as strong as {other}"

    def by_epoch(self, epochs: int, train: Images) -> Sequence[Augment]:
        return ScheduleAugmentation(self.matched(train)).by_epoch(epochs, train)

    def regularization_by_epoch(self, epochs: int, device: torch.device) -> Sequence[EpochRegularization]:
        """That of the schedule."""
        return regularization_of(self.schedule, epochs, device)

    def matched(self, train: Images) -> Schedule:
        """By halving the interval of factors; the same draws are compared, so strength grows with the factor."""
        images = sample_of(train)
        wanted = strength(self.like, images)
        low, high = 0.0, LARGEST_FACTOR
        for _ in range(N_HALVINGS):
            # Factors below and above 1 are searched alike: most of them lie near it.
            factor = (low * high) ** 0.5 if low else min(1.0, high / 2)
            if strength(strengthened(self.schedule, factor), images) < wanted:
                low = factor
            else:
                high = factor
        matched = strengthened(self.schedule, high)
        miss = strength(matched, images) - wanted
        if abs(miss) > LARGEST_MISS * wanted:
            warnings.warn(
                f"a shuffled schedule cannot be made as strong as the schedule: it moves images by {wanted + miss:.1f} "
                f"grey levels, the schedule by {wanted:.1f}",
                stacklevel=2,
            )
        return matched


def strengthened(schedule: Schedule, factor: float) -> Schedule:
    """Each magnitude `factor` times as far from the one that does nothing, within its range; below 1, each probability
    that much lower too, because operations without magnitude have no other way to be weaker.

    An operation of one's own that names no magnitude that does nothing keeps its magnitudes. The spread stays.
    """
    values = schedule.values.copy()
    for slot in schedule.space.slots:
        values[:, slot.probability] *= min(factor, 1.0)
        identity = slot.operation.identity
        if slot.magnitude is not None and identity is not None:
            low, high = sorted(schedule.space.ranges[slot.magnitude])
            stretched = identity + factor * (values[:, slot.magnitude] - identity)
            values[:, slot.magnitude] = np.clip(stretched, low, high)
    return Schedule(schedule.space, values, schedule.fill, spread=schedule.spread)


def sample_of(train: Images) -> Tensor:
    """At most N_IMAGES of the images, float (n, C, H, W) in [0, 1], always the same ones."""
    n = min(N_IMAGES, len(train))
    order = torch.linspace(0, len(train) - 1, n).round().long().to(train.device)
    # All batches, so that whatever reads ahead has ended.
    (images,) = [images for images, _ in train.batches(order, n)]
    return as_floats(images)


def strength(schedule: Schedule, images: Tensor) -> float:
    """Mean over the epochs of how far the schedule moves a channel of a pixel of these images, in grey levels of 255.

    images: float (n, C, H, W) in [0, 1]. The same draws every time.
    """
    generator = generator_for(0, "strength", images.device)
    rows = np.linspace(0, schedule.epochs - 1, min(N_EPOCHS, schedule.epochs))
    values, spread = (np.stack([at(row) for row in rows]) for at in (schedule.values_at, schedule.spread_at))
    key_rows = Schedule(schedule.space, values, schedule.fill, spread=spread)
    augments = ScheduleAugmentation(key_rows).augments(len(rows), images.device)
    n_rounds = math.ceil(N_DRAWS / (len(rows) * len(images)))
    moved = [(augment(images, generator) - images).abs().mean() for augment in augments for _ in range(n_rounds)]
    return 255 * float(torch.stack(moved).mean())
