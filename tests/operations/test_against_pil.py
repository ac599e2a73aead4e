"""Each operation against the PIL call that defines it, on 8-bit images.

8-bit images of one size are a uint8 array (B, H, W, C); hba sees them as one batch (B, C, H, W) of floats in [0, 1].
"""

import functools

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from paper_table import PAPER_RANGES
from PIL import Image
from pil_reference import PIL_REFERENCE, cutout

from hba.errors import SettingsError
from hba.operations import OPERATIONS, find_operation

Levels = NDArray[np.uint8]

GEOMETRIC = ("ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate")
ENHANCERS = ("Contrast", "Color", "Brightness", "Sharpness")
WITHOUT_MAGNITUDE = ("AutoContrast", "Invert", "Equalize")

PHOTO_SIZES = ((64, 64), (65, 91), (90, 51))
SMALL_SIZES = ((24, 24), (17, 23), (16, 24), (3, 3), (2, 5), (1, 29), (29, 1), (1, 1))
# Not round, so that hardly any sampled place falls on the border between two pixels.
GEOMETRIC_MAGNITUDES = {
    "ShearX": (0.0713, 0.1937, 0.2991),
    "ShearY": (0.0713, 0.1937, 0.2991),
    "TranslateX": (0.0379, 0.2113, 0.4437),
    "TranslateY": (0.0379, 0.2113, 0.4437),
    "Rotate": (3.137, 17.71, 29.39),
}
GEOMETRIC_CASES = [
    (name, sign * magnitude)
    for name, magnitudes in GEOMETRIC_MAGNITUDES.items()
    for magnitude in magnitudes
    for sign in (1, -1)
]
MOST_TIES = 0.005


