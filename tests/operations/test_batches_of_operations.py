"""A batch gives what its images give one by one, on both ways through it: in subsets,
and in fixed shapes as on a GPU.

Fixed shapes are taken on a CPU where a program is being compiled.
"""

from collections.abc import Callable

import pytest
import torch
from mixed_draws import (
    SPACES,
    fill_of,
    mixed_draw,
    random_values,
    rows_of,
)
from random_inputs import (
    eight_bit_images,
    magnitudes_for,
    positions,
    random_images,
    seeded,
)
from torch import Tensor

from hba.errors import SettingsError
from hba.operations import OPERATIONS, Operation, check_channels
from hba.operations.apply import Candidates, color_for
from hba.policy.draw import BatchSample, apply_operations, draw_with_trace
from hba.policy.space import SearchSpace
from hba.policy.spaces import SPACES as NAMED_SPACES

N_IMAGES = 110
ANY_CHANNELS = [
    operation for operation in OPERATIONS.values() if operation.any_channels
]
BothPaths = Callable[..., tuple[Tensor, Tensor]]


@pytest.fixture
def both_paths(monkeypatch: pytest.MonkeyPatch) -> BothPaths:
    def apply(
        space: SearchSpace,
        sample: BatchSample,
        images: Tensor,
        candidates: Candidates = None,
    ) -> tuple[Tensor, Tensor]:
        subsets = apply_operations(space, sample, images, fill_of(images))
        with monkeypatch.context() as patched:
            patched.setattr(torch.compiler, "is_compiling", lambda: True)
            return subsets, apply_operations(
                space, sample, images, fill_of(images), candidates
            )

    return apply


