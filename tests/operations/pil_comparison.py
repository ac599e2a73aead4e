"""8-bit images to compare hba with PIL on, and what each of the two makes of them.

8-bit images of one size are a uint8 array (B, H, W, C); hba sees them as one batch (B,
C, H, W) of floats in [0, 1]. Magnitudes are float32 numbers, one for all images or one
for each; PIL gets the same numbers.
"""

import functools
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from sklearn.datasets import load_sample_images

from hba.operations import OPERATIONS, Operation

Levels = NDArray[np.uint8]
Results = NDArray[np.int64]
Magnitudes = NDArray[np.float32]

SIZES = (
    (32, 32),
    (33, 33),
    (16, 24),
    (6, 10),
    (65, 91),
    (3, 3),
    (2, 5),
    (1, 29),
    (29, 1),
    (1, 1),
)


def noise(height: int, width: int, channels: int, n_images: int = 1) -> Levels:
    """Every pixel another level, so that one taken from the wrong place shows."""
    rng = np.random.default_rng(height * 1000 + width)
    return rng.integers(0, 256, (n_images, height, width, channels), dtype=np.uint8)


@functools.cache
def noise_of_every_size() -> tuple[Levels, ...]:
    return tuple(noise(*size, channels) for size in SIZES for channels in (1, 3))


def adversarial(height: int, width: int, channels: int) -> Levels:
    """Images with histograms that the rules for photographs do not cover."""
    rng = np.random.default_rng(height * 1000 + width)
    shape = (height, width, channels)
    one_pixel_apart = np.full(shape, 100, np.uint8)
    one_pixel_apart[0, 0] = 200
    return np.stack(
        [
            *(np.full(shape, level, np.uint8) for level in (0, 1, 127, 254, 255)),
            np.broadcast_to(np.array([17, 128, 240][:channels], np.uint8), shape),
            one_pixel_apart,
            (rng.random(shape) < 0.5).astype(np.uint8) * 255,
            77 + (rng.random(shape) < 0.1).astype(np.uint8),
            rng.integers(0, 256, shape, dtype=np.uint8),
            rng.integers(0, 9, shape, dtype=np.uint8),
            rng.choice(np.array([3, 90, 255], np.uint8), shape, p=(0.05, 0.05, 0.9)),
        ]
    )


@functools.cache
def photographs() -> tuple[Levels, ...]:
    """Pieces of the two photographs that ship with scikit-learn, coloured and grey."""
    whole: Levels = np.stack(load_sample_images().images)
    pieces = [
        np.concatenate(
            [
                whole[:, top : top + height, left : left + width]
                for top, left in ((0, 0), (190, 270))
            ]
        )
        for height, width in ((32, 32), (45, 71), (224, 224))
    ]
    grey = [
        np.stack([np.asarray(Image.fromarray(image).convert("L")) for image in piece])[
            ..., None
        ]
        for piece in pieces
    ]
    return (*pieces, *grey)


@functools.cache
def any_images() -> tuple[Levels, ...]:
    """Adversarial images of all sizes and pieces of photographs, grey and coloured."""
    return (
        *(adversarial(*size, channels) for size in SIZES for channels in (1, 3)),
        *photographs(),
    )


def fill_of(images: Levels) -> tuple[int, ...]:
    return (31, 158, 207)[: images.shape[3]]


def magnitudes_within(low: float, high: float, count: int, seed: int) -> Magnitudes:
    """Both ends and uniform numbers between them."""
    inside = np.random.default_rng(seed).uniform(low, high, max(0, count - 2))
    return np.array([low, high, *inside], dtype=np.float32)[-count:]


def by_pil(
    operation: str | Operation, images: Levels, magnitude: float | Magnitudes = 0.0
) -> Results:
    """By the PIL call that defines the operation (hba/operations/on_pil.py)."""
    operation = OPERATIONS[operation] if isinstance(operation, str) else operation
    results = []
    for image, number in zip(images, one_for_each(images, magnitude), strict=True):
        picture = Image.fromarray(image[:, :, 0] if image.shape[2] == 1 else image)
        result = operation.apply_to_pil(
            picture, float(number), fill_of(images), (0.5, 0.5)
        )
        results.append(np.asarray(result).reshape(image.shape))
    return np.stack(results).astype(np.int64)


def by_hba(
    operation: str | Operation,
    images: Levels,
    magnitude: float | Magnitudes | None = None,
) -> Results:
    """Grey levels."""
    return on_the_grid(operation, images, magnitude).round().astype(np.int64)


def on_the_grid(
    operation: str | Operation,
    images: Levels,
    magnitude: float | Magnitudes | None = None,
    positions: Sequence[tuple[float, float]] | None = None,
) -> NDArray[np.float64]:
    """What hba gives, in grey levels and not rounded to whole ones; positions are one
    for each image.
    """
    operation = OPERATIONS[operation] if isinstance(operation, str) else operation
    result = operation(
        torch.from_numpy(images.copy()).permute(0, 3, 1, 2).float() / 255,
        (
            None
            if magnitude is None
            else torch.from_numpy(one_for_each(images, magnitude))
        ),
        fill=torch.tensor(fill_of(images)) / 255,
        position=None if positions is None else torch.tensor(positions),
    )
    levels: NDArray[np.float64] = result.permute(0, 2, 3, 1).double().mul(255).numpy()
    return levels


def one_for_each(images: Levels, magnitude: float | Magnitudes) -> Magnitudes:
    return np.broadcast_to(np.asarray(magnitude, dtype=np.float32), len(images)).copy()
