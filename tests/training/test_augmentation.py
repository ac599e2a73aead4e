"""One interface for schedules and for nothing at all."""

import numpy as np
import torch
from each import each

from hba.data import LabelledImages
from hba.operations import OPERATIONS
from hba.policy.space import SearchSpace
from hba.schedule.schedule import Schedule
from hba.training.augmentation import ScheduleAugmentation, Unchanged, augmentation_of

TRAIN = LabelledImages(torch.zeros(1, 3, 8, 8, dtype=torch.uint8), torch.zeros(1, dtype=torch.int64))
DIM = Schedule(
    SearchSpace((OPERATIONS["Brightness"],), copies=1, count_probabilities=(0.0, 1.0)), np.array([[1.0, 0.25], [1, 1]])
)


def test_no_schedule_leaves_images_and_the_generator_alone() -> None:
    augmentation = augmentation_of(None)
    assert augmentation == Unchanged()
    images, generator = torch.rand(4, 1, 8, 8), torch.Generator().manual_seed(0)
    before = generator.get_state()
    epochs = augmentation.by_epoch(3, TRAIN)
    assert len(epochs) == 3
    assert epochs[2](images, generator) is images
    assert torch.equal(generator.get_state(), before)


@each("channels", [1, 3])
def test_each_epoch_has_its_row_of_the_stretched_schedule(channels: int) -> None:
    augmentation = augmentation_of(DIM)
    assert isinstance(augmentation, ScheduleAugmentation)
    assert augmentation.schedule is DIM
    images = torch.full((4, channels, 8, 8), 0.8)
    epochs = augmentation.by_epoch(4, TRAIN)
    for augment, factor in zip(epochs, (0.25, 0.5, 0.75, 1.0), strict=True):
        torch.testing.assert_close(augment(images, torch.Generator()), images * factor, atol=0.003, rtol=0)
