"""Rates of application: what hba draws, counted, and small cases by hand or by every
outcome.
"""

import itertools
import math

import numpy as np
import pytest
import torch

from hba.operations import OPERATIONS
from hba.policy.draw import applied, draw_steps, draw_with_trace, poisson_binomial
from hba.policy.space import SearchSpace

N_IMAGES = 100_000
SOME = [0.9, 0.05, 0.5, 1.0, 0.0, 0.3]


@pytest.mark.parametrize("count", [(0.2, 0.3, 0.5), (0.0, 0.0, 0.0, 1.0)])
def test_slots_are_applied_as_often_as_hba_draws_them_at_each_step(
    count: tuple[float, ...],
) -> None:
    space = SearchSpace(
        tuple(OPERATIONS[name] for name in ("Invert", "Equalize", "AutoContrast")),
        2,
        count,
    )
    drawn = draw_with_trace(
        space, torch.tensor(SOME), N_IMAGES, torch.Generator().manual_seed(0)
    )[0].slots
    expected = applied(SOME, np.cumsum(count)[:-1])
    assert expected.shape == (space.max_count, len(space.slots))
    for step in range(space.max_count):
        found = (
            np.bincount(
                drawn[:, step][drawn[:, step] >= 0].numpy(), minlength=len(space.slots)
            )
            / N_IMAGES
        )
        assert (
            np.abs(found - expected[step])
            <= 5 * np.sqrt(expected[step] / N_IMAGES) + 1e-12
        ).all()


def test_two_slots_by_hand() -> None:
    """Slot 0 is first where it fires alone, and half of the time where both fire."""
    both = 0.5 * 0.2
    first, second = applied([0.5, 0.2], [0.25, 0.5])
    assert first == pytest.approx([0.75 * (0.5 - both / 2), 0.75 * (0.2 - both / 2)])
    assert second == pytest.approx([0.5 * both / 2] * 2)
    stages = draw_steps([0.5, 0.2], [0.25, 0.5])
    assert [chance for chance, _ in stages] == pytest.approx(
        [0.75 * 0.6, 0.5 * both / (0.75 * 0.6)]
    )
    assert [shares.sum() for _, shares in stages] == pytest.approx([1.0, 1.0])


def test_numbers_of_events_are_those_of_all_outcomes() -> None:
    chances = SOME[:4]
    expected = [0.0] * (len(chances) + 1)
    for outcome in itertools.product((False, True), repeat=len(chances)):
        likely = math.prod(
            chance if came else 1 - chance
            for chance, came in zip(chances, outcome, strict=True)
        )
        expected[sum(outcome)] += likely
    assert poisson_binomial(chances) == pytest.approx(expected)
