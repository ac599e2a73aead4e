"""How often the slots of a row are applied to an image: the exact rates of the draw in hba/policy/draw.py.

symbol        meaning                                                               shape
probabilities of each slot, that it fires                                           (n_slots,)
limits        probabilities that K is below 1, 2, ..., max_count                    (max_count,)
step          s = 1, 2, ...: the s-th operation that an image gets
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Numbers = Sequence[float] | Floats


class DrawStep(NamedTuple):
    """The s-th operation of an image. chance: that there is one, given an (s - 1)-th. shares: of each slot."""

    chance: float
    shares: Floats


def draw_steps(probabilities: Numbers, limits: Numbers) -> list[DrawStep]:
    """The distribution of an image's first, second, ... operation, as long as there can be one."""
    steps, before = [], 1.0
    for of_slots in applied(probabilities, limits):
        together = float(of_slots.sum())
        if together <= 0:
            break
        steps.append(DrawStep(min(1.0, together / before), of_slots / together))
        before = together
    return steps


def applied(probabilities: Numbers, limits: Numbers) -> Floats:
    """How likely each slot is the s-th operation of an image, shape (max_count, n_slots)."""
    fires = np.array(probabilities, dtype=float)
    # Of n fired slots in a random order, each is as likely as the others to be the s-th.
    shares = fires[:, None] * _numbers_of_others(fires) / np.arange(1, len(fires) + 1)
    at_least: Floats = np.cumsum(shares[:, ::-1], axis=1)[:, ::-1].T
    reached: Floats = (1 - np.array(limits, dtype=float))[:, None] * at_least[: len(limits)]
    return reached


def fired_at_least(probabilities: Numbers) -> Floats:
    """How likely 0, 1, ..., n_slots slots or more fire, whatever K is, shape (n_slots + 1,)."""
    found: Floats = np.cumsum(poisson_binomial(probabilities)[::-1])[::-1]
    return found


def poisson_binomial(probabilities: Iterable[float]) -> Floats:
    """How likely 0, 1, 2, ... of independent events are."""
    numbers: Floats = np.ones(1)
    for probability in probabilities:
        numbers = np.convolve(numbers, (1 - probability, probability))
    return numbers


def _numbers_of_others(fires: Floats) -> Floats:
    """Row i: probabilities that 0, 1, ... of the slots but slot i fire, each by itself, shape (n_slots, n_slots)."""
    n_slots = len(fires)
    numbers = np.zeros((n_slots, n_slots))
    numbers[:, 0] = 1.0
    for slot, chance in enumerate(fires):
        own = np.full((n_slots, 1), chance)
        own[slot] = 0.0
        numbers[:, 1:] = numbers[:, 1:] * (1 - own) + numbers[:, :-1] * own
        numbers[:, :1] *= 1 - own
    return numbers
