"""Computing only the drawn images, as on a CPU, and all images, as on a GPU, give the same pixels.

The second way is taken on a CPU where a program is being compiled.
"""

from collections.abc import Callable

import pytest
import torch
from mixed_draws import OWN, SPACES, draw_of_one, fill_of, mixed_draw, random_values, rows_of, space_of_one
from random_inputs import eight_bit_images, random_images, seeded
from torch import Tensor

from hba.operations import OPERATIONS, Operation
from hba.policy.draw import BatchSample, apply_operations, draw_operations
from hba.policy.module import Policy
from hba.policy.space import SearchSpace

N_IMAGES = 150
ALL = (*OPERATIONS.values(), *OWN)

Images = Callable[[tuple[int, ...], int, torch.dtype], Tensor]
BothPaths = Callable[[SearchSpace, BatchSample, Tensor], tuple[Tensor, Tensor]]


@pytest.fixture
def both_paths(monkeypatch: pytest.MonkeyPatch) -> BothPaths:
    """What a draw makes of images, by computing only the drawn images and by computing all."""

    def apply(space: SearchSpace, draw: BatchSample, images: Tensor) -> tuple[Tensor, Tensor]:
        own = apply_operations(space, draw, images, fill_of(images))
        with monkeypatch.context() as patched:
            patched.setattr(torch.compiler, "is_compiling", lambda: True)
            return own, apply_operations(space, draw, images, fill_of(images))

    return apply


@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("make_images", [eight_bit_images, random_images])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_both_give_the_same_pixels(
    name: str, channels: int, make_images: Images, dtype: torch.dtype, both_paths: BothPaths
) -> None:
    space = SPACES[name]
    images = make_images((N_IMAGES, channels, 9, 11), 17, dtype)
    before = images.clone()
    own, fixed = both_paths(space, mixed_draw(space, N_IMAGES, seed=18), images)
    assert own.dtype == fixed.dtype == dtype
    assert torch.equal(own, fixed)
    assert torch.equal(images, before)
    assert not torch.equal(own, images)


@pytest.mark.parametrize("size", [(1, 1), (1, 8), (8, 1), (2, 5), (32, 32)])
def test_both_give_the_same_pixels_for_images_of_any_size(size: tuple[int, int], both_paths: BothPaths) -> None:
    for seed, space in enumerate(SPACES.values()):
        images = random_images((N_IMAGES, 3, *size), seed)
        own, fixed = both_paths(space, mixed_draw(space, N_IMAGES, seed + 100), images)
        assert torch.equal(own, fixed)


@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("channels", [1, 3])
def test_both_are_the_drawn_operations_one_after_the_other(name: str, channels: int, both_paths: BothPaths) -> None:
    """Image by image and step by step, each operation called on its own."""
    space = SPACES[name]
    images = random_images((N_IMAGES, channels, 12, 10), seed=32)
    draw = mixed_draw(space, N_IMAGES, seed=33)
    expected = torch.cat([step_by_step(space, rows_of(draw, one), images[one]) for one in each_of(N_IMAGES)])
    for result in both_paths(space, draw, images):
        assert torch.equal(result, expected)


def each_of(count: int) -> list[slice]:
    return [slice(i, i + 1) for i in range(count)]


