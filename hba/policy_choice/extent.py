"""How much a run of `hba auto` does, by its budget."""

import math
from collections.abc import Mapping
from typing import NamedTuple

N_FOLDS = 5
"""Parts of the images, of which each seed of the contest holds out another one. Fewer
parts would leave fewer images to train on, of which networks from random weights need
many.
"""
N_VAL_FOLDS = 2
"""The same for images with validation images of their own, of which alone each seed
holds out a part.
"""


class Extent(NamedTuple):
    """How much a run does, if its time allows it."""

    rows: int
    """Largest number of policies with which the contest begins."""
    seeds: int
    """Largest number of seeds of the contest."""
    test_seeds: int
    """Number of seeds of the test to plan with."""
    networks: int = 1
    """How many networks are compared by trainings."""
    changed: int = 0
    """Largest number of changed policies in the contest."""
    contest_share: float = 1 - 1 / N_FOLDS
    """Images in a training of the contest, as a share of those in one of the test."""
    search: float = 0.0
    """Time of the search, in multiples of one of several parallel trainings."""


LEAST = Extent(rows=3, seeds=1, test_seeds=1)
"""The smallest extent of a run."""
SERIAL_SECONDS = 120.0
"""A run of at most this time starts no processes, because each start takes seconds."""
EXTENTS: Mapping[float, Extent] = {
    SERIAL_SECONDS: Extent(rows=4, seeds=1, test_seeds=2, networks=4, changed=3),
    600.0: Extent(rows=5, seeds=1, test_seeds=2, networks=4, changed=2),
    3600.0: Extent(rows=7, seeds=2, test_seeds=2, networks=4, changed=4),
    math.inf: Extent(rows=10, seeds=3, test_seeds=3, networks=6, changed=12),
}
"""By the shortest budget for which they are no longer used."""


def contest_share_of(n_images: int, n_val: int, *, trains_on_val: bool) -> float:
    """The contest_share of an extent.

    Args:
        n_images: Number of images for training and validation.
        n_val: Number of those that are in the data's own validation split.
        trains_on_val: Whether the test trains on them.
    """
    if not n_val:
        return 1 - 1 / N_FOLDS
    return 1 - n_val / (N_VAL_FOLDS * n_images) if trains_on_val else 1.0


def extent_of_budget(seconds: float) -> Extent:
    """The extent to plan with, before what depends on settings.

    Args:
        seconds: The budget.
    """
    return next(extent for end, extent in EXTENTS.items() if seconds < end)
