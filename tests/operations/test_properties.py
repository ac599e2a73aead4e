"""What holds for every operation on any images: identities, ranges, shapes, and that
images are left alone.
"""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings, strategies as st
from random_inputs import (
    eight_bit_images,
    magnitudes_for,
    positions,
    random_images,
    seeded,
)
from torch import Tensor

from hba.operations import OPERATIONS, Operation
from hba.operations.apply import fill_for
from hba.operations.operation import MIXING
from hba.operations.stages import STAGED

ALL = tuple(OPERATIONS.values())
WITH_MAGNITUDE = tuple(
    operation for operation in ALL if operation.magnitude_range is not None
)
GEOMETRIC = tuple(operation for operation in ALL if operation.interpolation is not None)
BILINEAR = tuple(operation.with_interpolation("bilinear") for operation in GEOMETRIC)
RED = (0.8, 0.1, 0.3)
OF_256_LEVELS = ("AutoContrast", "Equalize", "Invert", "Jpeg", "Posterize", "Solarize")
"""As docs/operations.md lists them."""

any_size = st.tuples(st.integers(1, 12), st.integers(1, 12))
any_channels = st.sampled_from([1, 3])
any_seed = st.integers(0, 2**32 - 1)
any_float = st.sampled_from((torch.float32, torch.float64, torch.float16))


@settings(max_examples=50)
@given(st.sampled_from(WITH_MAGNITUDE), any_size, any_channels, any_seed, any_float)
def test_the_identity_magnitude_changes_no_8_bit_image(
    operation: Operation,
    size: tuple[int, int],
    channels: int,
    seed: int,
    dtype: torch.dtype,
) -> None:
    images = eight_bit_images((2, channels, *size), seed, dtype)
    assert operation.identity is not None
    magnitude = torch.full((2,), operation.identity)
    changed = operation(
        images, magnitude, fill=fill_for(images, RED), position=positions(2, seed)
    )
    assert changed.dtype == dtype
    assert torch.equal(changed, images)


@settings(max_examples=50)
@given(st.sampled_from((*ALL, *BILINEAR)), any_size, any_channels, any_seed, any_float)
def test_results_are_like_the_images_which_stay_as_they_are(
    operation: Operation,
    size: tuple[int, int],
    channels: int,
    seed: int,
    dtype: torch.dtype,
) -> None:
    low, high = operation.magnitude_range or (0.0, 0.0)
    ends = torch.tensor(
        [
            operation.draw_magnitude(end, number)
            for end in (low, high)
            for number in (0.0, 1.0)
        ]
    )
    for n, magnitude in ((3, magnitudes_for(operation, 3, seed)), (len(ends), ends)):
        images = random_images((n, channels, *size), seed, dtype)
        assert_fits(operation, images, magnitude, positions(n, seed))


def assert_fits(
    operation: Operation, images: Tensor, magnitude: Tensor, position: Tensor
) -> None:
    given_tensors = (images, magnitude, position, fill_for(images, RED))
    before = [tensor.clone() for tensor in given_tensors]
    result = operation(images, magnitude, fill=given_tensors[3], position=position)
    assert (result.dtype, result.shape, result.device) == (
        images.dtype,
        images.shape,
        images.device,
    )
    assert result.isfinite().all()
    assert result.min() >= 0
    assert result.max() <= 1
    assert all(torch.equal(*pair) for pair in zip(given_tensors, before, strict=True))


def test_float16_is_within_its_own_rounding_of_float64() -> None:
    """A last bit of float16 is up to 1/8 grey level; a blend rounds a few times. A
    smoothed level may be another.
    """
    images = eight_bit_images((30, 3, 40, 65), seed=7, dtype=torch.float64)
    for operation in (*ALL, *BILINEAR):
        magnitude = magnitudes_for(operation, 30, seed=7)
        position = positions(30, seed=7)
        exact, half = (
            operation(before, magnitude, fill=fill_for(before, RED), position=position)
            for before in (images, images.half())
        )
        most = 1.5 if operation.name == "Sharpness" else 0.6
        assert 255 * float((half.double() - exact).abs().max()) <= most, operation.name


@pytest.mark.parametrize(
    "name",
    [
        *OPERATIONS,
        *(name for name, staged in STAGED.items() if staged.stage != MIXING),
    ],
)
def test_operations_keep_more_than_256_levels_except_those_that_have_so_many(
    name: str,
) -> None:
    operation = {**OPERATIONS, **STAGED}[name]
    images = random_images((2, 3, 64, 64), seed=3)
    magnitude = magnitudes_for(operation, 2, seed=3)
    position = torch.rand(2, operation.n_uniforms, generator=seeded(3))
    changed = operation(
        images, magnitude, fill=fill_for(images, RED), position=position
    )
    n_levels = len(changed.unique())
    assert n_levels <= 256 if name in OF_256_LEVELS else n_levels > 1000


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "channels last": lambda images: images.contiguous(
        memory_format=torch.channels_last
    ),
    "every other pixel": lambda images: images.repeat_interleave(2, dim=3)[..., ::2],
    "columns first": lambda images: images.transpose(2, 3).contiguous().transpose(2, 3),
    "batch last": (
        lambda images: images.permute(1, 2, 3, 0).contiguous().permute(3, 0, 1, 2)
    ),
}


def test_layout_in_memory_grey_channels_and_shared_memory_do_not_matter() -> None:
    images = eight_bit_images((4, 3, 9, 14), seed=6)
    gray = eight_bit_images((4, 1, 15, 11), seed=5)
    for operation in (*ALL, *BILINEAR):
        magnitude = magnitudes_for(operation, 4, seed=6)
        position = positions(4, seed=6)
        expected = operation(
            images, magnitude, fill=fill_for(images, RED), position=position
        )
        for layout in LAYOUTS.values():
            other = layout(images)
            assert other.stride() != images.stride()
            result = operation(
                other, magnitude, fill=fill_for(images, RED), position=position
            )
            torch.testing.assert_close(result, expected, atol=1e-6, rtol=0)
        of_gray = operation(
            gray, magnitude, fill=torch.tensor([0.4]), position=position
        )
        three = operation(
            gray.repeat(1, 3, 1, 1),
            magnitude,
            fill=torch.full((3,), 0.4),
            position=position,
        )
        torch.testing.assert_close(three, of_gray.expand_as(three), atol=1e-6, rtol=0)
        for shape in ((1, 3, 8, 8), (1, 1, 1, 5), (0, 3, 7, 5), (2, 3, 0, 5)):
            before_call = random_images(shape, seed=3)
            before = before_call.clone()
            result = operation(
                before_call, torch.full(shape[:1], operation.identity or 0.0)
            )
            assert result.shape == before_call.shape
            result.fill_(0.123)
            assert torch.equal(before_call, before), "no memory is shared"
