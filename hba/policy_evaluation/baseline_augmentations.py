"""The augmentations of baselines: schedules made of a schedule, and equally strong ones."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hba.data.images import Images
from hba.data.loader import as_floats
from hba.errors import SettingsError
from hba.schedule.schedule import Schedule
from hba.schedule.summary import start_logits
from hba.training.augmentation import Augment, ScheduleAugmentation
from hba.utils.seeding import derived_seed, generator_for

N_PERMUTATIONS = 10
N_IMAGES, N_EPOCHS = 256, 9
"""Training images and epochs, at equal distances, that strength is measured on."""
N_DRAWS = 4096
"""At least, of all epochs and images together: the standard error of a strength is then some 2 %."""
LARGEST_FACTOR, N_HALVINGS = 16.0, 10


def start(schedule: Schedule) -> Schedule:
    """The policy that the search of this schedule started from, in every epoch, with the mean spread of the schedule.

    Where the start is not recorded, it is `middle`.
    """
    logits = start_logits(schedule)
    return middle(schedule) if logits is None else _of_logits(schedule, logits)


def middle(schedule: Schedule) -> Schedule:
    """In every epoch all probabilities 0.5, all magnitudes in the middle of their range, and the mean spread.

    There, Brightness, Color, Contrast and Sharpness have no direction. A searched K has the space's own probabilities.
    """
    return _of_logits(schedule, schedule.space.initial(0.5))


def _of_logits(schedule: Schedule, logits: Tensor) -> Schedule:
    values = schedule.space.decode(logits.double())[None].numpy()
    return dataclasses.replace(schedule, values=values, spread=schedule.averaged().spread)


def respread(schedule: Schedule, spread: float | None) -> Schedule:
    """The schedule with another spread, as by Schedule.with_spread; None changes nothing.

    It applies to probabilities too, unless the schedule spreads magnitudes alone.
    """
    if spread is None:
        return schedule
    of_probabilities = schedule.spread[:, schedule.space.probability_columns(torch.device("cpu")).numpy()]
    return schedule.with_spread(spread, probabilities=bool(of_probabilities.any() or not schedule.spread.any()))


def shuffled(schedule: Schedule) -> tuple[Schedule, ...]:
    """Ten schedules in which ten permutations pi hand the curves of the schedule to other operations.

    Operation i of the walk takes the curves of operation pi(i): probabilities as they are, magnitudes as fractions of
    the range, each with its spread. K and the other stages stay. An operation with magnitude whose pi(i) has none takes
    the next one that is left over. The permutations depend on the number of operations alone; none is the identity.
    Raises SettingsError for a walk of fewer than two operations.
    """
    n = len(schedule.space.walk)
    if n < 2:
        raise SettingsError(f"shuffled needs a schedule of at least two operations on the walk, got {n}; omit shuffled")
    generator = torch.Generator().manual_seed(derived_seed(0, "shuffled schedules"))
    permutations: list[list[int]] = []
    while len(permutations) < N_PERMUTATIONS:
        permutation: list[int] = torch.randperm(n, generator=generator).tolist()
        if permutation != list(range(n)):
            permutations.append(permutation)
    return tuple(_permuted(schedule, permutation) for permutation in permutations)


def _permuted(schedule: Schedule, permutation: list[int]) -> Schedule:
    """permutation[i] is pi(i)."""
    space, slots = schedule.space, schedule.space.slots[schedule.space.walk_slots]
    has_magnitude = [operation.magnitude_range is not None for operation in space.walk]
    takers = [taker for taker in range(len(permutation)) if has_magnitude[taker]]
    taken = {permutation[taker] for taker in takers}
    left_over = iter(giver for giver in range(len(permutation)) if has_magnitude[giver] and giver not in taken)
    sources = {taker: permutation[taker] if has_magnitude[permutation[taker]] else next(left_over) for taker in takers}
    values, spread = schedule.values.copy(), schedule.spread.copy()
    for kind, giver_of in (("probability", dict(enumerate(permutation))), ("magnitude", sources)):
        for taker, giver in giver_of.items():
            for copy in range(space.copies):
                to, of = (getattr(slots[one * space.copies + copy], kind) for one in (taker, giver))
                (low, high), (to_low, to_high) = space.ranges[of], space.ranges[to]
                # A range of a single magnitude has no positions.
                position = (schedule.values[:, of] - low) / ((high - low) or math.inf)
                values[:, to] = np.clip(to_low + (to_high - to_low) * position, *sorted((to_low, to_high)))
                spread[:, to] = schedule.spread[:, of]
    return dataclasses.replace(schedule, values=values, spread=spread)


@dataclass(frozen=True)
class AsStrong(ScheduleAugmentation):
    """A schedule that is made as strong as another one on the training images, by one factor for all magnitudes.

    The factor scales the distance of each magnitude from the one that does nothing; below 1, it also scales
    probabilities. schedule and like have the same space.
    """

    schedule: Schedule
    like: Schedule

    @property
    def definition(self) -> str:
        return f"{super().definition}, as strong as {ScheduleAugmentation(self.like).definition}"

    def by_epoch(self, epochs: int, train: Any) -> Sequence[Augment]:
        return ScheduleAugmentation(self.matched(train)).by_epoch(epochs, train)

    def matched(self, train: Images) -> Schedule:
        """By bisection of the factor: with the same draws, strength grows with the factor. As close as a factor up to
        LARGEST_FACTOR gets.
        """
        images = sample_of(train)
        wanted = strength(self.like, images)
        low, high = 0.0, LARGEST_FACTOR
        for _ in range(N_HALVINGS):
            # The geometric mean: most factors lie near 1.
            factor = (low * high) ** 0.5 if low else min(1.0, high / 2)
            if strength(strengthened(self.schedule, factor), images) < wanted:
                low = factor
            else:
                high = factor
        return strengthened(self.schedule, high)


def strengthened(schedule: Schedule, factor: float) -> Schedule:
    """Scale the distance of each magnitude from the one that does nothing, within its range.

    A factor below 1 scales probabilities too, because operations without magnitude have no other way to be weaker. A
    user's operation without an `identity` keeps its magnitudes. The spread stays.
    """
    values = schedule.values.copy()
    for slot in schedule.space.slots:
        values[:, slot.probability] *= min(factor, 1.0)
        identity = slot.operation.identity
        if slot.magnitude is not None and identity is not None:
            low, high = sorted(schedule.space.ranges[slot.magnitude])
            stretched = identity + factor * (values[:, slot.magnitude] - identity)
            values[:, slot.magnitude] = np.clip(stretched, low, high)
    return dataclasses.replace(schedule, values=values)


def sample_of(train: Images) -> Tensor:
    """At most N_IMAGES of the images, float (n, C, H, W) in [0, 1], always the same ones."""
    n = min(N_IMAGES, len(train))
    order = torch.linspace(0, len(train) - 1, n).round().long().to(train.device)
    # All batches, so that whatever reads ahead has ended.
    (images,) = [images for images, _ in train.batches(order, n)]
    return as_floats(images)


def strength(schedule: Schedule, images: Tensor) -> float:
    """The mean absolute change of a channel of a pixel by the schedule, over its epochs, in grey levels of 255.

    images: float (n, C, H, W) in [0, 1]. It has the same draws every time.
    """
    generator = generator_for(0, "strength", images.device)
    rows = np.linspace(0, schedule.epochs - 1, min(N_EPOCHS, schedule.epochs))
    values, spread = (np.stack([at(row) for row in rows]) for at in (schedule.values_at, schedule.spread_at))
    key_rows = dataclasses.replace(schedule, values=values, spread=spread)
    augments = ScheduleAugmentation(key_rows).by_epoch(len(rows), images)
    n_rounds = math.ceil(N_DRAWS / (len(rows) * len(images)))
    moved = [(augment(images, generator) - images).abs().mean() for augment in augments for _ in range(n_rounds)]
    return 255 * float(torch.stack(moved).mean())
