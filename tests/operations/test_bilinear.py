"""Shear, translate and rotate with bilinear interpolation, against PIL's BILINEAR.

PIL is asked twice: for 8-bit images, where it cuts the mean down to whole levels, and for images of floating point
numbers (mode F), where it does not. A tie is a place on the very edge of the image, where the last bit of a float64
decides between a pixel and the fill colour.
"""

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from pil_comparison import (
    Levels,
    Magnitudes,
    by_pil,
    fill_of,
    magnitudes_within,
    noise,
    on_the_grid,
    photograph_pieces,
    photographs,
)
from pil_reference import geometric_reference

from hba.operations import OPERATIONS, Operation

HIGHEST = {"ShearX": 0.3, "ShearY": 0.3, "TranslateX": 0.45, "TranslateY": 0.45, "Rotate": 30.0}
PIL_BILINEAR = geometric_reference(Image.Resampling.BILINEAR)
SIZES = ((32, 32), (8, 16), (33, 47), (91, 65), (1, 29), (29, 1), (2, 5), (3, 3), (1, 1), (64, 96))
MOST_TIES = 5e-5
MOST_FLOAT32_ERROR = 0.02
"""In grey levels: places are float32 numbers, relative to the image."""


def bilinear(name: str) -> Operation:
    return OPERATIONS[name].with_interpolation("bilinear")


def places(name: str, magnitude: float, height: int, width: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Where in the input each output pixel's centre lies, in pixels from the top left corner."""
    y, x = np.mgrid[:height, :width] + 0.5
    if name == "ShearX":
        return x + magnitude * y, y
    if name == "ShearY":
        return x, y + magnitude * x
    if name == "TranslateX":
        return x + magnitude * width, y
    if name == "TranslateY":
        return x, y + magnitude * height
    cos, sin = math.cos(math.radians(magnitude)), math.sin(math.radians(magnitude))
    right, down = x - width / 2, y - height / 2
    return cos * right - sin * down + width / 2, sin * right + cos * down + height / 2


def on_the_edge(name: str, magnitude: float, height: int, width: int) -> NDArray[np.bool_]:
    distances = [
        abs(place - edge)
        for place, length in zip(places(name, magnitude, height, width), (width, height), strict=True)
        for edge in (0, length)
    ]
    return np.min(distances, axis=0) < 1e-9


def ties(name: str, images: Levels, magnitudes: Magnitudes) -> NDArray[np.bool_]:
    """Pixels (B, H, W, 1) whose place is on an edge."""
    return np.stack([on_the_edge(name, magnitude, *images.shape[1:3]) for magnitude in magnitudes.tolist()])[..., None]


def by_pil_unrounded(name: str, images: Levels, magnitudes: Magnitudes) -> NDArray[np.float64]:
    """Channel by channel, in PIL's mode F."""
    result = np.empty(images.shape)
    for image, magnitude, shown in zip(images, magnitudes.tolist(), result, strict=True):
        for channel, fill in enumerate(fill_of(images)):
            given = Image.fromarray(image[:, :, channel].astype(np.float32))
            shown[:, :, channel] = np.asarray(PIL_BILINEAR[name](given, magnitude, (fill,)))
    return result


def images_and_magnitudes(name: str, count: int) -> list[tuple[Levels, Magnitudes]]:
    """Noise, the worst case for a place that is off, and photographs; both ends of the range, 0, half pixels."""
    special = np.array([0.0, 0.5, -1.5, 7.5], np.float32) / (1 if name == "Rotate" else 32)
    cases = []
    noises = (noise(*size, channels) for size in SIZES for channels in (1, 3))
    for seed, images in enumerate((*noises, *photograph_pieces())):
        magnitudes = magnitudes_within(-HIGHEST[name], HIGHEST[name], count, seed)
        magnitudes[2:6] = special
        cases.append((images[np.arange(count) % len(images)], magnitudes))
    return cases


@pytest.mark.parametrize("name", HIGHEST)
def test_within_one_grey_level_of_pil_except_ties(name: str) -> None:
    wrong = total = 0
    for images, magnitudes in images_and_magnitudes(name, 16):
        ours = on_the_grid(bilinear(name), images, magnitudes).round()
        far = abs(ours - by_pil(name, images, magnitudes, PIL_BILINEAR)) > 1
        assert not (far & ~ties(name, images, magnitudes)).any()
        wrong, total = wrong + int(far.any(axis=3).sum()), total + far[..., 0].size
    assert wrong <= MOST_TIES * total


@pytest.mark.parametrize("name", HIGHEST)
def test_pil_s_means_before_they_are_cut_to_whole_levels(name: str) -> None:
    for images, magnitudes in images_and_magnitudes(name, 12):
        ours = on_the_grid(bilinear(name), images, magnitudes)
        far = abs(ours - by_pil_unrounded(name, images, magnitudes)) > MOST_FLOAT32_ERROR
        assert not (far & ~ties(name, images, magnitudes)).any()


@pytest.mark.parametrize("name", HIGHEST)
def test_a_whole_photograph_is_within_one_grey_level_of_pil(name: str) -> None:
    _, images = photographs()
    magnitudes = np.array([0.37, -0.83], np.float32) * HIGHEST[name]
    ours = on_the_grid(bilinear(name), images, magnitudes)
    assert abs(ours.round() - by_pil(name, images, magnitudes, PIL_BILINEAR)).max() <= 1


@pytest.mark.parametrize("name", HIGHEST)
def test_a_mean_of_pixels_is_not_the_nearest_pixel(name: str) -> None:
    images, magnitude = noise(33, 47, 3), HIGHEST[name] * 0.61
    nearest, between = (on_the_grid(operation, images, magnitude) for operation in (name, bilinear(name)))
    assert (abs(nearest - between) > 1).mean() > 0.5


@pytest.mark.parametrize("name", HIGHEST)
def test_magnitude_0_shows_the_same_grey_levels(name: str) -> None:
    for images, _ in images_and_magnitudes(name, 6):
        assert abs(on_the_grid(bilinear(name), images, 0.0) - images).max() <= MOST_FLOAT32_ERROR


@pytest.mark.parametrize("name", HIGHEST)
@pytest.mark.parametrize("size", [(8, 16), (32, 32), (1, 1)])
def test_magnitude_0_changes_no_bit_where_sides_are_powers_of_2(name: str, size: tuple[int, int]) -> None:
    assert_unchanged_at_0(name, *size)


@pytest.mark.parametrize("name", HIGHEST)
@pytest.mark.parametrize("size", [(33, 47), (224, 224)])
def test_magnitude_0_changes_next_to_nothing_at_any_size(name: str, size: tuple[int, int]) -> None:
    """Places are float32 numbers, relative to the image."""
    images = torch.from_numpy(noise(*size, 3)).permute(0, 3, 1, 2).float() / 255
    difference = (bilinear(name)(images, torch.zeros(1)) - images).abs().max()
    assert 255 * float(difference) < 0.02


def assert_unchanged_at_0(name: str, height: int, width: int) -> None:
    images = torch.from_numpy(noise(height, width, 3)).permute(0, 3, 1, 2).float() / 255
    assert torch.equal(bilinear(name)(images, torch.zeros(1)), images)
