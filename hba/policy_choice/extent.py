"""How much a run of `hba auto` does, by its budget."""

import math
from collections.abc import Mapping
from typing import NamedTuple


class Extent(NamedTuple):
    """How much a run does, if its time allows it."""

    rows: int
    """Largest number of policies in the contest."""
    seeds: int
    """Largest number of seeds of the contest."""
    test_seeds: int
    """Number of seeds of the test to plan with."""
    networks: int = 1
    """How many networks are compared by trainings."""
    search: float = 0.0
    """Time of the search, in multiples of one of several parallel trainings."""


LEAST = Extent(rows=3, seeds=1, test_seeds=1)
"""The smallest extent of a run."""
SERIAL_SECONDS = 120.0
"""A run of at most this time starts no processes, because each start takes seconds."""
EXTENTS: Mapping[float, Extent] = {
    SERIAL_SECONDS: Extent(rows=3, seeds=1, test_seeds=2, networks=4),
    600.0: Extent(rows=5, seeds=1, test_seeds=2, networks=4),
    3600.0: Extent(rows=7, seeds=2, test_seeds=2, networks=4),
    math.inf: Extent(rows=10, seeds=3, test_seeds=3, networks=6),
}
"""By the shortest budget for which they are no longer used."""


def extent_of_budget(seconds: float) -> Extent:
    """The extent to plan with, before what depends on settings.

    Args:
        seconds: The budget.
    """
    return next(extent for end, extent in EXTENTS.items() if seconds < end)
