"""The operations against the PIL calls that define them, on 8-bit images.

Geometric operations with the nearest pixel, point operations and Cutout give PIL's grey
levels, all of them. Enhancers and bilinear interpolation are within one level: PIL cuts
what it computes down to whole levels, hba does not round.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageEnhance
from pil_comparison import (
    Levels,
    Magnitudes,
    any_images,
    by_hba,
    by_pil,
    fill_of,
    magnitudes_within,
    noise_of_every_size,
    on_the_grid,
    photographs,
)
from random_inputs import seeded

from hba.operations import OPERATIONS, Operation

HIGHEST = {
    "ShearX": 0.3,
    "ShearY": 0.3,
    "TranslateX": 0.45,
    "TranslateY": 0.45,
    "Rotate": 30.0,
}
POORER: Mapping[str, Callable[[Image.Image], Image.Image]] = {
    "Contrast": lambda image: ImageEnhance.Contrast(image).degenerate,
    "Color": lambda image: ImageEnhance.Color(image).degenerate,
    "Brightness": lambda image: ImageEnhance.Brightness(image).degenerate,
    "Sharpness": lambda image: ImageEnhance.Sharpness(image).degenerate,
}
LOW = 0.1
HIGH = 1.9
MOST_FLOAT32_ERROR = 0.001


def cycled(images: Levels, count: int) -> Levels:
    return images[np.arange(count) % len(images)]


def both_signs(magnitudes: list[float]) -> Magnitudes:
    return np.array(
        [sign * magnitude for magnitude in magnitudes for sign in (1, -1)],
        dtype=np.float32,
    )


def differs(name: str, images: Levels, magnitudes: Magnitudes) -> bool:
    """Whether hba's levels differ from PIL's for one of the magnitudes, each on an
    image in turn.
    """
    batch = cycled(images, len(magnitudes))
    return not np.array_equal(
        by_hba(name, batch, magnitudes), by_pil(name, batch, magnitudes)
    )


def test_geometric_operations_give_pil_s_pixels() -> None:
    """Any magnitude of the range and far beyond it, of the size of PIL's fractions
    (2^-16), and ties between pixels.
    """
    beyond = {
        "ShearX": 3.0,
        "ShearY": 3.0,
        "Rotate": 400.0,
        "TranslateX": 1.5,
        "TranslateY": 1.5,
    }
    small = both_signs(
        [
            0.0,
            1e-30,
            *(2.0**-16 * share for share in (0.25, 0.5, 0.75, 1, 1.5, 2.5, 100.5)),
        ]
    )
    # A pixel's centre falls between two pixels where (2 row + 1) factor is odd: odd
    # over odd.
    shears = [p / q for q in (3, 5, 7, 9, 11, 13) for p in (1, 3) if p / q <= 0.34]
    shifts = [share / 64 for share in range(1, 29)]
    turns = [0.0, 15.0, 30.0, 45.0, 90.0, 180.0, 270.0]
    ties = {
        "ShearX": shears,
        "ShearY": shears,
        "TranslateX": shifts,
        "TranslateY": shifts,
        "Rotate": turns,
    }
    wrong: list[tuple[Any, ...]] = []
    for name, highest in HIGHEST.items():
        for seed, images in enumerate(noise_of_every_size()):
            for magnitudes in (
                magnitudes_within(-highest, highest, 20, seed),
                magnitudes_within(-beyond[name], beyond[name], 8, seed),
                small,
                both_signs(ties[name]),
            ):
                if differs(name, images, magnitudes):
                    wrong.append((name, images.shape, magnitudes))
        for seed, images in enumerate(photographs()):
            if differs(name, images, magnitudes_within(-highest, highest, 6, seed)):
                wrong.append((name, images.shape, None))
    assert wrong == []


def test_very_long_images_give_pil_s_pixels() -> None:
    """PIL leaves its fixed point at 32768 pixels; moves by whole pixels need none."""
    for shape in ((1, 1, 40_001, 3), (1, 2, 20_011, 1)):
        images = np.arange(np.prod(shape)).reshape(shape).astype(np.uint8)
        for name, turned_images in (
            ("TranslateX", images),
            ("TranslateY", images.transpose(0, 2, 1, 3).copy()),
        ):
            assert not differs(
                name, turned_images, np.array([0.25, -0.4001], np.float32)
            )


def places(
    name: str, magnitude: float, height: int, width: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Where in the input each output pixel's centre lies, in pixels from the top left
    corner.
    """
    y, x = np.mgrid[:height, :width] + 0.5
    cos = math.cos(math.radians(magnitude))
    sin = math.sin(math.radians(magnitude))
    right = x - width / 2
    down = y - height / 2
    return {
        "ShearX": (x + magnitude * y, y),
        "ShearY": (x, y + magnitude * x),
        "TranslateX": (x + magnitude * width, y),
        "TranslateY": (x, y + magnitude * height),
        "Rotate": (
            cos * right - sin * down + width / 2,
            sin * right + cos * down + height / 2,
        ),
    }[name]


