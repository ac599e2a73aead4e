"""The policy: what is drawn, against a slow reference of the walk, and what is done with a draw."""

import itertools
import math
import random
from collections import Counter
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from hba.errors import SettingsError
from hba.operations import OPERATIONS
from hba.policy.draw import BatchSample, apply_operations, draw_operations
from hba.policy.module import Policy
from hba.policy.space import SearchSpace

N_DRAWS = 40_000
N_REFERENCE = 20_000
SIGMAS = 5.0
"""About one comparison in two million misses this bound by chance; all seeds are fixed."""

Outcome = tuple[int, ...]
"""The slots applied to an image, in their order."""


def space_of(*names: str, copies: int = 2, count_probabilities: tuple[float, ...] = (0.2, 0.3, 0.5)) -> SearchSpace:
    return SearchSpace(tuple(OPERATIONS[name] for name in names), copies, count_probabilities)


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def row_of(space: SearchSpace, probabilities: Sequence[float]) -> Tensor:
    """Values with these probabilities, slot by slot, and every magnitude at 0.7 of its range."""
    remaining = iter(probabilities)
    row = [
        next(remaining) if name.endswith("probability") else low + 0.7 * (high - low)
        for name, (low, high) in zip(space.names, space.ranges, strict=True)
    ]
    return torch.tensor(row)


def reference_walk(probabilities: Sequence[float], count_probabilities: Sequence[float], rng: random.Random) -> Outcome:
    """PBA, Algorithm 1: draw K, shuffle the slots, walk them until K have fired."""
    count = rng.choices(range(len(count_probabilities)), count_probabilities)[0]
    slots = list(range(len(probabilities)))
    rng.shuffle(slots)
    applied: list[int] = []
    for slot in slots:
        if len(applied) == count:
            break
        if rng.random() < probabilities[slot]:
            applied.append(slot)
    return tuple(applied)


def exact_outcomes(probabilities: Sequence[float], count_probabilities: Sequence[float]) -> Counter[Outcome]:
    """The probability of every outcome of the walk: all orders, all firing patterns, all K."""
    n_slots = len(probabilities)
    outcomes: Counter[Outcome] = Counter()
    for order in itertools.permutations(range(n_slots)):
        for fires in itertools.product((False, True), repeat=n_slots):
            chance = 1 / math.factorial(n_slots)
            for slot, fired in enumerate(fires):
                chance *= probabilities[slot] if fired else 1 - probabilities[slot]
            fired_in_order = tuple(slot for slot in order if fires[slot])
            for count, count_probability in enumerate(count_probabilities):
                outcomes[fired_in_order[:count]] += chance * count_probability  # type: ignore[assignment]
    return outcomes


def outcomes_of(draw: BatchSample) -> list[Outcome]:
    """What a draw applies; also checks that nothing stands behind a step with nothing."""
    rows = draw.slots.tolist()
    for row in rows:
        assert sorted(row, key=lambda slot: slot < 0) == row
    return [tuple(slot for slot in row if slot >= 0) for row in rows]


def assert_share(found: int, of: int, expected: float, reference_size: float = math.inf) -> None:
    """A share within the binomial bounds of an expected one, itself exact or counted in reference_size trials."""
    deviation = math.sqrt(max(expected * (1 - expected), 1 / of) * (1 / of + 1 / reference_size))
    assert abs(found / of - expected) <= SIGMAS * deviation, f"{found / of} instead of {expected}"


@pytest.mark.parametrize("count_probabilities", [(0.2, 0.3, 0.5), (0.0, 1.0), (0.1, 0.2, 0.3, 0.4)])
@pytest.mark.parametrize("probabilities", [(0.9, 0.35, 0.6, 0.1), (1.0, 0.0, 0.5, 1.0)])
def test_every_outcome_is_as_frequent_as_the_walk_makes_it(
    probabilities: tuple[float, ...], count_probabilities: tuple[float, ...]
) -> None:
    space = space_of("Rotate", "Invert", count_probabilities=count_probabilities)
    draw = draw_operations(space, row_of(space, probabilities), N_DRAWS, seeded(1))
    found = Counter(outcomes_of(draw))
    expected = exact_outcomes(probabilities, count_probabilities)
    assert math.isclose(sum(expected.values()), 1)
    assert set(found) <= {outcome for outcome, chance in expected.items() if chance > 0}
    for outcome, chance in expected.items():
        assert_share(found[outcome], N_DRAWS, chance)


