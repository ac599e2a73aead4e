"""What happens to an image does not depend on the images beside it, nor on how a batch is cut into parts."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from mixed_draws import SPACES, fill_of, mixed_draw, rows_of
from random_inputs import eight_bit_images, magnitudes_for, positions, random_images
from torch import Tensor

from hba.operations import OPERATIONS, Operation
from hba.policy.draw import apply_operations
from hba.policy.module import Policy
from hba.policy.space import SearchSpace

N_IMAGES = 110

any_operation = st.sampled_from(tuple(OPERATIONS.values()))
any_size = st.tuples(st.integers(1, 12), st.integers(1, 12))
any_seed = st.integers(0, 2**32 - 1)


@settings(max_examples=150, deadline=None)
@given(any_operation, st.sampled_from(["nearest", "bilinear"]), any_size, st.sampled_from([1, 3]), any_seed)
def test_a_batch_equals_its_images_one_by_one(
    operation: Operation, interpolation: str, size: tuple[int, int], channels: int, seed: int
) -> None:
    operation = operation.with_interpolation(interpolation)
    images = random_images((5, channels, *size), seed)
    magnitude, position = magnitudes_for(operation, 5, seed), positions(5, seed)
    together = operation(images, magnitude, fill=fill_of(images), position=position)
    for i in range(5):
        one = slice(i, i + 1)
        alone = operation(images[one], magnitude[one], fill=fill_of(images), position=position[one])
        assert torch.equal(together[one], alone)


@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("channels", [1, 3])
def test_an_image_of_a_drawn_batch_equals_the_same_draw_on_it_alone(name: str, channels: int) -> None:
    policy = Policy(SPACES[name], torch.zeros(SPACES[name].n))
    images = random_images((N_IMAGES, channels, 8, 13), seed=1)
    draw = mixed_draw(policy.space, N_IMAGES, seed=2)
    together = policy.replay(images, draw)
    for i in range(N_IMAGES):
        one = slice(i, i + 1)
        assert torch.equal(policy.replay(images[one], rows_of(draw, one)), together[one])


@pytest.mark.parametrize("name", SPACES)
def test_the_order_of_the_images_does_not_matter(name: str) -> None:
    space = SPACES[name]
    images = random_images((N_IMAGES, 3, 8, 8), seed=3)
    draw = mixed_draw(space, N_IMAGES, seed=4)
    backwards = type(draw)(draw.slots.flip(0), draw.magnitudes.flip(0), draw.positions.flip(0))
    result = apply_operations(space, draw, images, fill_of(images))
    assert torch.equal(apply_operations(space, backwards, images.flip(0), fill_of(images)), result.flip(0))


@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("part", [1, 2, 7, N_IMAGES - 1, N_IMAGES, N_IMAGES + 1])
def test_parts_of_any_size_give_the_same_pixels(name: str, part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    space = SPACES[name]
    images = eight_bit_images((N_IMAGES, 3, 8, 8), seed=5)
    draw = mixed_draw(space, N_IMAGES, seed=6)
    whole = apply_operations(space, draw, images, fill_of(images))
    cut_into_parts_of(part, images, monkeypatch)
    assert torch.equal(apply_operations(space, draw, images, fill_of(images)), whole)


@pytest.mark.parametrize(("part", "expected"), [(4, [4, 4, 3]), (11, [11]), (5, [5, 5, 1]), (1, [1] * 11)])
def test_a_batch_is_cut_into_parts(part: int, expected: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the test above would show nothing."""
    seen: list[int] = []
    policy = policy_that_records(seen)
    images = eight_bit_images((11, 3, 8, 8), seed=7)
    cut_into_parts_of(part, images, monkeypatch)
    policy(images)
    assert seen == expected


def test_large_images_are_worked_on_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    policy = policy_that_records(seen)
    images = eight_bit_images((4, 3, 8, 8), seed=8)
    monkeypatch.setattr("hba.operations.apply.LARGE_IMAGE_VALUES", images[0].numel())
    policy(images)
    assert seen == [1, 1, 1, 1]


def cut_into_parts_of(n_images: int, images: Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    values = images[0].numel()
    monkeypatch.setattr("hba.operations.apply.PART_VALUES", n_images * values + values // 2)
    monkeypatch.setattr("hba.operations.apply.LARGE_IMAGE_VALUES", values + 1)


def policy_that_records(seen: list[int]) -> Policy:
    """Each image gets an operation that notes how many there are."""

    def record(images: Tensor) -> Tensor:
        seen.append(len(images))
        return images / 2

    space = SearchSpace((Operation("Record", record),), copies=1, count_probabilities=(0.0, 1.0))
    return Policy(space, torch.ones(1))