def on_the_edge(name: str, images: Levels, magnitudes: Magnitudes) -> NDArray[np.bool_]:
    """Pixels (B, H, W, 1) at a place on the edge of the image, where a float64's last
    bit decides for the fill.
    """
    height, width = images.shape[1:3]
    is_on_edge = []
    for magnitude in magnitudes.tolist():
        x, y = places(name, magnitude, height, width)
        is_on_edge.append(
            np.min([abs(x), abs(x - width), abs(y), abs(y - height)], axis=0) < 1e-9
        )
    return np.stack(is_on_edge)[..., None]


def by_pil_unrounded(
    operation: Operation, images: Levels, magnitudes: Magnitudes
) -> NDArray[np.float64]:
    """Channel by channel, in PIL's mode F, where it does not cut the mean down to whole
    levels.
    """
    result = np.empty(images.shape)
    for image, magnitude, shown in zip(
        images, magnitudes.tolist(), result, strict=True
    ):
        for channel, fill in enumerate(fill_of(images)):
            picture = Image.fromarray(image[:, :, channel].astype(np.float32))
            shown[:, :, channel] = np.asarray(
                operation.apply_to_pil(picture, magnitude, (fill,), (0.5, 0.5))
            )
    return result


def test_bilinear_operations_are_pil_s_means_within_one_level() -> None:
    wrong = []
    for name, highest in HIGHEST.items():
        bilinear = OPERATIONS[name].with_interpolation("bilinear")
        special = np.array([0.0, 0.5, -1.5, 7.5], np.float32) / (
            1 if name == "Rotate" else 32
        )
        for seed, images in enumerate((*noise_of_every_size(), *photographs()[:2])):
            magnitudes = np.concatenate(
                [special, magnitudes_within(-highest, highest, 8, seed)]
            )
            batch = cycled(images, len(magnitudes))
            ours = on_the_grid(bilinear, batch, magnitudes)
            edges = on_the_edge(name, batch, magnitudes)
            # Places are float32 numbers, relative to the image.
            far = abs(ours - by_pil_unrounded(bilinear, batch, magnitudes)) > 0.02
            far |= abs(ours.round() - by_pil(bilinear, batch, magnitudes)) > 1
            if (far & ~edges).any() or far.mean() > 0.02:
                wrong.append((name, images.shape))
        photo = photographs()[1]
        magnitude = highest * 0.61
        assert (
            abs(
                on_the_grid(name, photo, magnitude)
                - on_the_grid(bilinear, photo, magnitude)
            ).max()
            > 1
        )
    assert wrong == []


def point_cases() -> Iterator[tuple[str, Levels, list[float]]]:
    """Operation, images and magnitudes: thresholds beside a level, halves of bits."""
    thresholds = [
        0.0,
        0.4,
        1.0,
        16.0,
        100.5,
        127.99999,
        128.0,
        128.00002,
        254.6,
        255.0,
        256.0,
    ]
    bits = [0.0, 0.4, 0.5, 1.0, 1.5, 1.7, 2.5, 3.5, 4.0, 4.5, 5.5, 6.6, 7.0, 7.5, 8.0]
    for images in any_images():
        for name in ("AutoContrast", "Invert", "Equalize"):
            yield name, images, [0.0]
        yield "Solarize", images, thresholds
        yield "Posterize", images, bits
    # One truncation on the wrong side of a whole number is one grey level off.
    for lowest in (0, 1, 2, 17, 100, 127, 128, 200, 254):
        highest = np.arange(lowest + 1, 256)
        levels = np.arange(256).clip(lowest, highest[:, None]).astype(np.uint8)
        yield "AutoContrast", levels[:, None, :, None], [0.0]
    # With few more than 255 pixels a step is 1 or 2, and PIL's table goes beyond 255
    # before it is cut.
    for pixels in (256, 383, 509, 510, 511, 512, 766):
        rng = np.random.default_rng(pixels)
        for n_levels in (2, 3, 40, 256):
            yield (
                "Equalize",
                rng.integers(0, n_levels, (1, 1, pixels, 3), dtype=np.uint8),
                [0.0],
            )