def step_by_step(space: SearchSpace, sample: BatchSample, images: Tensor) -> Tensor:
    """Image by image, each operation called by itself."""
    results = []
    for row in range(len(images)):
        image = images[row : row + 1]
        drawn = rows_of(sample, slice(row, row + 1))
        for step, slot in enumerate(drawn.slots[0].tolist()):
            if slot >= 0:
                operation = space.operations[slot // space.copies]
                image = operation(
                    image,
                    drawn.magnitudes[:, step],
                    fill=fill_of(image),
                    position=drawn.positions[:, step],
                )
        results.append(image)
    return torch.cat(results)


@pytest.mark.parametrize("name", ["recipe", "full", "stn"])
def test_both_paths_give_the_same_pixels_after_all_stages(
    name: str, both_paths: BothPaths
) -> None:
    """Operations of probability 0 are not computed. A difference in the last bit may
    turn a grey level later.
    """
    space = NAMED_SPACES[name]
    images = eight_bit_images((N_IMAGES, 3, 12, 12), seed=5)
    values = random_values(space, N_IMAGES, 6)
    for every in (space.n, 4):
        values[:, [slot.probability for slot in space.slots[::every]]] = 0.0
        candidates = space.candidates(values)
        assert sum(map(len, candidates)) < sum(map(len, space.steps))
        sample = draw_with_trace(space, values, N_IMAGES, seeded(7))[0]
        subsets, fixed = both_paths(space, sample, images, candidates)
        assert float(((subsets - fixed).abs() > 1e-5).float().mean()) < 1e-3


@pytest.mark.parametrize("name", SPACES)
def test_both_paths_give_the_operations_one_after_the_other(
    name: str, both_paths: BothPaths
) -> None:
    space = SPACES[name]
    for seed, (shape, dtype) in enumerate(
        (
            ((N_IMAGES, 3, 9, 11), torch.float32),
            ((N_IMAGES, 1, 12, 10), torch.float64),
            ((N_IMAGES, 3, 32, 32), torch.float32),
            ((N_IMAGES, 3, 1, 8), torch.float32),
            ((N_IMAGES, 3, 9, 11), torch.float16),
        )
    ):
        images = random_images(shape, seed, dtype).requires_grad_()
        before = images.detach().clone()
        sample = mixed_draw(space, N_IMAGES, seed)
        expected = step_by_step(space, sample, before)
        for result in both_paths(space, sample, images):
            assert torch.equal(result, expected), shape
            assert (result.dtype, result.requires_grad) == (dtype, False)
        assert torch.equal(images, before)
        backwards = BatchSample(
            *(
                numbers.flip(0)
                for numbers in (sample.slots, sample.magnitudes, sample.positions)
            )
        )
        assert torch.equal(
            both_paths(space, backwards, before.flip(0))[0], expected.flip(0)
        )


def test_both_ends_of_ranges_no_images_and_no_operations(both_paths: BothPaths) -> None:
    for space in SPACES.values():
        for end in (0, 1):
            values = torch.tensor(space.ranges)[:, end]
            values[[column.endswith("probability") for column in space.names]] = 0.5
            subsets, fixed = both_paths(
                space,
                draw_with_trace(space, values, N_IMAGES, seeded(23))[0],
                eight_bit_images((N_IMAGES, 3, 12, 8), 24),
            )
            assert torch.equal(subsets, fixed)
        nothing = draw_with_trace(
            space, random_values(space, 1, seed=25), 0, seeded(26)
        )[0]
        assert {
            result.shape
            for result in both_paths(space, nothing, torch.zeros(0, 3, 7, 5))
        } == {(0, 3, 7, 5)}
    space = SearchSpace(count_probabilities=(1.0,))
    images = random_images((4, 3, 6, 6), seed=27)
    before = images.clone()
    for result in both_paths(
        space, draw_with_trace(space, random_values(space, 1, seed=28), 4)[0], images
    ):
        assert torch.equal(result, before)
        result.zero_()
        assert torch.equal(images, before), "a copy"


def test_one_path_computes_the_chosen_images_only_and_the_other_all(
    both_paths: BothPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step computes each group of operations once; parts of any size give the same
    pixels.
    """
    batches: list[int] = []

    def record(images: Tensor) -> Tensor:
        batches.append(len(images))
        return images / 2

    space = SearchSpace(
        (Operation("Record", record), *OPERATIONS.values()),
        count_probabilities=(0.0, 1.0),
    )
    sample = draw_with_trace(
        space, random_values(space, N_IMAGES, seed=30), N_IMAGES, seeded(31)
    )[0]
    images = eight_bit_images((N_IMAGES, 3, 8, 8), seed=29)
    whole, _ = both_paths(space, sample, images)
    n_recorded = int((sample.slots // space.copies == 0).sum())
    assert batches == [n_recorded, N_IMAGES]
    values = images[0].numel()
    for part_size in (1, 2, 7, N_IMAGES - 1, N_IMAGES + 1):
        batches.clear()
        monkeypatch.setattr(
            "hba.operations.apply.PART_VALUES", part_size * values + values // 2
        )
        monkeypatch.setattr("hba.operations.apply.LARGE_IMAGE_VALUES", values + 1)
        assert torch.equal(
            apply_operations(space, sample, images, fill_of(images)), whole
        )
        assert sum(batches) == n_recorded
        assert max(batches) <= part_size


def test_any_number_of_channels_is_each_channel_alone(both_paths: BothPaths) -> None:
    assert [
        name for name, operation in OPERATIONS.items() if not operation.any_channels
    ] == [
        "Contrast",
        "Color",
    ]
    for n_channels in (2, 4, 7):
        images = (
            torch.randint(
                0, 256, (6, n_channels, 9, 11), generator=seeded(n_channels)
            ).float()
            / 255
        )
        fill = torch.linspace(0.1, 0.9, n_channels)
        for operation in ANY_CHANNELS:
            magnitude = magnitudes_for(operation, 6, seed=1)
            position = positions(6, seed=1)
            together = operation(images, magnitude, fill=fill, position=position)
            alone = [
                operation(
                    images[:, channel : channel + 1],
                    magnitude,
                    fill=fill[channel : channel + 1],
                    position=position,
                )
                for channel in range(n_channels)
            ]
            assert torch.equal(together, torch.cat(alone, dim=1)), operation.name
    assert color_for(4, (0.5,)) == (0.5,) * 4
    assert color_for(1, (1.0, 0.0, 0.0)) == (0.299,)
    with pytest.raises(SettingsError, match="4"):
        color_for(4, (0.1, 0.2, 0.3))


def test_operations_that_mix_channels_are_refused_by_name() -> None:
    check_channels(OPERATIONS.values(), 3)
    with pytest.raises(SettingsError, match="Contrast and Color") as raised:
        check_channels(OPERATIONS.values(), 4)
    assert str(raised.value).partition("--operations ")[2].split(",") == [
        operation.name for operation in ANY_CHANNELS
    ]
    with pytest.raises(SettingsError, match="Color"):
        OPERATIONS["Color"](torch.zeros(1, 4, 3, 3), torch.ones(1))