def step_by_step(space: SearchSpace, draw: BatchSample, image: Tensor) -> Tensor:
    """What a draw for one image (1, C, H, W) makes of it."""
    for step, slot in enumerate(draw.slots[0].tolist()):
        if slot >= 0:
            operation = space.operations[slot // space.copies]
            image = operation(image, draw.magnitudes[:, step], fill=fill_of(image), position=draw.positions[:, step])
    return image


@pytest.mark.parametrize("operation", ALL, ids=lambda operation: operation.name)
@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
def test_both_are_the_operation_itself_where_all_images_get_it(
    operation: Operation, interpolation: str, both_paths: BothPaths
) -> None:
    operation = operation.with_interpolation(interpolation)
    images = random_images((40, 3, 10, 13), seed=19)
    draw = draw_of_one(operation, 40, seed=20)
    expected = operation(images, draw.magnitudes[:, 0], fill=fill_of(images), position=draw.positions[:, 0])
    for result in both_paths(space_of_one(operation), draw, images):
        assert torch.equal(result, expected)


@pytest.mark.parametrize("name", SPACES)
def test_images_that_get_nothing_are_the_same_bit_by_bit(name: str, both_paths: BothPaths) -> None:
    space = SPACES[name]
    images = random_images((N_IMAGES, 3, 9, 11), seed=21)
    draw = mixed_draw(space, N_IMAGES, seed=22)
    nothing = (draw.slots < 0).all(dim=1)
    for result in both_paths(space, draw, images):
        assert torch.equal(result[nothing], images[nothing])


@pytest.mark.parametrize("end", [0, 1])
@pytest.mark.parametrize("name", SPACES)
def test_both_ends_of_the_ranges(name: str, end: int, both_paths: BothPaths) -> None:
    space = SPACES[name]
    values = torch.tensor(space.ranges)[:, end]
    values[[column.endswith("probability") for column in space.names]] = 0.5
    draw = draw_operations(space, values, N_IMAGES, seeded(23))
    own, fixed = both_paths(space, draw, eight_bit_images((N_IMAGES, 3, 12, 8), seed=24))
    assert torch.equal(own, fixed)


@pytest.mark.parametrize("name", SPACES)
def test_no_images_give_no_images(name: str, both_paths: BothPaths) -> None:
    space = SPACES[name]
    draw = draw_operations(space, random_values(space, 1, seed=25), 0, seeded(26))
    for result in both_paths(space, draw, torch.zeros(0, 3, 7, 5)):
        assert result.shape == (0, 3, 7, 5)


@pytest.mark.parametrize("name", SPACES)
def test_images_that_ask_for_a_gradient_get_none(name: str, both_paths: BothPaths) -> None:
    space = SPACES[name]
    images = random_images((N_IMAGES, 3, 6, 7), seed=34)
    draw = mixed_draw(space, N_IMAGES, seed=35)
    expected, _ = both_paths(space, draw, images)
    for result in both_paths(space, draw, images.requires_grad_()):
        assert not result.requires_grad
        assert torch.equal(result, expected)


def test_a_space_that_never_does_anything_gives_copies(both_paths: BothPaths) -> None:
    space = SearchSpace(count_probabilities=(1.0,))
    images = random_images((4, 3, 6, 6), seed=27)
    before = images.clone()
    for result in both_paths(space, draw_operations(space, random_values(space, 1, seed=28), 4), images):
        assert torch.equal(result, images)
        result.zero_()
        assert torch.equal(images, before)


def test_one_computes_the_drawn_images_only_and_the_other_all(both_paths: BothPaths) -> None:
    """Otherwise both tests would run the same code."""
    batches: list[int] = []

    def record(images: Tensor) -> Tensor:
        batches.append(len(images))
        return images / 2

    space = SearchSpace((Operation("Record", record), *OPERATIONS.values()), count_probabilities=(0.0, 1.0))
    draw = mixed_draw_with_one_step(space)
    both_paths(space, draw, random_images((N_IMAGES, 1, 5, 5), seed=29))
    assert batches == [int((draw.slots // space.copies == 0).sum()), N_IMAGES]


def mixed_draw_with_one_step(space: SearchSpace) -> BatchSample:
    return draw_operations(space, random_values(space, N_IMAGES, seed=30), N_IMAGES, seeded(31))


def test_the_strict_operations_do_refuse_magnitudes_of_others() -> None:
    """Without this no test would see a magnitude of Rotate reach them."""
    for operation in OWN[:2]:
        for magnitude in (0.0, 30.0, -0.8, 256.0):
            with pytest.raises(AssertionError):
                Policy(space_of_one(operation), torch.tensor([1.0, magnitude]))(torch.zeros(2, 3, 4, 4))
