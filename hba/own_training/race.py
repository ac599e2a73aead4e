"""A race of trainings by rising effort, which chooses a policy, and a test of it.

symbol   in the code   meaning
E        EFFORTS       shares of a whole training, rising to 1
s_rki    scores        score of validation example i after a training with policy r and
                       seed k

    train with each policy and effort E_1
    for each larger effort
        drop the worse half of the policies
        train with each remaining policy and this effort
    while the time allows it, train with each remaining policy and one more seed
    choose the policy with the highest mean score of the examples that choose
    train with it and with the references, with new seeds, as often as the time allows
    compare them by these seeds and by the other examples

This is successive halving (Jamieson and Talwalkar 2016, AISTATS), with a gentler rate
at first, because short trainings prefer weak augmentation. The examples that choose
have no part in the test, and neither have the seeds: the best of many scores is partly
luck, which a test by the same ones would repeat. With a single score for a whole
validation set, only the seeds differ.
"""

import math
from collections.abc import Mapping

import numpy as np

from hba.results.statistics import CrossedDifference

EFFORTS = (1 / 9, 1 / 3, 1.0)
"""Efforts of the rounds of the race."""
FEWEST_LEFT = 2
"""At least so many policies reach the last round."""
MOST_SEEDS_OF_RACE = 3
"""The most seeds of the last round."""
LEAST_SEEDS = 2
"""The fewest seeds of the test."""
MOST_SEEDS = 10
"""The most seeds of the test."""


def sizes_of_rounds(n_policies: int) -> list[int]:
    """The number of policies in each round."""
    sizes = [n_policies]
    while len(sizes) < len(EFFORTS):
        sizes.append(max(min(FEWEST_LEFT, n_policies), math.ceil(sizes[-1] / 2)))
    return sizes


def cost_of_race(n_policies: int, n_jobs: int) -> float:
    """The time of a race of so many policies, in whole trainings, n_jobs at a time."""
    return sum(
        effort * math.ceil(size / n_jobs)
        for effort, size in zip(EFFORTS, sizes_of_rounds(n_policies), strict=True)
    )


def chooses(n_examples: int) -> np.ndarray:
    """Which examples choose, bool (n_examples,): a random half; a single one does, and
    also tests.
    """
    if n_examples == 1:
        return np.ones(1, dtype=bool)
    order = np.random.default_rng(0).permutation(n_examples)
    return order < n_examples // 2


def tests(n_examples: int) -> np.ndarray:
    """Which examples test: all others; a single one does, and also chooses."""
    is_choosing = chooses(n_examples)
    return is_choosing if n_examples == 1 else ~is_choosing


def ranked(scores: Mapping[str, np.ndarray]) -> list[str]:
    """The policies, the best first; of equal ones the first.

    Args:
        scores: By policy, (seeds, examples).
    """
    means = {
        policy: float(of_policy[:, chooses(of_policy.shape[1])].mean())
        for policy, of_policy in scores.items()
    }
    return sorted(means, key=lambda policy: -means[policy])


def compared(scores: np.ndarray, others: np.ndarray) -> CrossedDifference:
    """How the scores of a policy differ from those of another one.

    Differences are divided by the largest one, because the scale of scores is unknown.
    A positive mean means a lower score, as for errors.

    Args:
        scores: (seeds, examples).
        others: Of the other policy, for the same seeds and examples.
    """
    is_testing = tests(scores.shape[1])
    differences = (others - scores)[:, is_testing]
    largest = float(np.abs(differences).max())
    if largest > 0:
        differences = differences / largest
    n_examples = differences.shape[1]
    means = (100 * differences.mean(axis=1)).tolist()
    if n_examples == 1:
        return CrossedDifference.of(means, [0.0] * len(means), None)
    return CrossedDifference.of(means, [0.0] * len(means), n_examples, differences)
