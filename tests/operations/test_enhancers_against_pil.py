"""Brightness, Color, Contrast and Sharpness are within one grey level of PIL on 8-bit images, at every pixel.

PIL cuts what it blends down to whole levels, hba does not round; nearer than one level they cannot be.
"""

from collections.abc import Callable, Mapping

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageEnhance
from pil_comparison import Levels, by_hba, by_pil, every_size, magnitudes_within, on_the_grid, photographs

LOW, HIGH = 0.1, 1.9
POORER: Mapping[str, Callable[[Image.Image], Image.Image]] = {
    "Contrast": lambda image: ImageEnhance.Contrast(image).degenerate,
    "Color": lambda image: ImageEnhance.Color(image).degenerate,
    "Brightness": lambda image: ImageEnhance.Brightness(image).degenerate,
    "Sharpness": lambda image: ImageEnhance.Sharpness(image).degenerate,
}
# PIL's grey image is rounded to whole levels, that of Color here is not.
MOST_ROUNDED = {"Contrast": 0.0, "Color": 0.502, "Brightness": 0.0, "Sharpness": 0.0}
MOST_FLOAT32_ERROR = 0.001


def unrounded_blend(name: str, images: Levels, factor: float) -> NDArray[np.float64]:
    """factor image + (1 - factor) poorer, within 0 and 255; PIL makes the poorer image, and nothing else."""
    poorer = []
    for image in images:
        given = Image.fromarray(image[:, :, 0] if image.shape[2] == 1 else image)
        poorer.append(np.asarray(POORER[name](given), dtype=np.float64).reshape(image.shape))
    blended: NDArray[np.float64] = (factor * images + (1 - factor) * np.stack(poorer)).clip(0, 255)
    return blended


@pytest.mark.parametrize("name", POORER)
@pytest.mark.parametrize("factor", [LOW, 0.37, 0.9, 1.0, 1.23, HIGH])
def test_they_are_within_one_grey_level_of_pil(name: str, factor: float) -> None:
    for images in every_size():
        assert abs(by_hba(name, images, factor) - by_pil(name, images, factor)).max() <= 1


@pytest.mark.parametrize("name", POORER)
def test_any_factor_is_within_one_grey_level_of_pil(name: str) -> None:
    for seed, images in enumerate((*every_size(), *photographs())):
        factors = magnitudes_within(LOW, HIGH, max(2, len(images)), seed)[-len(images) :]
        assert abs(by_hba(name, images, factors) - by_pil(name, images, factors)).max() <= 1


@pytest.mark.parametrize("name", POORER)
@pytest.mark.parametrize("factor", [LOW, 0.63, 1.48, HIGH])
def test_they_are_the_unrounded_blend_with_pil_s_poorer_image(name: str, factor: float) -> None:
    most = MOST_ROUNDED[name] * abs(1 - factor) + MOST_FLOAT32_ERROR
    for images in every_size():
        assert abs(on_the_grid(name, images, factor) - unrounded_blend(name, images, factor)).max() <= most


@pytest.mark.parametrize("size", [(4, 4), (64, 64), (427, 640)])
@pytest.mark.parametrize("level", [0, 1, 127, 254])
def test_a_mean_between_two_levels_is_rounded_up_as_in_pil(size: tuple[int, int], level: int) -> None:
    """Half of the pixels one level brighter than the others, in stripes and in two blocks."""
    height, width = size
    pixels = np.arange(height * width).reshape(1, height, width, 1)
    for brighter in (pixels % 2 == 0, pixels < height * width / 2):
        images = level + brighter.astype(np.uint8)
        for factor in (LOW, HIGH):
            expected = unrounded_blend("Contrast", images, factor)
            assert abs(on_the_grid("Contrast", images, factor) - expected).max() <= MOST_FLOAT32_ERROR


def test_contrast_of_one_colour_whose_luma_lies_between_two_levels() -> None:
    colours = np.array([(0, 4, 168), (0, 8, 86), (0, 18, 131), (1, 9, 87), (1, 13, 5)], np.uint8)
    images = np.broadcast_to(colours[:, None, None], (len(colours), 4, 4, 3))
    for factor in (LOW, 0.3, HIGH):
        assert abs(by_hba("Contrast", images, factor) - by_pil("Contrast", images, factor)).max() <= 1
