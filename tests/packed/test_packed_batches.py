"""Batches of bytes, held against the same draws on floats, byte by byte."""

import itertools

import pytest
import torch
from mixed_draws import OWN, SPACES, draw_of_one, fill_of, mixed_draw, space_of_one
from random_inputs import magnitudes_for, seeded
from torch import Tensor

from hba.errors import SettingsError
from hba.operations import OPERATIONS, Operation
from hba.operations.apply import apply_steps
from hba.packed import apply_one_to_bytes, apply_to_images, running
from hba.packed.program import Program, code_of
from hba.policy.draw import BatchSample, apply_operations
from hba.policy.module import Policy
from hba.policy.space import SearchSpace

N_IMAGES = 150
ALL = tuple(OPERATIONS.values())
GRAY = (0.5, 0.5, 0.5)
"""127.5 grey levels: between two, so it shows when an image is rounded."""


def random_bytes(shape: tuple[int, ...], seed: int) -> Tensor:
    """Half of the images of any levels, half of a narrow range of them, which AutoContrast stretches."""
    levels = torch.randint(0, 256, shape, generator=seeded(seed))
    narrow = levels // 8 + torch.randint(0, 200, (shape[0], *[1] * (len(shape) - 1)), generator=seeded(seed + 1))
    is_narrow = torch.arange(shape[0]).view(-1, *[1] * (len(shape) - 1)) % 2 == 0
    return torch.where(is_narrow, narrow, levels).to(torch.uint8)


