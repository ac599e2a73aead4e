"""Arrays of bytes, held against PIL, byte by byte."""

import itertools

import numpy as np
import pytest
import torch
from mixed_draws import OWN
from numpy.typing import NDArray
from PIL import Image
from random_inputs import magnitudes_for

from hba.operations import OPERATIONS
from hba.packed import apply_to_array
from hba.policy.single_image import OpSample, apply_to_pil

ALL = tuple(OPERATIONS.values())
FILLS = {1: ((0.5,), (0.2,)), 3: ((0.5, 0.5, 0.5), (0.1, 0.51, 0.9))}

Bytes = NDArray[np.uint8]


def random_array(channels: int, height: int, width: int, seed: int) -> Bytes:
    """Of any levels, or for odd seeds of a narrow range of them."""
    rng = np.random.default_rng(seed)
    levels = rng.integers(0, 256, (height, width, channels))
    return (levels // 8 + rng.integers(0, 220) if seed % 2 else levels).astype(np.uint8)


def by_pil(drawn: list[OpSample], pixels: Bytes, fill: tuple[float, ...]) -> Bytes:
    image = Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
    return np.array(apply_to_pil(drawn, image, fill)).reshape(pixels.shape)


def drawn_at_random(names: tuple[int, ...], seed: int) -> list[OpSample]:
    rng = np.random.default_rng(seed)
    magnitudes = [float(magnitudes_for(ALL[name], 1, seed + step)) for step, name in enumerate(names)]
    places = rng.random((len(names), 2)).tolist()
    return [
        OpSample(ALL[name], magnitude, (x, y))
        for name, magnitude, (x, y) in zip(names, magnitudes, places, strict=True)
    ]


@pytest.mark.parametrize("channels", [1, 3])
def test_any_two_operations_give_what_pil_gives(channels: int) -> None:
    changed = 0
    for seed, names in enumerate(itertools.product(range(len(ALL)), repeat=2)):
        for height, width in ((17, 12), (1, 1), (1, 6), (2, 3)):
            pixels, drawn = random_array(channels, height, width, seed), drawn_at_random(names, 10 * seed)
            before = pixels.copy()
            for fill in FILLS[channels]:
                result = apply_to_array(drawn, pixels, fill)
                assert result is not None
                np.testing.assert_array_equal(result, by_pil(drawn, pixels, fill), err_msg=str(drawn))
            np.testing.assert_array_equal(pixels, before)
            changed += not np.array_equal(by_pil(drawn, pixels, FILLS[channels][1]), pixels)
    assert changed > 600


def test_up_to_four_operations_on_a_larger_image() -> None:
    rng = np.random.default_rng(0)
    for seed in range(150):
        drawn = drawn_at_random(tuple(rng.integers(0, len(ALL), seed % 5)), 100 * seed)
        pixels = random_array(3, 70, 95, seed)
        result = apply_to_array(drawn, pixels, FILLS[3][1])
        assert result is not None
        np.testing.assert_array_equal(result, by_pil(drawn, pixels, FILLS[3][1]), err_msg=str(drawn))


@pytest.mark.parametrize("channels", [1, 3])
def test_a_view_or_what_must_not_be_written_is_as_good(channels: int) -> None:
    drawn = drawn_at_random((4, 6), seed=1)
    whole = random_array(channels, 20, 24, seed=2)
    view = whole[::2, ::-1]
    expected = by_pil(drawn, np.ascontiguousarray(view), FILLS[channels][0])
    np.testing.assert_array_equal(apply_to_array(drawn, view, FILLS[channels][0]), expected)
    whole.flags.writeable = False
    result = apply_to_array(drawn, whole, FILLS[channels][0])
    assert result is not None
    assert result.flags.writeable
    np.testing.assert_array_equal(result, by_pil(drawn, whole, FILLS[channels][0]))


def test_a_gray_array_keeps_its_shape() -> None:
    pixels, drawn = random_array(1, 9, 7, seed=3), drawn_at_random((0, 3), seed=4)
    flat = apply_to_array(drawn, pixels[:, :, 0], (0.5,))
    assert flat is not None
    assert flat.shape == (9, 7)
    np.testing.assert_array_equal(flat[:, :, None], apply_to_array(drawn, pixels, (0.5,)))


def test_an_operation_without_a_code_is_not_for_kernels() -> None:
    pixels = random_array(3, 8, 8, seed=5)
    assert apply_to_array([OpSample(OWN[0], 3.0, (0.5, 0.5))], pixels, FILLS[3][0]) is None
    turned = ALL[4].with_interpolation("bilinear")
    assert apply_to_array([OpSample(turned, 10.0, (0.5, 0.5))], pixels, FILLS[3][0]) is None


def test_the_fill_of_a_batch_and_that_of_an_array_are_the_same_level() -> None:
    """127.5 is 128 in both, as PIL's round() has it."""
    pixels = np.zeros((4, 4, 3), np.uint8)
    away = [OpSample(OPERATIONS["TranslateX"], 0.45, (0.5, 0.5))]
    result = apply_to_array(away, pixels, (0.5, 0.5, 0.5))
    assert result is not None
    assert set(result.ravel().tolist()) == {0, 128}
    assert torch.tensor(127.5).round() == 128
