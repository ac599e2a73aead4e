"""How many images an operation reaches: computed from the walk of hba/policy/draw.py, without drawing.

A slot's probability says how often it would fire. Of the slots that fire for an image, in random order, only the first
K are applied. So far fewer images get an operation than its probability suggests.

    symbol  in the code    meaning
    f       own            how many copies of the operation fire
    m       others         how many other slots fire
    K       count          how many operations the image may get

All orders of the f + m slots are equally likely. So none of the f is among the first K with probability
C(m, K) / C(f + m, K).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import comb

import numpy as np

from hba.policy.space import SearchSpace
from hba.schedule.schedule import Schedule


@dataclass(frozen=True)
class Reach:
    """What share of images a policy reaches; all in [0, 1] but per_image.

    shares: by the operation's name, the share of images to which at least one of its copies is applied, whether its
    magnitude then changes anything or not. per_image: mean number of operations that are applied to an image.
    unchanged: share of images to which none is applied.
    """

    shares: Mapping[str, float]
    per_image: float
    unchanged: float


def reach(schedule: Schedule, epoch: int) -> Reach:
    """Of the policy of an epoch, counted from 0."""
    space, values = schedule.space, schedule.values[epoch]
    fires = [float(values[slot.probability]) for slot in space.slots]
    copies = {
        operation.name: slice(number * space.copies, (number + 1) * space.copies)
        for number, operation in enumerate(space.operations)
    }
    n_fired = _counts(fires)
    return Reach(
        {
            name: 1 - _missed(space, _counts(fires[own]), _counts(fires[: own.start] + fires[own.stop :]))
            for name, own in copies.items()
        },
        sum(
            chance * fired * min(count, number)
            for count, chance in enumerate(space.count_probabilities)
            for number, fired in enumerate(n_fired)
        ),
        sum(chance * (1.0 if count == 0 else n_fired[0]) for count, chance in enumerate(space.count_probabilities)),
    )


def _counts(probabilities: Iterable[float]) -> list[float]:
    """How likely 0, 1, 2, ... of independent events are: the Poisson binomial distribution."""
    distribution = np.ones(1)
    for probability in probabilities:
        distribution = np.convolve(distribution, (1 - probability, probability))
    return distribution.tolist()


def _missed(space: SearchSpace, own: list[float], others: list[float]) -> float:
    """The probability that no copy of an operation is applied."""
    return sum(
        chance * p_own * p_others * _none_applied(f, m, count)
        for count, chance in enumerate(space.count_probabilities)
        for f, p_own in enumerate(own)
        for m, p_others in enumerate(others)
    )


def _none_applied(f: int, m: int, count: int) -> float:
    """The probability that none of f slots is among the first `count` of f + m."""
    if f + m < count:
        return float(f == 0)
    return comb(m, count) / comb(f + m, count)
