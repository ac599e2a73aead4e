"""What is drawn, against all outcomes of the walk, and what is done with a sample."""

import itertools
import math
from collections import Counter
from collections.abc import Sequence

import pytest
import torch
from enumerated_walks import Outcome, exact_outcomes
from random_inputs import seeded
from search_steps import space_of
from torch import Tensor

from hba.errors import SettingsError
from hba.operations.drawing import SIGN
from hba.policy.draw import BatchSample, draw_with_trace
from hba.policy.module import Policy
from hba.policy.space import SearchSpace

N_DRAWS = 40_000
SIGMAS = 5.0
"""About one comparison in two million misses this bound by chance; all seeds are fixed.
"""


def row_of(space: SearchSpace, probabilities: Sequence[float]) -> Tensor:
    """Values with these probabilities, slot by slot, and every magnitude at 0.7 of its
    range.
    """
    remaining = iter(probabilities)
    row = [
        next(remaining) if name.endswith("probability") else low + 0.7 * (high - low)
        for name, (low, high) in zip(space.names, space.ranges, strict=True)
    ]
    return torch.tensor(row)


def outcomes_of(sample: BatchSample) -> list[Outcome]:
    """What a sample applies; also checks that nothing stands behind a step with
    nothing.
    """
    rows = sample.slots.tolist()
    assert all(sorted(row, key=lambda slot: slot < 0) == row for row in rows)
    return [tuple(slot for slot in row if slot >= 0) for row in rows]


def assert_share(count: int, of: int, expected: float) -> None:
    """A share within the binomial bounds of the exact one."""
    deviation = math.sqrt(max(expected * (1 - expected), 1 / of) / of)
    assert abs(count / of - expected) <= SIGMAS * deviation, (
        f"{count / of} instead of {expected}"
    )


def test_every_outcome_is_as_frequent_as_the_walk_makes_it() -> None:
    for counts in ((0.2, 0.3, 0.5), (0.0, 1.0), (0.1, 0.2, 0.3, 0.4)):
        for probabilities in (
            (0.9, 0.35, 0.6, 0.1),
            (1.0, 0.0, 0.5, 1.0),
            (1.0, 1.0, 1.0, 1.0),
        ):
            space = space_of("Rotate", "Invert", copies=2, count_probabilities=counts)
            sample, trace = draw_with_trace(
                space, row_of(space, probabilities), N_DRAWS, seeded(1)
            )
            assert trace.fired.gather(1, sample.slots.clamp(min=0))[
                sample.slots >= 0
            ].all()
            assert not (trace.fired & ~trace.visited).any()
            counts_of_outcomes = Counter(
                zip(outcomes_of(sample), trace.visited.sum(dim=1).tolist(), strict=True)
            )
            expected = exact_outcomes(probabilities, counts)
            assert set(counts_of_outcomes) <= {
                outcome for outcome, chance in expected.items() if chance > 0
            }
            for outcome, chance in expected.items():
                assert_share(counts_of_outcomes[outcome], N_DRAWS, chance)


def test_magnitudes_are_the_slot_s_own_and_signs_are_fair() -> None:
    space = SearchSpace()
    row = torch.tensor(
        [
            0.5 if name.endswith("probability") else 0.01 * i
            for i, name in enumerate(space.names, 1)
        ]
    )
    sample = draw_with_trace(space, row, N_DRAWS, seeded(5))[0]
    magnitudes: dict[int, list[float]] = {slot: [] for slot in range(-1, 30)}
    for slot, magnitude in zip(
        sample.slots.flatten().tolist(),
        sample.magnitudes.flatten().tolist(),
        strict=True,
    ):
        magnitudes[slot].append(magnitude)
    assert set(magnitudes[-1]) == {0.0}
    for number, slot in enumerate(space.slots):
        expected = 0.0 if slot.magnitude is None else row[slot.magnitude].item()
        assert {abs(magnitude) for magnitude in magnitudes[number]} == {expected}
        negative = sum(magnitude < 0 for magnitude in magnitudes[number])
        assert_share(
            negative,
            len(magnitudes[number]),
            0.5 if slot.operation.drawing == SIGN else 0.0,
        )
    pairs = space_of("Rotate", "ShearX", copies=2, count_probabilities=(0.0, 0.0, 1.0))
    signs = (
        draw_with_trace(pairs, row_of(pairs, [1.0] * 4), N_DRAWS, seeded(22))[0]
        .magnitudes.sign()
        .tolist()
    )
    for pair in itertools.product((-1.0, 1.0), repeat=2):
        assert_share(Counter(map(tuple, signs))[pair], N_DRAWS, 0.25)


def test_positions_are_uniform_and_images_independent() -> None:
    """Mean 1/2 and variance 1/12 of each coordinate; neighbours agree as often as two
    independent draws.
    """
    space = SearchSpace(count_probabilities=(0.0, 1.0, 0.0))
    sample = draw_with_trace(space, row_of(space, [0.5] * 30), N_DRAWS, seeded(6))[0]
    columns = sample.positions.flatten(1).double()
    assert 0 <= columns.min() < 0.001
    assert 0.999 < columns.max() < 1
    torch.testing.assert_close(
        torch.cov(columns.T), torch.eye(4).double() / 12, atol=3e-3, rtol=0
    )
    first = sample.slots[:, 0]
    assert_share(int((first[1:] == first[:-1]).sum()), N_DRAWS - 1, 1 / 30)


def test_seeds_decide_and_a_replay_gives_the_same_pixels() -> None:
    images = torch.rand(64, 3, 16, 16, generator=seeded(11))
    values = row_of(SearchSpace(), [0.6] * 30).requires_grad_()
    policy = Policy(SearchSpace(), values)
    first, again, other = (policy.draw(64, seeded(seed)) for seed in (8, 8, 9))
    for name in ("slots", "magnitudes", "positions"):
        assert torch.equal(getattr(first, name), getattr(again, name))
        assert not torch.equal(getattr(first, name), getattr(other, name))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(8)
        assert torch.equal(policy.draw(64).slots, first.slots), (
            "None is the default generator"
        )
    before = images.clone()
    pixels = policy.replay(images, first)
    assert torch.equal(policy.replay(images, first), pixels)
    assert torch.equal(policy(images, seeded(8)), pixels)
    assert torch.equal(images, before)
    assert not torch.equal(pixels, images)
    assert not pixels.requires_grad
    assert torch.equal(
        Policy(SearchSpace(), row_of(SearchSpace(), [0.0] * 30))(images), images
    )


def test_shapes_that_do_not_fit_are_refused() -> None:
    for shape in ((), (53,), (4, 53), (2, 4, 54)):
        with pytest.raises(SettingsError, match="54"):
            Policy(SearchSpace(), torch.zeros(shape))
    with pytest.raises(SettingsError, match="spread"):
        Policy(SearchSpace(), torch.zeros(54), spread=torch.zeros(53))
    per_image = Policy(SearchSpace(), torch.zeros(4, 54))
    with pytest.raises(SettingsError, match="5 images"):
        per_image(torch.zeros(5, 3, 8, 8))
    with pytest.raises(SettingsError, match="got 3"):
        per_image.replay(torch.zeros(3, 3, 8, 8), per_image.draw(4))
    for images in (torch.zeros(4, 8, 8), torch.zeros(4, 3, 8, 8, dtype=torch.int32)):
        with pytest.raises(SettingsError, match="uint8 or floating point"):
            per_image.replay(images, per_image.draw(4))