def test_point_operations_give_pil_s_levels() -> None:
    wrong = []
    for name, images, magnitudes in point_cases():
        for magnitude in magnitudes:
            ours = by_hba(
                name, images, magnitude if OPERATIONS[name].magnitude_range else None
            )
            if not np.array_equal(ours, by_pil(name, images, magnitude)):
                wrong.append((name, images.shape, magnitude))
    assert wrong == []


def unrounded_blend(name: str, images: Levels, factor: float) -> NDArray[np.float64]:
    """factor image + (1 - factor) poorer, within 0 and 255; PIL makes the poorer image,
    and nothing else.
    """
    poorer = []
    for image in images:
        picture = Image.fromarray(image[:, :, 0] if image.shape[2] == 1 else image)
        poorer.append(
            np.asarray(POORER[name](picture), dtype=np.float64).reshape(image.shape)
        )
    blended: NDArray[np.float64] = (
        factor * images + (1 - factor) * np.stack(poorer)
    ).clip(0, 255)
    return blended


def test_enhancers_are_the_unrounded_blend_with_pil_s_poorer_image() -> None:
    wrong = []
    for name in POORER:
        for images in any_images():
            for factor in (LOW, 0.37, 1.0, 1.48, HIGH):
                ours = on_the_grid(name, images, factor)
                # PIL's grey image is rounded to whole levels, that of Color here is
                # not.
                most = (0.502 if name == "Color" else 0.0) * abs(
                    1 - factor
                ) + MOST_FLOAT32_ERROR
                if abs(ours - unrounded_blend(name, images, factor)).max() > most:
                    wrong.append((name, images.shape, factor))
                if abs(ours.round() - by_pil(name, images, factor)).max() > 1:
                    wrong.append((name, images.shape, -factor))
    assert wrong == []


def test_contrast_rounds_the_mean_and_the_luma_as_pil() -> None:
    """Half of the pixels one level brighter than the others; colours whose luma lies
    between two levels.
    """
    for height, width in ((4, 4), (64, 64), (427, 640)):
        pixels = np.arange(height * width).reshape(1, height, width, 1)
        for level in (0, 127, 254):
            images = level + (pixels % 2 == 0).astype(np.uint8)
            for factor in (LOW, HIGH):
                expected = unrounded_blend("Contrast", images, factor)
                assert (
                    abs(on_the_grid("Contrast", images, factor) - expected).max()
                    <= MOST_FLOAT32_ERROR
                )
    colours = np.array(
        [(0, 4, 168), (0, 8, 86), (0, 18, 131), (1, 9, 87), (1, 13, 5)], np.uint8
    )
    images = np.broadcast_to(colours[:, None, None], (len(colours), 4, 4, 3))
    for factor in (LOW, 0.3, HIGH):
        assert (
            abs(
                by_hba("Contrast", images, factor) - by_pil("Contrast", images, factor)
            ).max()
            <= 1
        )


def test_cutout_is_a_rectangle_of_pil() -> None:
    """Random sizes and places, and places on the borders between pixels as near as
    float32 numbers come.
    """
    generator = seeded(1)
    wrong = []
    for height, width in ((32, 32), (45, 71), (29, 10), (224, 224)):
        images = np.zeros((60, height, width, 3), np.uint8)
        sizes = torch.rand(60, generator=generator)
        at = torch.rand(60, 2, generator=generator)
        # Halves of a pixel are rounded as Python rounds the float32 number.
        sizes[:20] = (torch.arange(20) % min(height, width) + 0.5) / min(height, width)
        at[::2] = (at[::2] * torch.tensor([width, height])).floor() / torch.tensor(
            [width, height]
        )
        results = on_the_grid("Cutout", images, sizes.numpy(), at.tolist()).round()
        black = Image.new("RGB", (width, height))
        for image, size, (x, y) in zip(
            results, sizes.tolist(), at.tolist(), strict=True
        ):
            expected = OPERATIONS["Cutout"].apply_to_pil(
                black, size, fill_of(images), (x, y)
            )
            if not np.array_equal(image, np.asarray(expected)):
                wrong.append((height, width, size, x, y))
    assert wrong == []
