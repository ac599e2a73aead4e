"""Shear, translate and rotate with the nearest pixel show PIL's pixels, ties between two pixels included."""

import functools

import numpy as np
import pytest
import torch
from PIL import Image
from pil_comparison import (
    PHOTO_SIZES,
    SMALL_SIZES,
    Levels,
    Magnitudes,
    by_hba,
    by_pil,
    every_size,
    fill_of,
    magnitudes_within,
    noise,
    photo_like,
    share_of_different_pixels,
)

from hba.operations import OPERATIONS
from hba.operations.resample import Maps, warp

HIGHEST = {"ShearX": 0.3, "ShearY": 0.3, "TranslateX": 0.45, "TranslateY": 0.45, "Rotate": 30.0}
TRANSLATIONS = ("TranslateX", "TranslateY")
SIZES = (*PHOTO_SIZES, *SMALL_SIZES, (32, 32), (33, 33), (6, 10), (10, 6))
# A pixel's centre falls between two pixels where (2 row + 1) factor is odd: odd over odd.
SHEARS_WITH_TIES = [p / q for q in (3, 5, 7, 9, 11, 13) for p in (1, 3) if p / q <= 0.34]
HALF_PIXELS = ((2, 0.25), (6, 0.25), (10, 0.25), (90, 0.25), (32, 3.5 / 32), (32, 13.5 / 32))
"""Lengths, and fractions of them that are half a pixel off a whole one exactly."""
SMALLEST = 2.0**-16
"""One unit of PIL's fractions."""


@functools.cache
def noise_of_every_size() -> tuple[Levels, ...]:
    return tuple(noise(*size, channels) for size in SIZES for channels in (1, 3))


def cycled(images: Levels, count: int) -> Levels:
    return images[np.arange(count) % len(images)]


def assert_equals_pil(name: str, images: Levels, magnitudes: Magnitudes) -> None:
    """Every magnitude on an image, in turn."""
    batch = cycled(images, len(magnitudes))
    np.testing.assert_array_equal(by_hba(name, batch, magnitudes), by_pil(name, batch, magnitudes))


def both_signs(magnitudes: list[float]) -> Magnitudes:
    return np.array([sign * magnitude for magnitude in magnitudes for sign in (1, -1)], dtype=np.float32)


def length_of(name: str, images: Levels) -> int:
    return images.shape[2] if name == "TranslateX" else images.shape[1]


@pytest.mark.parametrize("name", HIGHEST)
def test_any_magnitude_of_the_range_equals_pil(name: str) -> None:
    for seed, images in enumerate((*noise_of_every_size(), *every_size())):
        assert_equals_pil(name, images, magnitudes_within(-HIGHEST[name], HIGHEST[name], 40, seed))


@pytest.mark.parametrize("name", HIGHEST)
def test_magnitudes_of_the_size_of_pil_s_fractions_equal_pil(name: str) -> None:
    magnitudes = both_signs([0.0, 1e-30, *(SMALLEST * share for share in (0.25, 0.5, 0.75, 1, 1.5, 2.5, 100.5))])
    for images in noise_of_every_size():
        assert_equals_pil(name, images, magnitudes)


@pytest.mark.parametrize("name", ["ShearX", "ShearY"])
def test_factors_between_two_of_pil_s_fractions_equal_pil(name: str) -> None:
    """A factor that is rounded otherwise is off by a pixel in the end, in a few pixels of many images."""
    halves = np.random.default_rng(0).integers(0, int(HIGHEST[name] / SMALLEST), 300) + 0.5
    assert_equals_pil(name, noise(90, 90, 1), both_signs((halves * SMALLEST).tolist()))


@pytest.mark.parametrize("name", TRANSLATIONS)
def test_translations_by_whole_and_half_pixels_equal_pil(name: str) -> None:
    """As near to them as a float32 fraction of the side comes, on either side of the tie."""
    for images in noise_of_every_size():
        pixels = np.arange(-9, 10) / 2
        assert_equals_pil(name, images, (pixels / length_of(name, images)).astype(np.float32))


@pytest.mark.parametrize("name", TRANSLATIONS)
@pytest.mark.parametrize(("length", "fraction"), HALF_PIXELS)
def test_translations_by_exactly_half_a_pixel_equal_pil(name: str, length: int, fraction: float) -> None:
    images = noise(length, length, 3)
    assert_equals_pil(name, images, both_signs([fraction]))
    below, above = (by_pil(name, images, fraction * nudge) for nudge in (0.9999, 1.0001))
    assert share_of_different_pixels(below, above) > 0.4, "no tie: PIL itself decides alike on both sides"


