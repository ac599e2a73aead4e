"""What other programs call a policy: a list of sub-policies, of which every image gets one.

A sub-policy is a sequence of independent steps. A step applies at most one of its choices.

    source                 sub-policies                      steps, and the choices of each
    Fast AutoAugment       those of the list                 one for each operation, with a single choice
    AutoAlbument           its Sequentials                   one for each OneOf
    RandAugment            one                               two, of one choice for each operation
    TrivialAugment         one                               one, of a choice for each operation and strength
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from hba.policy.rates import Floats, poisson_binomial


class Choice(NamedTuple):
    """chance: its probability in the step. magnitude: in hba's units, without sign if hba draws it; None for none."""

    operation: str
    chance: float
    magnitude: float | None = None


Step = tuple[Choice, ...]


class SubPolicy(NamedTuple):
    """weight: in proportion to its probability."""

    steps: tuple[Step, ...]
    weight: float = 1.0


class Weighted(NamedTuple):
    """A magnitude, and how often an image gets it."""

    rate: float
    magnitude: float


def choices_of(policy: Sequence[SubPolicy]) -> Iterator[tuple[Choice, float]]:
    """Every choice, and how often an image gets it."""
    total = math.fsum(one.weight for one in policy)
    for one in policy:
        for step in one.steps:
            for choice in step:
                yield choice, one.weight / total * choice.chance


def rates_of(policy: Sequence[SubPolicy]) -> dict[str, float]:
    """How often an image gets each operation, on average, without those that it never gets."""
    rates: dict[str, float] = {}
    for choice, rate in choices_of(policy):
        if rate > 0:
            rates[choice.operation] = rates.get(choice.operation, 0.0) + rate
    return rates


def magnitudes_of(policy: Sequence[SubPolicy], operation: str) -> list[Weighted]:
    """The distinct magnitudes of an operation, the largest first; none for an operation without magnitude."""
    found: dict[float, float] = {}
    for choice, rate in choices_of(policy):
        if choice.operation == operation and choice.magnitude is not None and rate > 0:
            found[choice.magnitude] = found.get(choice.magnitude, 0.0) + rate
    return [Weighted(found[magnitude], magnitude) for magnitude in sorted(found, reverse=True)]


def numbers_of(policy: Sequence[SubPolicy]) -> Floats:
    """Probabilities that an image gets 0, 1, ... operations, up to the most that are possible."""
    total = math.fsum(one.weight for one in policy)
    most = max(len(one.steps) for one in policy)
    numbers = np.zeros(most + 1)
    for one in policy:
        of_one = poisson_binomial(min(1.0, math.fsum(choice.chance for choice in step)) for step in one.steps)
        numbers[: len(of_one)] += one.weight / total * of_one
    possible = np.flatnonzero(numbers > 0)
    return numbers[: possible[-1] + 1]


def without(policy: Sequence[SubPolicy], names: set[str]) -> tuple[SubPolicy, ...]:
    """The same without some operations: a step that chose one of them does nothing."""
    return tuple(
        SubPolicy(
            tuple(tuple(choice for choice in step if choice.operation not in names) for step in one.steps), one.weight
        )
        for one in policy
    )
