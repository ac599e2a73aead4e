"""The policy on one PIL image around its row: against a batch of one, and against normal variables by scipy."""

import math

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.special import expit, logit
from scipy.stats import norm
from test_single_image import random_row
from torch import Tensor

from hba.operations import OPERATIONS
from hba.policy.draw import draw_operations
from hba.policy.single_image import OpSample, draw_for_one, plain_row
from hba.policy.space import SearchSpace
from hba.policy.spaces import search_space

N_DRAWS = 20_000
COUNTED = SearchSpace(copies=1, count_probabilities=(0.1, 0.2, 0.3, 0.4), searches_count=True)


def random_spread(space: SearchSpace, seed: int) -> Tensor:
    """(n,) up to 2 logits; a third of the columns has none."""
    generator = torch.Generator().manual_seed(seed)
    return 2 * torch.rand(space.n, generator=generator) * (torch.rand(space.n, generator=generator) < 2 / 3)


@pytest.mark.parametrize(
    "space",
    [SearchSpace(), search_space("pba"), COUNTED, SearchSpace(searches_count=True)],
    ids=["hba", "pba", "up to three, searched", "searched"],
)
def test_one_image_draws_what_a_batch_of_one_draws(space: SearchSpace) -> None:
    counts, moved = set(), 0
    for seed in range(300):
        row, spread = random_row(space, seed), random_spread(space, seed)
        draw = draw_operations(space, row, 1, torch.Generator().manual_seed(seed), spread)
        n = int((draw.slots[0] >= 0).sum())
        drawn = draw_for_one(plain_row(space, row, spread), torch.Generator().manual_seed(seed))
        expected = [space.operations[slot // space.copies] for slot in draw.slots[0, :n].tolist()]
        assert [one.operation for one in drawn] == expected
        assert [one.position for one in drawn] == [tuple(place) for place in draw.positions[0, :n].tolist()]
        magnitudes = draw.magnitudes[0, :n].tolist()
        assert [one.magnitude for one in drawn] == pytest.approx(magnitudes, rel=1e-4, abs=1e-4)
        counts.add(n)
        bare = row[[slot.magnitude or 0 for slot in space.slots]][draw.slots[0, :n]].tolist()
        moved += sum(abs(abs(a) - abs(b)) > 0.01 * abs(b) for a, b in zip(bare, magnitudes, strict=True))
    assert counts == set(range(space.max_count + 1))
    assert moved > 100


@pytest.mark.parametrize("end", [0, 1])
def test_the_ends_of_all_ranges_stay_where_they_are(end: int) -> None:
    space = SearchSpace(count_probabilities=(0.0, 0.0, 1.0))
    row = torch.tensor(space.ranges)[:, end]
    row[space.probability_columns(row.device)] = 1.0
    at = dict(zip(space.names, row.tolist(), strict=True))
    plain, generator = plain_row(space, row, torch.full((space.n,), 3.0)), torch.Generator().manual_seed(0)
    for one in (one for _ in range(300) for one in draw_for_one(plain, generator)):
        assert abs(one.magnitude) == pytest.approx(at.get(f"{one.operation.name}.1.magnitude", 0.0), rel=1e-12)


def test_a_range_of_one_magnitude_has_no_spread() -> None:
    space = SearchSpace((OPERATIONS["Rotate"].with_range((7.0, 7.0)),), 1, (0.0, 1.0))
    plain = plain_row(space, torch.tensor([1.0, 7.0]), torch.ones(2))
    assert {abs(one.magnitude) for _ in range(20) for one in draw_for_one(plain)} == {7.0}


def drawn_by_rotate(probability: float, magnitude: float, spread: float) -> list[list[OpSample]]:
    space = SearchSpace((OPERATIONS["Rotate"],), copies=1, count_probabilities=(0.0, 1.0))
    plain = plain_row(space, torch.tensor([probability, magnitude]), torch.full((2,), spread))
    generator = torch.Generator().manual_seed(0)
    return [draw_for_one(plain, generator) for _ in range(N_DRAWS)]


@pytest.mark.parametrize(("probability", "spread"), [(0.05, 1.0), (0.3, 2.0), (0.9, 0.5), (0.2, 0.0)])
def test_an_operation_fires_for_the_mean_of_its_probabilities(probability: float, spread: float) -> None:
    mean, _ = quad(lambda x: expit(logit(probability) + spread * x) * norm.pdf(x), -12, 12)
    share = sum(map(bool, drawn_by_rotate(probability, 12.0, spread))) / N_DRAWS
    assert abs(share - mean) < 4 * math.sqrt(mean * (1 - mean) / N_DRAWS)


@pytest.mark.parametrize(("magnitude", "spread"), [(12.0, 1.0), (1.5, 2.0), (29.0, 0.5)])
def test_the_logits_of_magnitudes_are_normal_around_that_of_the_row(magnitude: float, spread: float) -> None:
    found = np.array([one.magnitude for drawn in drawn_by_rotate(1.0, magnitude, spread) for one in drawn])
    assert abs((found < 0).mean() - 0.5) < 0.02
    for quantile in (0.05, 0.25, 0.5, 0.75, 0.95):
        expected = 30 * expit(logit(magnitude / 30) + spread * norm.ppf(quantile))
        below = (abs(found) < expected).mean()
        assert abs(below - quantile) < 4 * math.sqrt(quantile * (1 - quantile) / N_DRAWS)


def test_searched_counts_are_drawn_by_the_products_of_their_mean_probabilities() -> None:
    space = SearchSpace(tuple(OPERATIONS.values())[:4], 1, (0.5, 0.25, 0.25), searches_count=True)
    row = torch.cat([torch.ones(space.n - 2), torch.tensor([0.8, 0.3])])
    spread = torch.cat([torch.zeros(space.n - 2), torch.tensor([1.5, 1.0])])
    plain, generator = plain_row(space, row, spread), torch.Generator().manual_seed(1)
    first, second = (
        quad(lambda x, p=p, s=s: expit(logit(p) + s * x) * norm.pdf(x), -12, 12)[0] for p, s in ((0.8, 1.5), (0.3, 1.0))
    )
    numbers = np.array([len(draw_for_one(plain, generator)) for _ in range(N_DRAWS)])
    expected = [1 - first, first * (1 - second), first * second]
    assert [(numbers == k).mean() for k in range(3)] == pytest.approx(expected, abs=0.015)