def by_floats(space: SearchSpace, draw: BatchSample, images: Tensor, fill: Tensor) -> Tensor:
    """Floats, from bytes, without any kernel."""
    chosen = torch.where(draw.slots < 0, -1, draw.slots // space.copies)
    return apply_steps(space.operations, chosen, draw.magnitudes, draw.positions, images.float() / 255, fill)


def rounded(images: Tensor) -> Tensor:
    return images.mul(255).round().to(torch.uint8)


@pytest.mark.parametrize("size", [(1, 1), (1, 8), (8, 1), (2, 5), (3, 3), (9, 11), (32, 32)])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", SPACES)
def test_bytes_and_floats_become_what_floats_became(name: str, channels: int, size: tuple[int, int]) -> None:
    space = SPACES[name]
    for seed in range(3):
        images = random_bytes((N_IMAGES, channels, *size), seed)
        before, draw = images.clone(), mixed_draw(space, N_IMAGES, seed)
        for fill in (fill_of(images.float()), torch.tensor(GRAY[:channels])):
            expected = by_floats(space, draw, images, fill)
            result = apply_operations(space, draw, images, fill)
            assert result.dtype == torch.uint8
            assert torch.equal(result, rounded(expected))
            floats = images.float() / 255
            assert torch.equal(apply_operations(space, draw, floats, fill), expected)
            assert torch.equal(floats, images.float() / 255)
        assert torch.equal(images, before)
        assert result.data_ptr() != images.data_ptr()


@pytest.mark.parametrize("channels", [1, 3])
def test_any_three_operations_one_after_the_other(channels: int) -> None:
    """Whatever an image is when a step reaches it: moved, of other levels, of values between them."""
    chosen = torch.tensor(list(itertools.product(range(len(ALL)), repeat=3)))
    magnitudes = torch.empty(chosen.shape)
    for index, operation in enumerate(ALL):
        is_chosen = chosen == index
        magnitudes[is_chosen] = magnitudes_for(operation, int(is_chosen.sum()), seed=index)
    positions = torch.rand(*chosen.shape, 2, generator=seeded(1))
    images, fill = random_bytes((len(chosen), channels, 7, 6), seed=2), torch.tensor(GRAY[:channels])
    expected = apply_steps(ALL, chosen, magnitudes, positions, images.float() / 255, fill)
    assert torch.equal(apply_to_images(ALL, chosen, magnitudes, positions, images, fill), rounded(expected))
    assert torch.equal(apply_to_images(ALL, chosen, magnitudes, positions, images.float() / 255, fill), expected)


@pytest.mark.parametrize("operation", [*ALL, *OWN], ids=lambda operation: operation.name)
def test_one_operation_on_every_image(operation: Operation) -> None:
    images, draw = random_bytes((60, 3, 12, 9), seed=3), draw_of_one(operation, 60, seed=4)
    fill = torch.tensor(GRAY)
    result = apply_operations(space_of_one(operation), draw, images, fill)
    assert torch.equal(result, rounded(by_floats(space_of_one(operation), draw, images, fill)))
    one = (operation, float(draw.magnitudes[0]), (0.25, 0.75))
    same = apply_one_to_bytes([one], images, fill)
    if operation in OWN:
        assert same is None
        return
    expected = operation(
        images.float() / 255,
        torch.full((60,), float(draw.magnitudes[0]), dtype=torch.float64),
        fill=fill,
        position=torch.tensor([[0.25, 0.75]]).expand(60, 2),
    )
    assert same is not None
    assert torch.equal(same.float(), expected.mul(255).round())


def test_every_operation_of_the_paper_has_a_code_and_others_have_none() -> None:
    assert None not in [code_of(operation) for operation in ALL]
    bilinear = [operation.with_interpolation("bilinear") for operation in ALL if operation.interpolation]
    assert {code_of(operation) for operation in (*OWN, *bilinear)} == {None}


def test_kernels_do_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise all tests above would compare floats with floats. They do not where floats are no levels."""
    types: list[torch.dtype] = []
    run = running.run

    def counted(images: Tensor, program: Program, fill: Tensor, dtype: torch.dtype) -> Tensor:
        types.append(dtype)
        return run(images, program, fill, dtype)

    monkeypatch.setattr("hba.packed.images.run", counted)
    space, fill = SPACES["nearest"], torch.tensor(GRAY)
    draw, images = mixed_draw(space, N_IMAGES, seed=5), random_bytes((N_IMAGES, 3, 4, 4), seed=6)
    for others in (images.float() / 255 + 1e-6, images.double() / 255, images.half() / 255, images.float()):
        apply_operations(space, draw, others, fill)
    assert not types
    for others in (images, images.float() / 255):
        apply_operations(space, draw, others, fill)
    assert types == [torch.uint8, torch.float32]


def test_images_may_be_cut_out_of_others() -> None:
    space, draw = SPACES["nearest"], mixed_draw(SPACES["nearest"], N_IMAGES, seed=7)
    images = random_bytes((N_IMAGES, 8, 9, 3), seed=8).permute(0, 3, 1, 2)[:, :, 1:, ::2]
    assert not images.is_contiguous()
    result = apply_operations(space, draw, images, torch.tensor(GRAY))
    assert torch.equal(result, apply_operations(space, draw, images.contiguous(), torch.tensor(GRAY)))


@pytest.mark.parametrize("shape", [(0, 3, 7, 5), (4, 3, 0, 5)])
def test_no_pixels_give_no_pixels(shape: tuple[int, ...]) -> None:
    values = torch.full((SearchSpace().n,), 0.5)
    assert Policy(SearchSpace(), values)(torch.zeros(shape, dtype=torch.uint8)).shape == shape


def test_a_policy_takes_bytes_and_gives_bytes() -> None:
    space = SearchSpace()
    low, high = torch.tensor(space.ranges).unbind(1)
    policy, images = Policy(space, (low + high) / 2), random_bytes((40, 3, 16, 16), seed=9)
    result = policy(images, seeded(10))
    assert torch.equal(result.float(), policy(images.float() / 255, seeded(10)).mul(255).round())
    assert not torch.equal(result, images)


def test_channels_that_an_operation_does_not_know_are_refused() -> None:
    space = SearchSpace((OPERATIONS["Color"], OPERATIONS["Invert"]))
    draw = mixed_draw(space, N_IMAGES, seed=11)
    for images in (torch.zeros(N_IMAGES, 4, 3, 3), torch.zeros(N_IMAGES, 4, 3, 3, dtype=torch.uint8)):
        with pytest.raises(SettingsError, match=r"Color is defined for images of 1 \(grey\) or 3"):
            apply_operations(space, draw, images, torch.zeros(4))


def test_other_channels_go_through_what_treats_each_alone() -> None:
    space = SearchSpace(tuple(operation for operation in ALL if operation.any_channels))
    draw, images = mixed_draw(space, N_IMAGES, seed=12), random_bytes((N_IMAGES, 5, 6, 7), seed=13)
    fill = torch.linspace(0, 1, 5)
    assert torch.equal(apply_operations(space, draw, images, fill), rounded(by_floats(space, draw, images, fill)))
