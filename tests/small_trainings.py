"""Small data, schedules and guards for tests of trainings."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from hba.data import EvaluationData, LabelledImages
from hba.data.images import Images
from hba.operations import OPERATIONS
from hba.policy.space import SearchSpace
from hba.schedule.mixing import Mixing
from hba.schedule.schedule import Schedule
from hba.training.augmentation import Augment

EPOCHS = 3
BATCH = 20
N_TRAIN = 40
N_TEST = 30
STEPS = EPOCHS * N_TRAIN // BATCH


def two_sides(n_images: int, seed: int) -> LabelledImages:
    """Class 0 is bright on the left, class 1 on the right; 8x8."""
    generator = torch.Generator().manual_seed(seed)
    images = torch.randint(0, 160, (n_images, 3, 8, 8), generator=generator)
    labels = torch.arange(n_images) % 2
    images[labels == 0, :, :, :4] += 90
    images[labels == 1, :, :, 4:] += 90
    return LabelledImages(images.to(torch.uint8), labels)


def tiny_data() -> EvaluationData:
    return EvaluationData(
        "tiny", ("left", "right"), two_sides(N_TRAIN, seed=0), two_sides(N_TEST, seed=1)
    )


def one_operation(name: str, rows: list[list[float]]) -> Schedule:
    """A schedule of nothing but this operation, which every image gets."""
    space = SearchSpace((OPERATIONS[name],), copies=1, count_probabilities=(0.0, 1.0))
    return Schedule(space, np.array(rows))


class Mixes:
    """An augmentation that does nothing but mix."""

    definition = "mixes"

    def __init__(self, *by_epoch: Mixing) -> None:
        self.mixing = by_epoch

    def by_epoch(self, epochs: int, train: Images) -> Sequence[Augment]:
        return [lambda images, generator: images] * epochs

    def mixing_by_epoch(self, epochs: int) -> Sequence[Mixing]:
        return self.mixing


class Answers(nn.Module):
    """A network that is a function, around one that gives it parameters and a mode."""

    def __init__(
        self, function: Callable[[Tensor], Tensor], network: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.function = function
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


class ReadTooEarly(Exception):
    """The test split was read before a training was over."""


class Guarded:
    """A test split that can be moved and counted, but not read unless a training has
    just done its last step.
    """

    skipped = ()
    left_out = ()

    def __init__(self, images: LabelledImages, steps_per_training: int = STEPS) -> None:
        self.guarded = images
        self.steps_per_training = steps_per_training
        self.steps = 0

    def step_done(self) -> None:
        self.steps += 1

    def to(self, device: torch.device) -> "Guarded":
        return self

    def __len__(self) -> int:
        return len(self.guarded)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.opened(), name)

    def opened(self) -> LabelledImages:
        if self.steps == 0 or self.steps % self.steps_per_training:
            raise ReadTooEarly(f"after {self.steps} steps")
        return self.guarded


def guarded_data() -> tuple[EvaluationData, Guarded]:
    data = tiny_data()
    guard = Guarded(two_sides(N_TEST, seed=1))
    return (
        EvaluationData(
            data.name, data.class_names, data.train, cast(LabelledImages, guard)
        ),
        guard,
    )
