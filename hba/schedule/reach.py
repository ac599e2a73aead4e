"""How many images an operation reaches: computed from the walk of hba/policy/draw.py, without drawing.

A slot's probability says how often it would fire; where that is spread, it is its mean over images. Of the slots that
fire for an image, in random order, only the first K are applied. So far fewer images get an operation than its
probability suggests.

    symbol  in the code    meaning
    f       own            how many copies of the operation fire
    m       others         how many other slots fire
    K       count          how many operations the image may get

All orders of the f + m slots are equally likely. So none of the f is among the first K with probability
C(m, K) / C(f + m, K).
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from math import comb

import numpy as np
import torch

from hba.policy.draw import count_limits
from hba.policy.rates import Floats, applied, poisson_binomial
from hba.policy.spread import mean_probabilities
from hba.schedule.schedule import Schedule


@dataclass(frozen=True)
class Reach:
    """What share of images a policy reaches, in [0, 1].

    shares: by the operation's name, the share of images to which at least one of its copies is applied, whether its
    magnitude then changes anything or not. numbers: shares of images to which 0, 1, 2, ... operations are applied.
    """

    shares: Mapping[str, float]
    numbers: tuple[float, ...]

    @property
    def per_image(self) -> float:
        """Mean number of operations that are applied to an image."""
        return sum(number * share for number, share in enumerate(self.numbers))

    @property
    def unchanged(self) -> float:
        """Share of images to which none is applied."""
        return self.numbers[0]


@dataclass(frozen=True)
class _Walks:
    """fires: how often each slot fires. chances: of K = 0, 1, 2, ..."""

    fires: list[float]
    chances: list[float]


def _walks(schedule: Schedule, epoch: int) -> _Walks:
    space = schedule.space
    values, spread = (torch.tensor(rows[epoch]) for rows in (schedule.values, schedule.spread))
    means = mean_probabilities(space, values, spread)
    limits = count_limits(space, means).tolist()
    return _Walks(
        [float(means[slot.probability]) for slot in space.slots],
        [after - before for before, after in itertools.pairwise([0.0, *limits, 1.0])],
    )


def reach(schedule: Schedule, epoch: int) -> Reach:
    """Of the policy of an epoch, counted from 0."""
    space, walks = schedule.space, _walks(schedule, epoch)
    fires, numbers = walks.fires, poisson_binomial
    copies = {
        operation.name: slice(number * space.copies, (number + 1) * space.copies)
        for number, operation in enumerate(space.operations)
    }
    return Reach(
        {
            name: 1 - _missed(walks.chances, numbers(fires[own]), numbers(fires[: own.start] + fires[own.stop :]))
            for name, own in copies.items()
        },
        _numbers(walks),
    )


def applied_per_image(schedule: Schedule, epoch: int) -> Mapping[str, float]:
    """By the operation's name, how often it is applied to an image on average, its copies together; at an epoch from 0.

    They add up to Reach.per_image.
    """
    space, walks = schedule.space, _walks(schedule, epoch)
    found = dict.fromkeys((operation.name for operation in space.operations), 0.0)
    limits = np.cumsum(walks.chances)[:-1]
    for slot, often in zip(space.slots, applied(walks.fires, limits).sum(axis=0).tolist(), strict=True):
        found[slot.operation.name] += often
    return found


def numbers_applied(schedule: Schedule, epoch: int) -> tuple[float, ...]:
    """The numbers of reach, alone."""
    return _numbers(_walks(schedule, epoch))


def _numbers(walks: _Walks) -> tuple[float, ...]:
    """As many are applied as fire, but at most K."""
    numbers = [0.0] * len(walks.chances)
    for fired, p_fired in enumerate(poisson_binomial(walks.fires)):
        for count, chance in enumerate(walks.chances):
            numbers[min(fired, count)] += p_fired * chance
    return tuple(numbers)


def _missed(chances: list[float], own: Floats, others: Floats) -> float:
    """The probability that no copy of an operation is applied. chances: of K = 0, 1, 2, ..."""
    return sum(
        chance * p_own * p_others * _none_applied(f, m, count)
        for count, chance in enumerate(chances)
        for f, p_own in enumerate(own)
        for m, p_others in enumerate(others)
    )


def _none_applied(f: int, m: int, count: int) -> float:
    """The probability that none of f slots is among the first `count` of f + m."""
    if f + m < count:
        return float(f == 0)
    return comb(m, count) / comb(f + m, count)