@pytest.mark.parametrize("name", ["ShearX", "ShearY"])
def test_shears_with_ties_equal_pil(name: str) -> None:
    for images in noise_of_every_size():
        assert_equals_pil(name, images, both_signs(SHEARS_WITH_TIES))


def test_right_and_other_whole_angles_equal_pil() -> None:
    """The sines and cosines of multiples of 30, 45 and 90 degrees put centres between pixels."""
    angles = np.arange(-360, 361, 15).astype(np.float32)
    for images in noise_of_every_size():
        assert_equals_pil("Rotate", images, angles)


@pytest.mark.parametrize(("name", "highest"), [("ShearX", 3.0), ("ShearY", 3.0), ("Rotate", 400.0)])
def test_magnitudes_far_beyond_the_range_equal_pil(name: str, highest: float) -> None:
    """A range is for a search; a schedule written by hand may ask for more."""
    for seed, images in enumerate(noise_of_every_size()):
        assert_equals_pil(name, images, magnitudes_within(-highest, highest, 12, seed))


@pytest.mark.parametrize("name", TRANSLATIONS)
def test_a_translation_by_the_side_or_more_leaves_nothing_but_the_fill_colour(name: str) -> None:
    for images in noise_of_every_size():
        magnitudes = both_signs([1.0, 1.5, 40.0])
        assert_equals_pil(name, images, magnitudes)
        assert (by_hba(name, cycled(images, len(magnitudes)), magnitudes) == fill_of(images)).all()


@pytest.mark.parametrize("name", HIGHEST)
@pytest.mark.parametrize("share", [0.2, 0.6, 1.0])
def test_equality_means_something(name: str, share: float) -> None:
    """Most pixels differ where the direction is wrong, and some where a magnitude is off by little."""
    for seed, size in enumerate(PHOTO_SIZES):
        images = photo_like(*size, 3, seed)
        expected = by_pil(name, images, share * HIGHEST[name])
        assert share_of_different_pixels(by_pil(name, images, -share * HIGHEST[name]), expected) > 0.5
        assert share_of_different_pixels(by_pil(name, images, share * HIGHEST[name] * 1.25), expected) > 0


@pytest.mark.parametrize("name", ["TranslateX", "TranslateY"])
def test_very_long_images_are_moved_by_whole_pixels_too(name: str) -> None:
    """PIL leaves its fixed point at 32768 pixels; moves by whole pixels need none."""
    for shape in ((1, 1, 40_001, 3), (1, 2, 20_011, 1)):
        images = np.arange(np.prod(shape)).reshape(shape).astype(np.uint8)
        if name == "TranslateY":
            images = images.transpose(0, 2, 1, 3).copy()
        for magnitude in (0.25, -0.4001):
            np.testing.assert_array_equal(by_hba(name, images, magnitude), by_pil(name, images, magnitude))


@pytest.mark.parametrize("factor", [0.51, 0.77, 1.23, 1.47])
@pytest.mark.parametrize("size", PHOTO_SIZES)
def test_an_image_that_is_only_scaled_equals_pil(size: tuple[int, int], factor: float) -> None:
    """Its pixels are not those of a move by whole pixels. Factors of few digits have ties, which PIL's sums decide."""
    height, width = size
    centred = {"a": 1 / factor, "c": width / 2 * (1 - 1 / factor), "e": 1 / factor, "f": height / 2 * (1 - 1 / factor)}
    given = {"b": 0.0, "d": 0.0, **centred}
    image = noise(height, width, 1)[0, :, :, 0]
    maps = Maps.of({name: torch.tensor([number], dtype=torch.float64) for name, number in given.items()})
    result = warp(torch.from_numpy(image)[None, None].double(), maps, torch.zeros(1), "nearest")
    coefficients = tuple(given[name] for name in "abcdef")
    expected = Image.fromarray(image).transform((width, height), Image.Transform.AFFINE, coefficients)
    np.testing.assert_array_equal(result[0, 0].numpy(), np.asarray(expected))


def test_the_type_is_that_of_the_images_whatever_the_fill_has() -> None:
    images = torch.zeros(2, 3, 4, 4, dtype=torch.float64)
    assert OPERATIONS["Rotate"](images, torch.full((2,), 9.0), fill=torch.ones(3)).dtype == torch.float64
