"""The distribution shift of the benchmarks' beds, each part of it against what it is defined by."""

from typing import Any

import pytest
import torch
from benchmark_modules import module
from torch import Tensor

from hba.data import LabelledImages
from hba.policy_search.config import SearchConfig

pytestmark = pytest.mark.usefixtures("benchmarks_can_be_imported")

OFF: dict[str, Any] = {
    "rotation": (0.0, 0.0),
    "zoom": (1.0, 1.0),
    "gamma": (1.0, 1.0),
    "blur": (0.0, 0.0),
    "noise": (0.0, 0.0),
}


def images_of(n: int = 6, channels: int = 3, side: int = 16) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, 256, (n, channels, side, side), generator=generator, dtype=torch.uint8)


def shifted(images: Tensor, seed: int = 0, **parts: Any) -> Tensor:
    shift = module("quality.shift").Shift(**parts)
    found: Tensor = shift(images, torch.Generator().manual_seed(seed))
    return found


def only(images: Tensor, **parts: Any) -> Tensor:
    return shifted(images, **{**OFF, **parts})


def test_the_generator_decides_all_of_it() -> None:
    images = images_of()
    before = images.clone()
    assert torch.equal(shifted(images, 0), shifted(images, 0))
    assert not torch.equal(shifted(images, 0), shifted(images, 1))
    assert torch.equal(images, before)


def test_every_image_of_digits_changes_and_stays_an_image_of_grey_levels() -> None:
    digits = module("common.images").IMAGES.of_search(SearchConfig.from_preset({}).resolved()).val
    assert isinstance(digits, LabelledImages)
    found = shifted(digits.images)
    assert found.dtype == torch.uint8
    assert found.shape == digits.images.shape
    assert (found != digits.images).flatten(1).any(1).all()
    assert torch.equal(found[:, 0], found[:, 1])
    assert torch.equal(found[:, 0], found[:, 2])


def test_equal_images_come_out_different() -> None:
    found = shifted(images_of(1).repeat(40, 1, 1, 1))
    assert len({image.numpy().tobytes() for image in found}) == 40


def test_with_every_part_off_images_stay_as_they_are() -> None:
    assert torch.equal(only(images_of()), images_of())


def test_a_rotation_by_a_right_angle_is_exact() -> None:
    assert torch.equal(only(images_of(), rotation=(90.0, 90.0)), torch.rot90(images_of(), 1, (2, 3)))


def test_a_zoom_of_two_shows_the_image_at_half_its_size_with_its_border_around() -> None:
    image = torch.zeros(1, 3, 16, 16, dtype=torch.uint8)
    image[..., 4:12, 4:12] = 255
    found = only(image, zoom=(2.0, 2.0))
    expected = torch.zeros_like(image)
    expected[..., 6:10, 6:10] = 255
    assert torch.equal(found, expected)


def test_gamma_is_the_exponent_of_the_levels() -> None:
    images = images_of()
    expected = (255 * (images.double() / 255) ** 2.5).round()
    assert (only(images, gamma=(2.5, 2.5)) - expected).abs().max() <= 1


def test_gamma_is_below_one_as_often_as_its_logarithm_is_uniform() -> None:
    grey = torch.full((4000, 3, 1, 1), 128, dtype=torch.uint8)
    brighter = only(grey, gamma=(0.25, 4.0))[:, 0, 0, 0] > 128
    assert float(brighter.float().mean()) == pytest.approx(0.5, abs=0.03)


def test_blur_is_the_binomial_filter() -> None:
    image = torch.zeros(1, 3, 5, 5, dtype=torch.uint8)
    image[..., 2, 2] = 240
    found = only(image, blur=(1.0, 1.0))[0, 0]
    expected = torch.zeros(5, 5)
    expected[1:4, 1:4] = torch.tensor([[15.0, 30.0, 15.0], [30.0, 60.0, 30.0], [15.0, 30.0, 15.0]])
    assert (found - expected).abs().max() <= 1
    assert int(only(image, blur=(0.5, 0.5))[0, 0, 2, 2]) == pytest.approx(150, abs=1)


def test_noise_has_its_standard_deviation_and_is_of_each_channel() -> None:
    image = images_of(1, 3, 64).clamp(120, 136)
    difference = (only(image, noise=(0.1, 0.1)).double() - image)[0] / 255
    assert float(difference.std()) == pytest.approx(0.1, rel=0.03)
    assert float(torch.corrcoef(difference.flatten(1))[0, 1]) == pytest.approx(0, abs=0.06)
