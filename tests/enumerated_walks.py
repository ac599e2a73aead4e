"""Every outcome of the walk (PBA, Algorithm 1): all orders, firings and K."""

import itertools
import math
from collections import defaultdict
from collections.abc import Sequence

Outcome = tuple[int, ...]
"""The slots applied to an image, in their order."""


def exact_outcomes(
    probabilities: Sequence[float], counts: Sequence[float]
) -> dict[tuple[Outcome, int], float]:
    """The probability of every outcome, with the number of slots that were visited.

    The visit ends at the slot that fires as the K-th.

    Args:
        probabilities: That each slot fires.
        counts: Of K = 0, 1, ...
    """
    n_slots = len(probabilities)
    outcomes: dict[tuple[Outcome, int], float] = defaultdict(float)
    for order in itertools.permutations(range(n_slots)):
        for fires in itertools.product((False, True), repeat=n_slots):
            chance = 1 / math.factorial(n_slots)
            for slot, fired in enumerate(fires):
                chance *= probabilities[slot] if fired else 1 - probabilities[slot]
            fired_in_order = tuple(slot for slot in order if fires[slot])
            for count, count_probability in enumerate(counts):
                applied = fired_in_order[:count]
                n_visited = (
                    order.index(applied[-1]) + 1
                    if len(applied) == count and count
                    else n_slots * (count > 0)
                )
                outcomes[applied, n_visited] += chance * count_probability
    return outcomes