def test_the_whole_space_draws_as_the_walk_does() -> None:
    """30 slots of different probabilities: how many are applied, and which comes first and second."""
    space = SearchSpace()
    probabilities = [0.01 + 0.008 * slot for slot in range(30)]
    rng = random.Random(2)
    walked = [reference_walk(probabilities, (0.2, 0.3, 0.5), rng) for _ in range(N_REFERENCE)]
    drawn = outcomes_of(draw_operations(space, row_of(space, probabilities), N_DRAWS, seeded(2)))
    for count in range(3):
        expected = sum(len(outcome) == count for outcome in walked) / N_REFERENCE
        assert_share(sum(len(outcome) == count for outcome in drawn), N_DRAWS, expected, N_REFERENCE)
    for step, slot in itertools.product(range(2), range(30)):
        expected = sum(outcome[step : step + 1] == (slot,) for outcome in walked) / N_REFERENCE
        found = sum(outcome[step : step + 1] == (slot,) for outcome in drawn)
        assert_share(found, N_DRAWS, expected, N_REFERENCE)


@pytest.mark.parametrize("count_probabilities", [(0.2, 0.3, 0.5), (1.0,), (0.0, 0.0, 0.0, 1.0)])
def test_where_all_slots_fire_the_count_has_its_probabilities(count_probabilities: tuple[float, ...]) -> None:
    space = SearchSpace(count_probabilities=count_probabilities)
    found = Counter(map(len, outcomes_of(draw_operations(space, row_of(space, [1.0] * 30), N_DRAWS, seeded(3)))))
    assert sum(found.values()) == N_DRAWS
    for count, chance in enumerate(count_probabilities):
        assert_share(found[count], N_DRAWS, chance)


def test_both_copies_of_an_operation_can_be_applied_to_one_image() -> None:
    space = space_of("Invert", "Rotate", count_probabilities=(0.0, 0.0, 1.0))
    outcomes = outcomes_of(draw_operations(space, row_of(space, [1.0, 1.0, 0.0, 0.0]), 500, seeded(4)))
    assert set(outcomes) == {(0, 1), (1, 0)}


def test_magnitudes_are_the_slot_s_own_and_signed_ones_are_negative_half_the_time() -> None:
    space = SearchSpace()
    row = torch.tensor([0.5 if name.endswith("probability") else 0.01 * i for i, name in enumerate(space.names, 1)])
    magnitude_of = {
        slot: space.named(row).get(f"{operation.name}.{copy}.magnitude", 0.0)
        for slot, (operation, copy) in enumerate(itertools.product(space.operations, (1, 2)))
    }
    draw = draw_operations(space, row, N_DRAWS, seeded(5))
    found: dict[int, list[float]] = {slot: [] for slot in range(-1, 30)}
    for slot, magnitude in zip(draw.slots.flatten().tolist(), draw.magnitudes.flatten().tolist(), strict=True):
        found[slot].append(magnitude)
    assert set(found[-1]) == {0.0}
    for slot, expected in magnitude_of.items():
        assert {abs(magnitude) for magnitude in found[slot]} == {expected}
        negative = sum(magnitude < 0 for magnitude in found[slot])
        assert_share(negative, len(found[slot]), 0.5 if slot < 10 else 0.0)
        assert slot < 10 or negative == 0


def test_signs_of_the_two_steps_are_independent() -> None:
    """Of images with two signed operations, a quarter has each pair of signs."""
    space = space_of("Rotate", "ShearX", count_probabilities=(0.0, 0.0, 1.0))
    signs = draw_operations(space, row_of(space, [1.0] * 4), N_DRAWS, seeded(22)).magnitudes.sign().tolist()
    found = Counter(map(tuple, signs))
    for pair in itertools.product((-1.0, 1.0), repeat=2):
        assert_share(found[pair], N_DRAWS, 0.25)


