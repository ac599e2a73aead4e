"""What holds for every operation on any images: identities, ranges, shapes, and that images are left alone."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from hba.errors import SettingsError
from hba.operations import OPERATIONS, Operation, check_images, fill_for

ALL = tuple(OPERATIONS.values())
WITH_MAGNITUDE = tuple(operation for operation in ALL if operation.magnitude_range is not None)
# The magnitudes that change nothing.
IDENTITY = {
    "ShearX": 0.0,
    "ShearY": 0.0,
    "TranslateX": 0.0,
    "TranslateY": 0.0,
    "Rotate": 0.0,
    "Solarize": 256.0,
    "Posterize": 8.0,
    "Contrast": 1.0,
    "Color": 1.0,
    "Brightness": 1.0,
    "Sharpness": 1.0,
    "Cutout": 0.0,
}
RED = (0.8, 0.1, 0.3)

any_operation = st.sampled_from(ALL)
any_size = st.tuples(st.integers(1, 12), st.integers(1, 12))
any_channels = st.sampled_from([1, 3])
any_seed = st.integers(0, 2**32 - 1)


def operation_id(operation: Operation) -> str:
    return operation.name


def random_images(shape: Sequence[int], seed: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Uniform in [0, 1], not on the 8-bit grid, with some exact ends."""
    images = torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return (images * 1.2 - 0.1).clamp(0, 1).to(dtype)


