"""Each operation against the PIL call that defines it, on 8-bit images.

8-bit images are uint8 arrays (H, W, C); hba sees them as (1, C, H, W) floats in [0, 1].
"""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from pil_reference import PIL_REFERENCE, cutout

from hba.errors import SettingsError
from hba.operations import OPERATIONS, find_operation

Levels = NDArray[np.uint8]

PAPER_RANGES = {
    "ShearX": (0.0, 0.3),
    "ShearY": (0.0, 0.3),
    "TranslateX": (0.0, 0.45),
    "TranslateY": (0.0, 0.45),
    "Rotate": (0.0, 30.0),
    "AutoContrast": None,
    "Invert": None,
    "Equalize": None,
    "Solarize": (0.0, 255.0),
    "Posterize": (0.0, 8.0),
    "Contrast": (0.1, 1.9),
    "Color": (0.1, 1.9),
    "Brightness": (0.1, 1.9),
    "Sharpness": (0.1, 1.9),
    "Cutout": (0.0, 0.2),
}
"""Table 9 of the paper."""

GEOMETRIC = ("ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate")
ENHANCERS = ("Contrast", "Color", "Brightness", "Sharpness")
WITHOUT_MAGNITUDE = ("AutoContrast", "Invert", "Equalize")

PHOTO_SIZES = ((96, 96), (97, 131), (130, 75))
SMALL_SIZES = ((32, 32), (17, 23), (16, 24), (3, 3), (2, 5), (1, 29), (29, 1), (1, 1))
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
    """Smooth waves of random direction and length, different in each channel, with a little noise."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width]
    planes = []
    for _ in range(channels):
        plane = rng.normal(0, 0.05, (height, width))
        for _ in range(6):
            frequency_x, frequency_y = rng.normal(0, 0.06, 2)
            plane += np.sin(2 * np.pi * (frequency_x * x + frequency_y * y + rng.random()))
        planes.append(rng.uniform(90, 160) + rng.uniform(20, 45) * plane)
    return np.stack(planes, axis=2).clip(0, 255).round().astype(np.uint8)


def adversarial(height: int, width: int, channels: int) -> dict[str, Levels]:
    """Images with histograms that the rules for photographs do not cover."""
    rng = np.random.default_rng(height * 1000 + width)
    shape = (height, width, channels)
    constant = {f"constant {level}": np.full(shape, level, np.uint8) for level in (0, 1, 127, 254, 255)}
    by_channel = np.broadcast_to(np.array([17, 128, 240][:channels], np.uint8), shape).copy()
    one_pixel_apart = np.full(shape, 100, np.uint8)
    one_pixel_apart[0, 0] = 200
    return constant | {
        "one level per channel": by_channel,
        "black and white": (rng.random(shape) < 0.5).astype(np.uint8) * 255,
        "neighbouring levels": 77 + (rng.random(shape) < 0.1).astype(np.uint8),
        "one pixel apart": one_pixel_apart,
        "noise": rng.integers(0, 256, shape, dtype=np.uint8),
        "dark noise": rng.integers(0, 9, shape, dtype=np.uint8),
        "mostly brightest": rng.choice(np.array([3, 90, 255], np.uint8), shape, p=(0.05, 0.05, 0.9)),
    }


def every_image() -> list[Levels]:
    """Photo-like and adversarial images of all sizes, grey and coloured."""
    images = [photo_like(*size, channels, seed) for seed, size in enumerate(PHOTO_SIZES) for channels in (1, 3)]
    for size in SMALL_SIZES:
        for channels in (1, 3):
            images += [photo_like(*size, channels, seed=7), *adversarial(*size, channels).values()]
    return images


def fill_of(image: Levels) -> tuple[int, ...]:
    return (31, 158, 207)[: image.shape[2]]


def to_pil(image: Levels) -> Image.Image:
    return Image.fromarray(image[:, :, 0] if image.shape[2] == 1 else image)


def from_pil(image: Image.Image) -> Levels:
    levels = np.asarray(image)
    return levels[:, :, None] if levels.ndim == 2 else levels


def by_pil(name: str, image: Levels, magnitude: float = 0.0) -> NDArray[np.int64]:
    return from_pil(PIL_REFERENCE[name](to_pil(image), magnitude, fill_of(image))).astype(np.int64)


def by_hba(
    name: str, image: Levels, magnitude: float | None = None, position: tuple[float, float] | None = None
) -> NDArray[np.int64]:
    images = torch.from_numpy(image.copy()).permute(2, 0, 1)[None].float() / 255
    result = OPERATIONS[name](
        images,
        None if magnitude is None else torch.tensor([magnitude]),
        fill=torch.tensor(fill_of(image)) / 255,
        position=None if position is None else torch.tensor([position]),
    )
    levels: NDArray[np.int64] = result[0].permute(1, 2, 0).mul(255).round().long().numpy()
    return levels


def share_of_different_pixels(ours: NDArray[np.int64], pils: NDArray[np.int64]) -> float:
    return float((ours != pils).any(axis=2).mean())


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
    for image in every_image():
        np.testing.assert_array_equal(by_hba(name, image), by_pil(name, image))


@pytest.mark.parametrize("threshold", [0.0, 0.4, 1.0, 16.0, 100.5, 128.0, 254.6, 255.0, 256.0])
def test_solarize_equals_pil(threshold: float) -> None:
    for image in every_image():
        np.testing.assert_array_equal(by_hba("Solarize", image, threshold), by_pil("Solarize", image, threshold))


@pytest.mark.parametrize("bits", [0.0, 0.4, 1.0, 1.7, 2.0, 3.3, 4.0, 5.0, 6.6, 7.0, 7.6, 8.0])
def test_posterize_equals_pil(bits: float) -> None:
    for image in every_image():
        np.testing.assert_array_equal(by_hba("Posterize", image, bits), by_pil("Posterize", image, bits))


@pytest.mark.parametrize("name", ENHANCERS)
@pytest.mark.parametrize("factor", [0.1, 0.37, 0.9, 1.0, 1.23, 1.9])
def test_enhancers_are_within_one_grey_level_of_pil(name: str, factor: float) -> None:
    for image in every_image():
        assert abs(by_hba(name, image, factor) - by_pil(name, image, factor)).max() <= 1


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(("name", "magnitude"), GEOMETRIC_CASES)
def test_geometric_operations_equal_pil_except_ties(name: str, magnitude: float, channels: int) -> None:
    for seed, size in enumerate(PHOTO_SIZES):
        image = photo_like(*size, channels, seed)
        expected = by_pil(name, image, magnitude)
        assert share_of_different_pixels(by_hba(name, image, magnitude), expected) <= MOST_TIES
        # The bound means something only where a wrong direction would show.
        assert share_of_different_pixels(by_pil(name, image, -magnitude), expected) > 0.5


@pytest.mark.parametrize(("name", "magnitude"), GEOMETRIC_CASES)
def test_geometric_operations_equal_pil_on_small_images(name: str, magnitude: float) -> None:
    for size in SMALL_SIZES:
        for image in adversarial(*size, channels=3).values():
            expected = by_pil(name, image, magnitude)
            assert share_of_different_pixels(by_hba(name, image, magnitude), expected) <= MOST_TIES


@pytest.mark.parametrize("pixels", [1, 5, -3])
def test_translating_by_whole_pixels_equals_pil_everywhere(pixels: int) -> None:
    for image in every_image():
        for name, length in (("TranslateX", image.shape[1]), ("TranslateY", image.shape[0])):
            magnitude = pixels / length
            np.testing.assert_array_equal(by_hba(name, image, magnitude), by_pil(name, image, magnitude))


@pytest.mark.parametrize("size", [0.0, 0.011, 0.07, 0.133, 0.1999])
@pytest.mark.parametrize("position", [(0.5, 0.5), (0.0, 0.0), (0.999, 0.999), (0.03, 0.71), (0.62, 0.97)])
def test_cutout_equals_a_rectangle_of_pil(size: float, position: tuple[float, float]) -> None:
    for image in every_image():
        expected = from_pil(cutout(to_pil(image), size, fill_of(image), position))
        np.testing.assert_array_equal(by_hba("Cutout", image, size, position), expected)


def test_cutout_is_in_the_middle_unless_placed() -> None:
    for image in every_image():
        np.testing.assert_array_equal(by_hba("Cutout", image, 0.1999), by_pil("Cutout", image, 0.1999))
