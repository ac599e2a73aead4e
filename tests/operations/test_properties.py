"""What holds for every operation on any images: identities, ranges, shapes, and that images are left alone."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from random_inputs import eight_bit_images, magnitudes_for, positions, random_images
from torch import Tensor

from hba.operations import OPERATIONS, Operation, fill_for

ALL = tuple(OPERATIONS.values())
WITH_MAGNITUDE = tuple(operation for operation in ALL if operation.magnitude_range is not None)
GEOMETRIC = tuple(operation for operation in ALL if operation.interpolation is not None)
BILINEAR = tuple(operation.with_interpolation("bilinear") for operation in GEOMETRIC)
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

FLOATS = (torch.float32, torch.float64, torch.float16)

any_operation = st.sampled_from((*ALL, *BILINEAR))
any_size = st.tuples(st.integers(1, 12), st.integers(1, 12))
any_channels = st.sampled_from([1, 3])
any_seed = st.integers(0, 2**32 - 1)
any_float = st.sampled_from(FLOATS)


def operation_id(operation: Operation) -> str:
    return operation.name


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(WITH_MAGNITUDE), any_size, any_channels, any_seed, any_float)
def test_the_identity_magnitude_changes_no_8_bit_image(
    operation: Operation, size: tuple[int, int], channels: int, seed: int, dtype: torch.dtype
) -> None:
    images = eight_bit_images((2, channels, *size), seed, dtype)
    magnitude = torch.full((2,), IDENTITY[operation.name])
    changed = operation(images, magnitude, fill=fill_for(images, RED), position=positions(2, seed))
    assert changed.dtype == dtype
    assert torch.equal(changed, images)


@pytest.mark.parametrize("operation", GEOMETRIC, ids=operation_id)
def test_the_identity_of_what_moves_pixels_changes_no_image_at_all(operation: Operation) -> None:
    for dtype in FLOATS:
        images = random_images((3, 3, 65, 91), seed=1, dtype=dtype)
        for zero in (0.0, -0.0):
            assert torch.equal(operation(images, torch.full((3,), zero), fill=fill_for(images, RED)), images)


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


@settings(max_examples=300, deadline=None)
@given(any_operation, any_size, any_channels, any_seed, any_float)
def test_output_is_in_range_and_the_input_is_left_alone(
    operation: Operation, size: tuple[int, int], channels: int, seed: int, dtype: torch.dtype
) -> None:
    images = random_images((3, channels, *size), seed, dtype)
    magnitude, position = magnitudes_for(operation, 3, seed), positions(3, seed)
    assert_fits(operation, images, magnitude, position)


@settings(max_examples=100, deadline=None)
@given(any_operation, any_size, any_channels, any_seed)
def test_output_is_in_range_at_both_ends_of_the_magnitudes(
    operation: Operation, size: tuple[int, int], channels: int, seed: int
) -> None:
    low, high = operation.magnitude_range or (0.0, 0.0)
    ends = [low, high, -low, -high] if operation.signed else [low, high]
    images = random_images((len(ends), channels, *size), seed)
    assert_fits(operation, images, torch.tensor(ends), positions(len(ends), seed))


@pytest.mark.parametrize("level", [0.0, 1.0])
@pytest.mark.parametrize("operation", ALL, ids=operation_id)
def test_black_and_white_images_stay_in_range(operation: Operation, level: float) -> None:
    assert_one_level_fits(operation, level)


def test_means_of_white_pixels_stay_in_range() -> None:
    for operation in BILINEAR:
        assert_one_level_fits(operation, 1.0)


def assert_one_level_fits(operation: Operation, level: float) -> None:
    for side in (7, 29, 32, 65):
        images = torch.full((20, 3, side, side + 6), level)
        assert_fits(operation, images, magnitudes_for(operation, 20, side), positions(20, side))


def assert_fits(operation: Operation, images: Tensor, magnitude: Tensor, position: Tensor) -> None:
    """The result is like the images, which stay as they are."""
    given_tensors = (images, magnitude, position, fill_for(images, RED))
    before = [tensor.clone() for tensor in given_tensors]
    result = operation(images, magnitude, fill=given_tensors[3], position=position)
    assert (result.dtype, result.shape, result.device) == (images.dtype, images.shape, images.device)
    assert result.isfinite().all()
    assert result.min() >= 0
    assert result.max() <= 1
    assert all(torch.equal(*pair) for pair in zip(given_tensors, before, strict=True))


@pytest.mark.parametrize("operation", [*ALL, *BILINEAR], ids=operation_id)
def test_float16_is_within_its_own_rounding_of_float64(operation: Operation) -> None:
    """A last bit of float16 is up to 1/8 grey level; a blend rounds a few times. A smoothed level may be another."""
    images = eight_bit_images((30, 3, 40, 65), seed=7, dtype=torch.float64)
    magnitude, position = magnitudes_for(operation, 30, seed=7), positions(30, seed=7)
    exact, half = (
        operation(given, magnitude, fill=fill_for(given, RED), position=position) for given in (images, images.half())
    )
    most = 1.5 if operation.name == "Sharpness" else 0.6
    assert 255 * float((half.double() - exact).abs().max()) <= most


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "channels last": lambda images: images.contiguous(memory_format=torch.channels_last),
    "every other pixel": lambda images: images.repeat_interleave(2, dim=3)[..., ::2],
    "columns first": lambda images: images.transpose(2, 3).contiguous().transpose(2, 3),
    "batch last": lambda images: images.permute(1, 2, 3, 0).contiguous().permute(3, 0, 1, 2),
}


@pytest.mark.parametrize("operation", [*ALL, *BILINEAR], ids=operation_id)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_how_images_lie_in_memory_does_not_matter(operation: Operation, layout: str) -> None:
    images = eight_bit_images((4, 3, 9, 14), seed=6)
    magnitude, position = magnitudes_for(operation, 4, seed=6), positions(4, seed=6)
    expected = operation(images, magnitude, fill=fill_for(images, RED), position=position)
    other = LAYOUTS[layout](images)
    assert other.stride() != images.stride()
    result = operation(other, magnitude, fill=fill_for(images, RED), position=position)
    torch.testing.assert_close(result, expected, atol=1e-6, rtol=0)
    assert torch.equal(other, images)


@pytest.mark.parametrize("operation", [*ALL, *BILINEAR], ids=operation_id)
@pytest.mark.parametrize("channels", [1, 3])
def test_no_images_give_no_images(operation: Operation, channels: int) -> None:
    images = torch.zeros(0, channels, 7, 5)
    magnitude, position = torch.zeros(0), torch.zeros(0, 2)
    assert operation(images, magnitude, fill=fill_for(images, RED), position=position).shape == images.shape


@pytest.mark.parametrize("operation", ALL, ids=operation_id)
def test_the_result_shares_no_memory_with_the_images(operation: Operation) -> None:
    for shape in ((1, 3, 8, 8), (1, 1, 2, 2), (1, 1, 1, 5)):
        images = random_images(shape, seed=3)
        before = images.clone()
        result = operation(images, torch.tensor([IDENTITY.get(operation.name, 0.0)]))
        result.fill_(0.123)
        assert torch.equal(images, before)


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