def eight_bit_images(shape: Sequence[int], seed: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return random_images(shape, seed, dtype).mul(255).round() / 255


def magnitudes_for(operation: Operation, count: int, seed: int) -> Tensor:
    """Uniform over the range, with either sign for a signed operation."""
    low, high = operation.magnitude_range or (0.0, 0.0)
    rng = np.random.default_rng(seed)
    sign = rng.choice([-1.0, 1.0], count) if operation.signed else 1.0
    return torch.tensor(rng.uniform(low, high, count) * sign, dtype=torch.float32)


def positions(count: int, seed: int) -> Tensor:
    return torch.rand(count, 2, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("operation", WITH_MAGNITUDE, ids=operation_id)
def test_the_identity_magnitude_changes_no_8_bit_image(operation: Operation, dtype: torch.dtype) -> None:
    for shape in ((2, 3, 9, 14), (2, 1, 14, 9), (2, 3, 32, 32), (2, 1, 1, 7), (2, 3, 1, 1)):
        images = eight_bit_images(shape, seed=1, dtype=dtype)
        magnitude = torch.full((2,), IDENTITY[operation.name])
        changed = operation(images, magnitude, fill=fill_for(images, RED))
        torch.testing.assert_close(changed, images, atol=0, rtol=0)


def test_the_table_knows_the_identities() -> None:
    assert {operation.name: operation.identity for operation in WITH_MAGNITUDE} == IDENTITY


@pytest.mark.parametrize("operation", ALL, ids=operation_id)
def test_the_ends_of_the_range_change_an_image(operation: Operation) -> None:
    """The counterpart of the identities: no operation does nothing."""
    images = eight_bit_images((1, 3, 20, 20), seed=2)
    images[0, :, 0, 0] = 1.0  # Solarize at 255 inverts nothing but white.
    for end in operation.magnitude_range or (0.0,):
        if end != IDENTITY.get(operation.name):
            # Darkened for AutoContrast, which has nothing to stretch otherwise.
            given_images = images * 0.5 if operation.name == "AutoContrast" else images
            changed = operation(given_images, torch.tensor([end]), fill=fill_for(images, RED))
            assert not torch.equal(changed, given_images)


@settings(max_examples=250, deadline=None)
@given(any_operation, any_size, any_channels, any_seed, st.sampled_from([torch.float32, torch.float64]))
def test_output_is_in_range_and_the_input_is_left_alone(
    operation: Operation, size: tuple[int, int], channels: int, seed: int, dtype: torch.dtype
) -> None:
    images = random_images((3, channels, *size), seed, dtype)
    before = images.clone()
    magnitude = magnitudes_for(operation, 3, seed)
    magnitude_before = magnitude.clone()
    result = operation(images, magnitude, fill=fill_for(images, RED), position=positions(3, seed))
    assert result.dtype == dtype
    assert result.shape == images.shape
    assert result.isfinite().all()
    assert result.min() >= 0
    assert result.max() <= 1
    assert torch.equal(images, before)
    assert torch.equal(magnitude, magnitude_before)


@pytest.mark.parametrize("operation", ALL, ids=operation_id)
def test_the_result_shares_no_memory_with_the_images(operation: Operation) -> None:
    for shape in ((1, 3, 8, 8), (1, 1, 2, 2), (1, 1, 1, 5)):
        images = random_images(shape, seed=3)
        before = images.clone()
        result = operation(images, torch.tensor([IDENTITY.get(operation.name, 0.0)]))
        result.fill_(0.123)
        assert torch.equal(images, before)


@settings(max_examples=150, deadline=None)
@given(any_operation, any_size, any_channels, any_seed)
def test_a_batch_equals_its_images_one_by_one(
    operation: Operation, size: tuple[int, int], channels: int, seed: int
) -> None:
    images = eight_bit_images((5, channels, *size), seed)
    magnitude, position = magnitudes_for(operation, 5, seed), positions(5, seed)
    fill = fill_for(images, RED)
    together = operation(images, magnitude, fill=fill, position=position)
    for i in range(5):
        alone = operation(images[i : i + 1], magnitude[i : i + 1], fill=fill, position=position[i : i + 1])
        torch.testing.assert_close(together[i : i + 1], alone, atol=1e-6, rtol=0)


@pytest.mark.parametrize("operation", WITH_MAGNITUDE, ids=operation_id)
def test_each_image_of_a_batch_gets_its_own_magnitude(operation: Operation) -> None:
    """One image twice, once at the identity, once far from it: exactly the other must change."""
    images = eight_bit_images((1, 3, 24, 24), seed=4).repeat(2, 1, 1, 1)
    low, high = operation.magnitude_range or (0.0, 0.0)
    identity = IDENTITY[operation.name]
    far = high if identity < high and identity != 1.0 else low
    changed = operation(images, torch.tensor([identity, far]), fill=fill_for(images, RED))
    assert torch.equal(changed[0], images[0])
    assert not torch.equal(changed[1], images[1])


@pytest.mark.parametrize("operation", ALL, ids=operation_id)
def test_three_equal_channels_stay_equal_and_match_one_channel(operation: Operation) -> None:
    """A grey picture gives the same whether it is stored in one channel or three."""
    gray = eight_bit_images((4, 1, 15, 11), seed=5)
    magnitude, position = magnitudes_for(operation, 4, seed=5), positions(4, seed=5)
    one = operation(gray, magnitude, fill=torch.tensor([0.4]), position=position)
    three = operation(gray.repeat(1, 3, 1, 1), magnitude, fill=torch.full((3,), 0.4), position=position)
    torch.testing.assert_close(three, one.expand_as(three), atol=1e-6, rtol=0)


@pytest.mark.parametrize("name", ["ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate", "Cutout"])
def test_uncovered_pixels_have_the_fill_colour_and_black_without_one(name: str) -> None:
    operation = OPERATIONS[name]
    images = torch.ones(1, 3, 20, 20)
    magnitude = torch.tensor([(operation.magnitude_range or (0, 0))[1]])
    for fill, expected in ((torch.tensor(RED), torch.tensor(RED)), (None, torch.zeros(3))):
        pixels = operation(images, magnitude, fill=fill)[0].flatten(1).T
        uncovered = pixels[(pixels != 1).any(dim=1)]
        assert 10 < len(uncovered) < 200
        assert torch.equal(uncovered, expected.expand_as(uncovered))


def test_cutout_covers_the_square_of_its_position() -> None:
    """Side 0.2 of the shorter side 10 is 2 pixels, from one before the centre pixel; cut off at the borders."""
    images = torch.zeros(3, 1, 10, 20)
    position = torch.tensor([[0.5, 0.5], [0.0, 0.0], [0.999, 0.31]])
    result = OPERATIONS["Cutout"](images, torch.full((3,), 0.2), fill=torch.ones(1), position=position)
    expected = torch.zeros(3, 1, 10, 20)
    expected[0, 0, 4:6, 9:11] = 1
    expected[1, 0, 0:1, 0:1] = 1
    expected[2, 0, 2:4, 18:20] = 1
    assert torch.equal(result, expected)


@pytest.mark.parametrize(
    ("name", "magnitude", "expected"),
    [
        ("Rotate", 0.0, 0.0),
        ("Rotate", -30.0, 1.0),
        ("ShearX", 0.15, 0.5),
        ("Contrast", 1.0, 0.0),
        ("Contrast", 0.1, 1.0),
        ("Contrast", 1.9, 1.0),
        ("Brightness", 1.45, 0.5),
        ("Solarize", 0.0, 1.0),
        ("Solarize", 64.0, 0.75),
        ("Posterize", 8.0, 0.0),
        ("Posterize", 2.0, 0.75),
        ("Cutout", 0.05, 0.25),
        ("Invert", 0.0, 1.0),
    ],
)
def test_strength_is_the_distance_from_the_identity(name: str, magnitude: float, expected: float) -> None:
    assert math.isclose(OPERATIONS[name].strength(magnitude), expected, abs_tol=1e-12)


def test_a_range_that_allows_only_the_identity_has_no_strength() -> None:
    """A schedule file may narrow a range to one magnitude."""
    assert dataclasses.replace(OPERATIONS["Rotate"], magnitude_range=(0.0, 0.0)).strength(0.0) == 0.0


@pytest.mark.parametrize(
    ("images", "shown"),
    [
        (torch.zeros(3, 8, 8), r"float32 \(3, 8, 8\)"),
        (torch.zeros(1, 1, 3, 8, 8), r"\(1, 1, 3, 8, 8\)"),
        (torch.zeros(2, 2, 8, 8), r"\(2, 2, 8, 8\)"),
        (torch.zeros(2, 4, 8, 8), r"\(2, 4, 8, 8\)"),
        (torch.zeros(2, 8, 8, 3), r"\(2, 8, 8, 3\)"),
        (torch.zeros(2, 3, 8, 8, dtype=torch.uint8), r"uint8 \(2, 3, 8, 8\)"),
        (torch.zeros(2, 3, 8, 8, dtype=torch.int64), r"int64 \(2, 3, 8, 8\)"),
    ],
)
def test_images_of_another_shape_or_type_are_refused(images: Tensor, shown: str) -> None:
    message = rf"images must be floating point of shape \(B, C, H, W\) with C 1 or 3, got .*{shown}"
    with pytest.raises(SettingsError, match=message):
        check_images(images)
    with pytest.raises(SettingsError, match=message):
        OPERATIONS["Invert"](images)


@pytest.mark.parametrize("operation", WITH_MAGNITUDE, ids=operation_id)
@pytest.mark.parametrize(
    ("magnitude", "got"),
    [
        (None, "None"),
        (torch.tensor(0.1), r"\(\)"),
        (torch.zeros(1), r"\(1,\)"),
        (torch.zeros(3), r"\(3,\)"),
        (torch.zeros(2, 1), r"\(2, 1\)"),
    ],
)
def test_magnitudes_of_another_shape_are_refused(operation: Operation, magnitude: Tensor | None, got: str) -> None:
    message = rf"{operation.name} needs one magnitude per image, shape \(2,\), got {got}"
    with pytest.raises(SettingsError, match=message):
        operation(torch.zeros(2, 3, 8, 8), magnitude)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("channels", "color", "expected"),
    [
        (3, RED, RED),
        (1, (0.25,), (0.25,)),
        (3, (0.25,), (0.25, 0.25, 0.25)),
        (1, (1.0, 0.0, 0.0), (0.299,)),
        (1, (0.0, 1.0, 0.0), (0.587,)),
        (1, (0.0, 0.0, 1.0), (0.114,)),
    ],
)
def test_the_fill_colour_takes_the_channels_of_the_images(
    channels: int, color: tuple[float, ...], expected: tuple[float, ...], dtype: torch.dtype
) -> None:
    fill = fill_for(torch.zeros(2, channels, 4, 4, dtype=dtype), color)
    assert fill.dtype == dtype
    torch.testing.assert_close(fill, torch.tensor(expected, dtype=dtype))
