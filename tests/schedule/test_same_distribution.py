"""What a training of your own gets from transform() is what hba evaluate trains on, for
every stage.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from random_inputs import seeded
from scipy import stats
from torch import Tensor
from torchvision.transforms.v2 import functional as TF

from hba.operations import OPERATIONS, STAGED, Operation
from hba.operations.operation import MIXING
from hba.policy.space import SearchSpace
from hba.schedule.schedule import Schedule
from hba.training.augmentation import ScheduleAugmentation

ON_IMAGES = tuple(
    operation for operation in STAGED.values() if operation.stage != MIXING
)
WALK = tuple(OPERATIONS[name] for name in ("Rotate", "Solarize", "Contrast", "Cutout"))
N_IMAGES = 10_000


def schedule_of(
    operations: tuple[Operation, ...], probability: float, share: float
) -> Schedule:
    """Magnitudes at a share of the way from the identity to the end of the range."""
    n_walk = len([operation for operation in operations if operation in WALK])
    space = SearchSpace(operations, 1, (0.2, 0.3, 0.5) if n_walk else (1.0,))
    values = [
        probability if name.endswith("probability") else low + share * (high - low)
        for name, (low, high) in zip(space.names, space.ranges, strict=True)
    ]
    return Schedule(space, np.array([values]), (0.2, 0.4, 0.7))


def noise(*shape: int) -> Tensor:
    """Whole levels, which PIL and arrays can hold."""
    levels: Tensor = torch.randint(0, 256, shape, generator=seeded(0)) / 255
    return levels


def evaluated(schedule: Schedule, images: Tensor, seed: int) -> Tensor:
    (augment,) = ScheduleAugmentation(schedule).by_epoch(1, images)
    return augment(images, seeded(seed))


ROUNDED = (
    *(
        "ResizedCrop",
        "Contrast",
        "BrightnessJitter",
        "ContrastJitter",
        "Hue",
        "Saturation",
        "Gamma",
        "Gray",
    ),
    *("Blur", "Noise", "Perspective", "Elastic"),
)
"""Operations whose result is no whole level; what comes after them makes more of the
rounding.
"""

FORMS: dict[str, Callable[[Tensor], Any]] = {
    "float": lambda image: image,
    "uint8": lambda image: image.mul(255).round().byte(),
    "PIL": lambda image: TF.to_pil_image(image.mul(255).round().byte()),
    "array": lambda image: image.mul(255).round().byte().permute(1, 2, 0).numpy(),
}


def levels_of(image: Any) -> Tensor:
    if isinstance(image, Image.Image | np.ndarray):
        return torch.from_numpy(np.array(image)).permute(2, 0, 1).double()
    return image.double() * (255 if image.is_floating_point() else 1)


@pytest.mark.parametrize("form", FORMS)
def test_a_draw_gives_the_same_image(form: str) -> None:
    """With the same random numbers, all stages one after the other; other forms are
    rounded after each of them.
    """
    tolerance = 1e-3 if form == "float" else 1.0
    operations = (*ON_IMAGES, *WALK)
    if form != "float":
        operations = tuple(
            operation for operation in operations if operation.name not in ROUNDED
        )
    schedule = schedule_of(operations, 0.4, 0.5)
    transform = schedule.transform()
    image = noise(3, 14, 18)
    n_changed = 0
    for seed in range(100, 130):
        torch.manual_seed(seed)
        result = levels_of(transform(FORMS[form](image)))
        expected = evaluated(schedule, image[None], seed)[0].double() * 255
        assert (result - expected).abs().max() < tolerance, seed
        n_changed += not torch.equal(expected, image.double() * 255)
    assert n_changed > 25


@pytest.mark.parametrize("operation", ON_IMAGES, ids=lambda operation: operation.name)
def test_rates_and_means_over_many_images_are_alike(operation: Operation) -> None:
    schedule = schedule_of((operation,), 0.3, 0.7)
    images = noise(1, 3, 6, 8).expand(N_IMAGES, -1, -1, -1)
    torch.manual_seed(1)
    by_both = schedule.transform()(images), evaluated(schedule, images, 2)
    rates = [
        float((results != images).flatten(1).any(dim=1).double().mean())
        for results in by_both
    ]
    # A shift or an erased area can be of no pixels, and some draws round to no change.
    assert rates[0] <= 0.3 + 4 * (0.21 / N_IMAGES) ** 0.5
    assert rates[0] == pytest.approx(rates[1], abs=4 * (2 * 0.21 / N_IMAGES) ** 0.5)
    if operation.magnitude_range is None:
        assert rates[0] == pytest.approx(0.3, abs=0.02)
    means, deviations = (
        [take(results) for results in by_both]
        for take in (lambda results: results.mean(0), lambda results: results.std(0))
    )
    error = 5 * (deviations[0] ** 2 + deviations[1] ** 2).div(N_IMAGES).sqrt() + 1e-6
    assert ((means[0] - means[1]).abs() <= error).all()


def test_single_images_are_changed_as_often_as_images_of_batches() -> None:
    """Arrays by draws of their own: all 8 symmetries of a square with the probabilities
    of flips and turns.
    """
    operations = tuple(
        STAGED[name] for name in ("HorizontalFlip", "VerticalFlip", "QuarterTurn")
    )
    schedule = schedule_of(operations, 0.4, 0.0)
    image = noise(3, 2, 2)
    transform = schedule.transform()
    array = FORMS["array"](image)
    torch.manual_seed(3)
    singles = Counter(transform(array).tobytes() for _ in range(2000))
    batch = evaluated(schedule, image.expand(2 * N_IMAGES, -1, -1, -1), 4)
    levels = batch.mul(255).round().byte().permute(0, 2, 3, 1).numpy()
    of_batch = Counter(result.tobytes() for result in levels)
    assert singles.keys() == of_batch.keys()
    assert len(singles) == 8
    table = [[counts[key] for key in singles] for counts in (singles, of_batch)]
    assert stats.chi2_contingency(table).pvalue > 1e-3