def test_positions_are_uniform_over_the_image() -> None:
    """Mean 1/2 and variance 1/12 of each coordinate in each step, and no correlation between them."""
    space = SearchSpace()
    positions = draw_operations(space, row_of(space, [0.5] * 30), N_DRAWS, seeded(6)).positions
    assert positions.shape == (N_DRAWS, 2, 2)
    assert 0 <= positions.min() < 0.001
    assert 0.999 < positions.max() < 1
    columns = positions.flatten(1).double()
    for quarter in range(4):
        for found in ((columns * 4).floor() == quarter).sum(dim=0).tolist():
            assert_share(found, N_DRAWS, 0.25)
    torch.testing.assert_close(torch.cov(columns.T), torch.eye(4).double() / 12, atol=3e-3, rtol=0)


def test_images_of_a_batch_are_drawn_independently() -> None:
    """Neighbours agree in their first slot as often as two independent draws of 30 equal slots do."""
    space = SearchSpace(count_probabilities=(0.0, 1.0))
    first = draw_operations(space, row_of(space, [0.5] * 30), N_DRAWS, seeded(7)).slots[:, 0]
    assert_share(int((first[1:] == first[:-1]).sum()), N_DRAWS - 1, 1 / 30)


def test_the_same_seed_draws_the_same_and_another_seed_another() -> None:
    policy = Policy(SearchSpace(), row_of(SearchSpace(), [0.3] * 30))
    first, again, other = (policy.draw(64, seeded(seed)) for seed in (8, 8, 9))
    for name in ("slots", "magnitudes", "positions"):
        assert torch.equal(getattr(first, name), getattr(again, name))
        assert not torch.equal(getattr(first, name), getattr(other, name))


def test_without_a_generator_the_default_one_decides() -> None:
    policy = Policy(SearchSpace(), row_of(SearchSpace(), [0.3] * 30))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(10)
        default = policy.draw(64)
    assert torch.equal(default.slots, policy.draw(64, seeded(10)).slots)


def test_replaying_a_draw_gives_the_same_pixels_and_forward_is_draw_and_replay() -> None:
    images = torch.rand(32, 3, 16, 16, generator=seeded(11))
    policy = Policy(SearchSpace(), row_of(SearchSpace(), [0.6] * 30))
    draw = policy.draw(32, seeded(12))
    first = policy.replay(images, draw)
    torch.rand(10)
    assert torch.equal(policy.replay(images, draw), first)
    assert torch.equal(policy(images, seeded(12)), first)
    assert not torch.equal(first, images)


@pytest.mark.parametrize("channels", [1, 3])
def test_probability_zero_changes_nothing(channels: int) -> None:
    images = torch.rand(64, channels, 12, 10, generator=seeded(13))
    assert torch.equal(Policy(SearchSpace(), row_of(SearchSpace(), [0.0] * 30))(images), images)


