"""The walk that leads to a draw: which slots an image comes by, and which of those fire."""

import math
import random
from collections import Counter

import pytest
import torch
from torch import Tensor

from hba.operations import OPERATIONS
from hba.policy.draw import BatchSample, SampleTrace, draw_operations, draw_with_trace
from hba.policy.space import SearchSpace

N_DRAWS = 40_000
SIGMAS = 5.0
"""About one comparison in two million misses this bound by chance; all seeds are fixed."""
PROBABILITIES = (0.9, 0.35, 0.6, 0.1, 0.5, 0.05)


def space_of(count_probabilities: tuple[float, ...] = (0.2, 0.3, 0.5)) -> SearchSpace:
    return SearchSpace(tuple(OPERATIONS[name] for name in ("Rotate", "Invert", "Color")), 2, count_probabilities)


def walk_of(probabilities: tuple[float, ...], space: SearchSpace, seed: int = 0) -> tuple[BatchSample, SampleTrace]:
    values = torch.zeros(space.n)
    values[[slot.probability for slot in space.slots]] = torch.tensor(probabilities)
    return draw_with_trace(space, values, N_DRAWS, torch.Generator().manual_seed(seed))


def applied(draw: BatchSample, n_slots: int) -> Tensor:
    """(B, n_slots) bool, slot by slot."""
    shares = torch.zeros(len(draw), n_slots + 1, dtype=torch.bool)
    return shares.scatter(1, torch.where(draw.slots < 0, n_slots, draw.slots), value=True)[:, :n_slots]


def reference_walk(
    probabilities: tuple[float, ...], count_probabilities: tuple[float, ...], rng: random.Random
) -> tuple[list[int], list[int]]:
    """Algorithm 1 of PBA: the slots come by, and those that fired."""
    count = rng.choices(range(len(count_probabilities)), count_probabilities)[0]
    visited: list[int] = []
    fired: list[int] = []
    for slot in rng.sample(range(len(probabilities)), len(probabilities)):
        if len(fired) == count:
            break
        visited.append(slot)
        if rng.random() < probabilities[slot]:
            fired.append(slot)
    return visited, fired


@pytest.mark.parametrize("count_probabilities", [(0.2, 0.3, 0.5), (0.0, 0.0, 0.0, 1.0), (0.1, 0.9)])
def test_what_fired_was_visited_and_is_what_is_applied(count_probabilities: tuple[float, ...]) -> None:
    space = space_of(count_probabilities)
    draw, walk = walk_of(PROBABILITIES, space)
    assert not (walk.fired & ~walk.visited).any()
    assert torch.equal(walk.fired, applied(draw, space.n_slots))


def test_where_no_operation_is_allowed_nothing_is_visited() -> None:
    _, walk = walk_of(PROBABILITIES, space_of((1.0,)))
    assert not walk.visited.any()
    # Where all slots fire, K is how many are applied, and as many are visited.
    draw, walk = walk_of((1.0,) * 6, space_of())
    count = (draw.slots >= 0).sum(1)
    assert (count == 0).any()
    assert torch.equal(walk.visited.sum(1), count)


def test_where_fewer_fire_than_are_allowed_all_slots_are_visited() -> None:
    _, walk = walk_of(PROBABILITIES, space_of((0.0, 0.0, 1.0)))
    n_fired = walk.fired.sum(1)
    assert (n_fired < 2).any()
    assert walk.visited[n_fired < 2].all()
    assert not walk.visited[n_fired == 2].all()


def test_the_walk_ends_with_a_slot_that_fires() -> None:
    _, walk = walk_of((0.0,) * 5 + (1.0,), space_of((0.0, 1.0)))
    assert walk.fired[:, 5].all()
    # The only slot that fires stands at each of six places equally often.
    counts = walk.visited.sum(1).bincount(minlength=7)[1:]
    bound = SIGMAS * math.sqrt(N_DRAWS * 1 / 6 * 5 / 6)
    assert (counts - N_DRAWS / 6).abs().max() < bound


@pytest.mark.parametrize("count_probabilities", [(0.2, 0.3, 0.5), (0.0, 1.0), (0.1, 0.2, 0.3, 0.4)])
def test_as_many_slots_are_visited_and_fire_as_in_the_plain_walk(count_probabilities: tuple[float, ...]) -> None:
    rng = random.Random(1)
    n_walks = 20_000
    numbers: Counter[int] = Counter()
    n_visited, n_fired = torch.zeros(6), torch.zeros(6)
    for _ in range(n_walks):
        visited, fired = reference_walk(PROBABILITIES, count_probabilities, rng)
        numbers[len(visited)] += 1
        n_visited[visited] += 1
        n_fired[fired] += 1
    _, walk = walk_of(PROBABILITIES, space_of(count_probabilities))
    found = walk.visited.sum(1).bincount(minlength=7)
    pairs = [(found[number].item(), numbers[number]) for number in range(7)]
    pairs += zip(walk.visited.sum(0).tolist(), n_visited.tolist(), strict=True)
    pairs += zip(walk.fired.sum(0).tolist(), n_fired.tolist(), strict=True)
    for drawn, walked in pairs:
        share = (drawn + walked) / (N_DRAWS + n_walks)
        error = math.sqrt(share * (1 - share) * (1 / N_DRAWS + 1 / n_walks))
        assert abs(drawn / N_DRAWS - walked / n_walks) <= SIGMAS * error


@pytest.mark.parametrize("probabilities", [PROBABILITIES, (0.5,) * 6, (0.02,) * 6, (0.97,) * 6])
def test_a_slot_that_was_visited_fired_with_its_own_probability(probabilities: tuple[float, ...]) -> None:
    """So the score fired - p has mean zero, and what came before in the walk makes no difference."""
    _, walk = walk_of(probabilities, space_of(), seed=3)
    for slot, probability in enumerate(probabilities):
        fired = walk.fired[walk.visited[:, slot], slot].double()
        error = math.sqrt(probability * (1 - probability) / len(fired))
        assert abs(fired.mean() - probability) <= SIGMAS * error


def test_the_walk_changes_no_draw() -> None:
    space = SearchSpace()
    values = space.decode(torch.randn(50, space.n, generator=torch.Generator().manual_seed(0)))
    draws = draw_operations(space, values, 50, torch.Generator().manual_seed(4))
    with_walk = draw_with_trace(space, values, 50, torch.Generator().manual_seed(4))[0]
    for name in ("slots", "magnitudes", "positions"):
        assert torch.equal(getattr(draws, name), getattr(with_walk, name))