def photo_like(height: int, width: int, channels: int, seed: int) -> Levels:
    """One image of smooth waves of random direction and length, different in each channel, with a little noise."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width]
    planes = []
    for _ in range(channels):
        plane = rng.normal(0, 0.05, (height, width))
        for _ in range(6):
            frequency_x, frequency_y = rng.normal(0, 0.06, 2)
            plane += np.sin(2 * np.pi * (frequency_x * x + frequency_y * y + rng.random()))
        planes.append(rng.uniform(90, 160) + rng.uniform(20, 45) * plane)
    levels: Levels = np.stack(planes, axis=2).clip(0, 255).round().astype(np.uint8)[None]
    return levels


def adversarial(height: int, width: int, channels: int) -> Levels:
    """Images with histograms that the rules for photographs do not cover."""
    rng = np.random.default_rng(height * 1000 + width)
    shape = (height, width, channels)
    one_level_per_channel = np.broadcast_to(np.array([17, 128, 240][:channels], np.uint8), shape)
    one_pixel_apart = np.full(shape, 100, np.uint8)
    one_pixel_apart[0, 0] = 200
    return np.stack(
        [
            *(np.full(shape, level, np.uint8) for level in (0, 1, 127, 254, 255)),
            one_level_per_channel,
            one_pixel_apart,
            (rng.random(shape) < 0.5).astype(np.uint8) * 255,
            77 + (rng.random(shape) < 0.1).astype(np.uint8),
            rng.integers(0, 256, shape, dtype=np.uint8),
            rng.integers(0, 9, shape, dtype=np.uint8),
            rng.choice(np.array([3, 90, 255], np.uint8), shape, p=(0.05, 0.05, 0.9)),
        ]
    )


@functools.cache
def every_size() -> tuple[Levels, ...]:
    """Photo-like and adversarial images of all sizes, grey and coloured."""
    photos = [photo_like(*size, channels, seed) for seed, size in enumerate(PHOTO_SIZES) for channels in (1, 3)]
    small = [
        np.concatenate([photo_like(*size, channels, seed=7), adversarial(*size, channels)])
        for size in SMALL_SIZES
        for channels in (1, 3)
    ]
    return (*photos, *small)


def fill_of(images: Levels) -> tuple[int, ...]:
    return (31, 158, 207)[: images.shape[3]]


def by_pil(
    name: str, images: Levels, magnitude: float = 0.0, position: tuple[float, float] | None = None
) -> NDArray[np.int64]:
    results = []
    for image in images:
        given = Image.fromarray(image[:, :, 0] if image.shape[2] == 1 else image)
        if position is None:
            result = PIL_REFERENCE[name](given, magnitude, fill_of(images))
        else:
            result = cutout(given, magnitude, fill_of(images), position)
        results.append(np.asarray(result).reshape(image.shape))
    return np.stack(results).astype(np.int64)


def by_hba(
    name: str, images: Levels, magnitude: float | None = None, position: tuple[float, float] | None = None
) -> NDArray[np.int64]:
    batch = torch.from_numpy(images.copy()).permute(0, 3, 1, 2).float() / 255
    result = OPERATIONS[name](
        batch,
        None if magnitude is None else torch.full((len(images),), magnitude),
        fill=torch.tensor(fill_of(images)) / 255,
        position=None if position is None else torch.tensor([position]).repeat(len(images), 1),
    )
    levels: NDArray[np.int64] = result.permute(0, 2, 3, 1).mul(255).round().long().numpy()
    return levels


def share_of_different_pixels(ours: NDArray[np.int64], pils: NDArray[np.int64]) -> float:
    return float((ours != pils).any(axis=3).mean())


def test_the_table_has_exactly_the_operations_of_the_paper() -> None:
    assert len(OPERATIONS) == 15
    assert set(OPERATIONS) == set(PAPER_RANGES) == set(PIL_REFERENCE)
    assert all(operation.name == name for name, operation in OPERATIONS.items())


@pytest.mark.parametrize("name", PAPER_RANGES)
def test_magnitude_ranges_are_those_of_the_paper(name: str) -> None:
    assert OPERATIONS[name].magnitude_range == PAPER_RANGES[name]


def test_exactly_the_geometric_operations_are_signed() -> None:
    assert {name for name, operation in OPERATIONS.items() if operation.signed} == set(GEOMETRIC)


@pytest.mark.parametrize("name", ["rotate", "ShearZ", ""])
def test_an_unknown_name_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(SettingsError, match=rf"unknown operation '{name}'; known: .*Rotate.*Cutout"):
        find_operation(name)


@pytest.mark.parametrize("name", WITHOUT_MAGNITUDE)
def test_operations_without_magnitude_equal_pil(name: str) -> None:
    for images in every_size():
        np.testing.assert_array_equal(by_hba(name, images), by_pil(name, images))


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


@pytest.mark.parametrize("threshold", [0.0, 0.4, 1.0, 16.0, 100.5, 128.0, 254.6, 255.0, 256.0])
def test_solarize_equals_pil(threshold: float) -> None:
    for images in every_size():
        np.testing.assert_array_equal(by_hba("Solarize", images, threshold), by_pil("Solarize", images, threshold))


@pytest.mark.parametrize("bits", [0.0, 0.4, 1.0, 1.7, 2.0, 3.3, 4.0, 5.0, 6.6, 7.0, 7.6, 8.0])
def test_posterize_equals_pil(bits: float) -> None:
    for images in every_size():
        np.testing.assert_array_equal(by_hba("Posterize", images, bits), by_pil("Posterize", images, bits))


@pytest.mark.parametrize("name", ENHANCERS)
@pytest.mark.parametrize("factor", [0.1, 0.37, 0.9, 1.0, 1.23, 1.9])
def test_enhancers_are_within_one_grey_level_of_pil(name: str, factor: float) -> None:
    for images in every_size():
        assert abs(by_hba(name, images, factor) - by_pil(name, images, factor)).max() <= 1


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(("name", "magnitude"), GEOMETRIC_CASES)
def test_geometric_operations_equal_pil_except_ties(name: str, magnitude: float, channels: int) -> None:
    for seed, size in enumerate(PHOTO_SIZES):
        images = photo_like(*size, channels, seed)
        expected = by_pil(name, images, magnitude)
        assert share_of_different_pixels(by_hba(name, images, magnitude), expected) <= MOST_TIES
        # The bound means something only where a wrong direction would show.
        assert share_of_different_pixels(by_pil(name, images, -magnitude), expected) > 0.5


@pytest.mark.parametrize(("name", "magnitude"), GEOMETRIC_CASES)
def test_geometric_operations_differ_from_pil_only_at_ties(name: str, magnitude: float) -> None:
    """A tie is a pixel where PIL itself decides otherwise for a magnitude 0.1 % away; it counts in 1 / 65536 pixels."""
    for size in SMALL_SIZES:
        images = adversarial(*size, channels=3)
        ours = by_hba(name, images, magnitude)
        neighbours = [by_pil(name, images, magnitude * nudge) for nudge in (1, 0.999, 1.001)]
        explained = [(ours == neighbour).all(axis=3) for neighbour in neighbours]
        assert np.logical_or.reduce(explained).all()


@pytest.mark.parametrize("pixels", [1, 5, -3])
def test_translating_by_whole_pixels_equals_pil_everywhere(pixels: int) -> None:
    for images in every_size():
        for name, length in (("TranslateX", images.shape[2]), ("TranslateY", images.shape[1])):
            magnitude = pixels / length
            np.testing.assert_array_equal(by_hba(name, images, magnitude), by_pil(name, images, magnitude))


@pytest.mark.parametrize("size", [0.0, 0.011, 0.07, 0.133, 0.1999])
@pytest.mark.parametrize("position", [(0.5, 0.5), (0.0, 0.0), (0.999, 0.999), (0.03, 0.71), (0.62, 0.97)])
def test_cutout_equals_a_rectangle_of_pil(size: float, position: tuple[float, float]) -> None:
    for images in every_size():
        expected = by_pil("Cutout", images, size, position)
        np.testing.assert_array_equal(by_hba("Cutout", images, size, position), expected)


def test_cutout_is_in_the_middle_unless_placed() -> None:
    for images in every_size():
        np.testing.assert_array_equal(by_hba("Cutout", images, 0.1999), by_pil("Cutout", images, 0.1999))
