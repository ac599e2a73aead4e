"""PolicyTransform of a schedule with a spread: every image draws around the row of the current place."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from test_transform import dimming

from hba.schedule.transform import PolicyTransform

LEVEL = 100
N_IMAGES = 400


def as_pil() -> Image.Image:
    return Image.new("L", (2, 2), LEVEL)


def as_tensor() -> torch.Tensor:
    return torch.full((1, 2, 2), LEVEL, dtype=torch.uint8)


def as_array() -> Any:
    return np.full((2, 2), LEVEL, dtype=np.uint8)


def factors(transform: PolicyTransform, image: Callable[[], Any]) -> list[float]:
    """By how much each of many images is multiplied, ascending."""
    return sorted(float(np.asarray(transform(image())).flat[0]) / LEVEL for _ in range(N_IMAGES))


def factor(logit: float) -> float:
    """Of Brightness, whose range is 0.1 to 1.9."""
    return 0.1 + 1.8 / (1 + math.exp(-logit))


@pytest.mark.parametrize("image", [as_pil, as_tensor, as_array])
def test_half_of_the_images_are_within_the_quartiles_of_the_spread(image: Callable[[], Any]) -> None:
    torch.manual_seed(0)
    transform = dimming(1.0, 1.0).with_spread(1.0, probabilities=False).transform()
    found = factors(transform, image)
    assert len(set(found)) > 50
    quartiles = [found[N_IMAGES // 4], found[3 * N_IMAGES // 4]]
    assert quartiles == pytest.approx([factor(-0.6745), factor(0.6745)], abs=0.08)


@pytest.mark.parametrize("image", [as_pil, as_tensor])
def test_the_spread_is_that_of_the_place(image: Callable[[], Any]) -> None:
    schedule = dimming(0.5, 0.5, 0.5)
    transform = type(schedule)(schedule.space, schedule.values, spread=np.array([[0.0], [0.0], [1.0]])).transform()
    transform.set_progress(0.5)
    assert set(factors(transform, image)) == {0.5}
    transform.set_progress(0.75)
    narrow = np.std(factors(transform, image))
    transform.set_progress(1.0)
    assert 0 < 1.3 * narrow < np.std(factors(transform, image))


def test_a_whole_batch_of_tensors_is_drawn_around_the_row() -> None:
    transform = dimming(1.0).with_spread(1.0, probabilities=False).transform()
    batch = torch.full((64, 1, 2, 2), 0.5)
    assert len(transform(batch)[:, 0, 0, 0].unique()) > 50
