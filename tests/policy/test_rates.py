"""Rates of application, by hand and by every outcome."""

import itertools
import math

import numpy as np
import pytest
from enumerated_walks import exact_outcomes

from hba.policy.draw import applied, draw_steps, poisson_binomial

SOME = [0.9, 0.05, 0.5, 1.0, 0.0]


@pytest.mark.parametrize("counts", [(0.2, 0.3, 0.5), (0.0, 0.0, 0.0, 1.0)])
def test_rates_of_each_step_are_those_of_all_outcomes(
    counts: tuple[float, ...],
) -> None:
    expected = np.zeros((len(counts) - 1, len(SOME)))
    for (outcome, _), chance in exact_outcomes(SOME, counts).items():
        for step, slot in enumerate(outcome):
            expected[step, slot] += chance
    assert applied(SOME, np.cumsum(counts)[:-1]) == pytest.approx(expected)


def test_two_slots_by_hand() -> None:
    """Slot 0 is first where it fires alone, and half of the time where both fire."""
    both_fire = 0.5 * 0.2
    first, second = applied([0.5, 0.2], [0.25, 0.5])
    assert first == pytest.approx(
        [0.75 * (0.5 - both_fire / 2), 0.75 * (0.2 - both_fire / 2)]
    )
    assert second == pytest.approx([0.5 * both_fire / 2] * 2)
    stages = draw_steps([0.5, 0.2], [0.25, 0.5])
    assert [chance for chance, _ in stages] == pytest.approx(
        [0.75 * 0.6, 0.5 * both_fire / (0.75 * 0.6)]
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