@pytest.mark.parametrize(("probability", "fires"), [(0.0, False), (2.0**-24, True)])
def test_the_smallest_random_number_is_below_every_probability_but_zero(
    probability: float, fires: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch.rand gives an exact 0 once in 2**24 numbers, too seldom to wait for."""
    space = space_of("Invert", count_probabilities=(0.0, 1.0))
    monkeypatch.setattr(torch, "rand", lambda *shape, **_: torch.zeros(shape))
    draw = draw_operations(space, row_of(space, [probability] * 2), 5)
    assert (draw.slots >= 0).tolist() == [[fires]] * 5


def test_each_image_follows_its_own_row_of_values() -> None:
    space = space_of("Rotate", "Invert", "Brightness", copies=1, count_probabilities=(0.0, 1.0))
    rows = torch.tensor(
        [
            [0.0, 30.0, 0.0, 0.0, 0.5],
            [0.0, 30.0, 1.0, 0.0, 0.5],
            [0.0, 30.0, 0.0, 1.0, 0.5],
            [0.0, 30.0, 0.0, 1.0, 0.25],
            [1.0, 0.0, 0.0, 0.0, 0.5],
        ]
    )
    image = torch.randint(0, 256, (1, 3, 8, 8), generator=seeded(14)).float() / 255
    result = Policy(space, rows)(image.repeat(5, 1, 1, 1))
    expected = torch.cat([image, 1 - image, image / 2, image / 4, image])
    torch.testing.assert_close(result, expected, atol=1e-6, rtol=0)


def test_a_draw_is_done_step_by_step_in_its_order() -> None:
    space = space_of("Invert", "Brightness", "Cutout", copies=1)
    draw = BatchSample(
        slots=torch.tensor([[0, 1], [1, 0], [-1, -1], [1, -1], [2, 0]]),
        magnitudes=torch.tensor([[0, 0.5], [0.5, 0], [0, 0], [0.25, 0], [0.2, 0]]),
        positions=torch.tensor([0.0, 0.93]).expand(5, 2, 2),
    )
    x = torch.randint(0, 128, (1, 1, 10, 10), generator=seeded(15)).float() * 2 / 255
    covered = x.clone()
    covered[:, :, 8:10, 0:1] = 51 / 255
    expected = torch.cat([(1 - x) / 2, 1 - x / 2, x, x / 4, 1 - covered])
    result = apply_operations(space, draw, x.repeat(5, 1, 1, 1), torch.tensor([51 / 255]))
    torch.testing.assert_close(result, expected, atol=1e-6, rtol=0)


def test_images_and_values_are_left_alone_and_get_no_gradient() -> None:
    images = torch.rand(64, 3, 12, 12, generator=seeded(19))
    values = row_of(SearchSpace(), [1.0] * 30).requires_grad_()
    images_before, values_before = images.clone(), values.detach().clone()
    result = Policy(SearchSpace(), values)(images, seeded(20))
    assert torch.equal(images, images_before)
    assert torch.equal(values.detach(), values_before)
    assert not result.requires_grad


@pytest.mark.parametrize(
    ("channels", "fill", "expected"),
    [
        (3, (0.2, 0.4, 0.6), (0.2, 0.4, 0.6)),
        (3, (0.3,), (0.3, 0.3, 0.3)),
        (1, (0.3,), (0.3,)),
        (1, (0.2, 0.4, 0.6), (0.299 * 0.2 + 0.587 * 0.4 + 0.114 * 0.6,)),
    ],
)
def test_uncovered_pixels_have_the_policy_s_fill_colour(
    channels: int, fill: tuple[float, ...], expected: tuple[float, ...]
) -> None:
    space = space_of("TranslateX", copies=1, count_probabilities=(0.0, 1.0))
    result = Policy(space, torch.tensor([1.0, 0.3]), fill)(torch.ones(40, channels, 4, 10), seeded(21))
    shown = torch.tensor(expected)[:, None, None]
    left, right = (torch.ones(channels, 4, 10) for _ in range(2))
    left[:, :, :3] = right[:, :, 7:] = shown
    matches = [[torch.allclose(image, wanted) for wanted in (left, right)] for image in result]
    assert all(sum(match) == 1 for match in matches)
    assert all(any(column) for column in zip(*matches, strict=True))


def test_the_values_travel_with_the_module() -> None:
    policy = Policy(SearchSpace(), row_of(SearchSpace(), [0.5] * 30))
    assert torch.equal(policy.state_dict()["values"], row_of(SearchSpace(), [0.5] * 30))
    assert policy.double().values.dtype == torch.float64


@pytest.mark.parametrize("shape", [(), (53,), (55,), (4, 53), (2, 4, 54), (54, 1)])
def test_values_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(SettingsError, match=r"values must be of shape \(54,\) or \(B, 54\), got"):
        Policy(SearchSpace(), torch.zeros(shape))


def test_batches_and_draws_of_another_size_are_refused() -> None:
    per_image = Policy(SearchSpace(), torch.zeros(4, 54))
    with pytest.raises(SettingsError, match="one row for each of 4 images, got 5 images"):
        per_image(torch.zeros(5, 3, 8, 8))
    with pytest.raises(SettingsError, match="the draw is for 4 images, got 3"):
        per_image.replay(torch.zeros(3, 3, 8, 8), per_image.draw(4))


@pytest.mark.parametrize("images", [torch.zeros(4, 8, 8), torch.zeros(4, 3, 8, 8, dtype=torch.int32)])
def test_images_that_no_operation_takes_are_refused(images: Tensor) -> None:
    with pytest.raises(SettingsError, match="images must be uint8 or floating point of shape"):
        Policy(SearchSpace(), torch.zeros(54))(images)
