"""AutoContrast, Equalize, Invert, Solarize and Posterize give PIL's grey levels on 8-bit images, all of them."""

import numpy as np
import pytest
from pil_comparison import by_hba, by_pil, every_size, magnitudes_within, photographs

WITHOUT_MAGNITUDE = ("AutoContrast", "Invert", "Equalize")
# 256 is the identity; thresholds between two levels, just below and just above one.
THRESHOLDS = (0.0, 0.4, 1.0, 16.0, 100.5, 127.99999, 128.0, 128.00002, 254.6, 255.0, 256.0)
# Rounded to a whole number, halves to the even one.
BITS = (0.0, 0.4, 0.5, 1.0, 1.5, 1.7, 2.0, 2.5, 3.3, 3.5, 4.0, 4.5, 5.0, 5.5, 6.6, 7.0, 7.5, 7.6, 8.0)


@pytest.mark.parametrize("name", WITHOUT_MAGNITUDE)
def test_operations_without_magnitude_equal_pil(name: str) -> None:
    for images in (*every_size(), *photographs()):
        np.testing.assert_array_equal(by_hba(name, images), by_pil(name, images))


@pytest.mark.parametrize(("name", "magnitudes"), [("Solarize", THRESHOLDS), ("Posterize", BITS)])
def test_operations_with_magnitude_equal_pil(name: str, magnitudes: tuple[float, ...]) -> None:
    for images in every_size():
        for magnitude in magnitudes:
            np.testing.assert_array_equal(by_hba(name, images, magnitude), by_pil(name, images, magnitude))


@pytest.mark.parametrize(("name", "high"), [("Solarize", 255), ("Posterize", 8)])
def test_any_magnitude_of_the_range_equals_pil(name: str, high: float) -> None:
    for seed, images in enumerate((*every_size(), *photographs())):
        magnitudes = magnitudes_within(0, high, max(2, len(images)), seed)[-len(images) :]
        np.testing.assert_array_equal(by_hba(name, images, magnitudes), by_pil(name, images, magnitudes))


@pytest.mark.parametrize("lowest", [0, 1, 2, 17, 100, 127, 128, 200, 254])
def test_autocontrast_equals_pil_for_every_brightest_level(lowest: int) -> None:
    """One truncation on the wrong side of a whole number is one grey level off."""
    highest = np.arange(lowest + 1, 256)
    levels = np.arange(256).clip(lowest, highest[:, None]).astype(np.uint8)
    images = levels[:, None, :, None]
    np.testing.assert_array_equal(by_hba("AutoContrast", images), by_pil("AutoContrast", images))


@pytest.mark.parametrize("pixels", [256, 383, 509, 510, 511, 512, 766])
def test_equalize_equals_pil_where_its_whole_numbers_overflow_the_levels(pixels: int) -> None:
    """With few more than 255 pixels a step is 1 or 2, and PIL's table goes beyond 255 before it is cut."""
    rng = np.random.default_rng(pixels)
    for n_levels in (2, 3, 40, 256):
        images = rng.integers(0, n_levels, (1, 1, pixels, 3), dtype=np.uint8)
        np.testing.assert_array_equal(by_hba("Equalize", images), by_pil("Equalize", images))
