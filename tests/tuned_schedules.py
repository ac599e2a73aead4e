"""Schedules with regularizers, beside operations and alone, with operations of several
stages, and with random values.
"""

from typing import Any

import numpy as np

from hba.operations import OPERATIONS, STAGED
from hba.policy.space import SearchSpace
from hba.regularization.groups import REGULARIZERS
from hba.regularization.regularizer import Hyperparameter
from hba.schedule.schedule import Schedule

DROPOUT = Hyperparameter("dropout.fc1", 0.0, 0.95, 0.05)
DECAY = Hyperparameter("weight_decay", 1e-6, 0.1, 5e-4, "log")
FURTHER = (
    *REGULARIZERS["label_smoothing"].hyperparameters,
    *REGULARIZERS["input_dropout"].hyperparameters,
)
OPERATIONS_OF_BOTH = (OPERATIONS["Rotate"], OPERATIONS["Invert"])
POLICY = ([0.25, 3.0, 0.5], [0.5, 12.0, 0.25], [0.75, 24.0, 0.125])
OTHERS = ([0.05, 5e-4, 0.05, 0.05], [0.1, 1e-3, 0.1, 0.2], [0.31, 1e-2, 0.25, 0.4])
"""Of dropout, weight decay, label smoothing and dropout of the input."""
TUNED = (DROPOUT, DECAY, *FURTHER)
NAMES = tuple(hyperparameter.name for hyperparameter in TUNED)


def both(spread: Any = 0.0, **provenance: Any) -> Schedule:
    """Three epochs of Rotate and Invert, dropout, weight decay, label smoothing and
    dropout of the input.
    """
    space = SearchSpace(OPERATIONS_OF_BOTH, 1, (0.5, 0.5), regularizers=TUNED)
    rows = np.hstack([POLICY, OTHERS])
    return Schedule(space, rows, provenance=provenance, spread=np.array(spread))


def alone(**provenance: Any) -> Schedule:
    """The same without operations."""
    return both(**provenance).without_operations()


def random_schedule(space: SearchSpace, epochs: int, **options: Any) -> Schedule:
    """Values uniform in their ranges."""
    low, high = np.array(space.ranges).T
    shares = np.random.default_rng(0).random((epochs, space.n))
    return Schedule(space, low + (high - low) * shares, **options)


def staged(**provenance: Any) -> Schedule:
    """Two epochs of a flip, a crop, Rotate, Mixup and CutMix."""
    rows = [
        [0.5, 0.25, 0.75, 0.25, 3.0, 0.25, 0.25, 0.5, 0.5],
        [0.25, 0.5, 0.5, 0.75, 24.0, 0.25, 0.5, 0.5, 1.0],
    ]
    named = {**OPERATIONS, **STAGED}
    chosen = [
        named[name]
        for name in ("HorizontalFlip", "ResizedCrop", "Rotate", "Mixup", "CutMix")
    ]
    return Schedule(
        SearchSpace(tuple(chosen), 1, (0.5, 0.5)), np.array(rows), provenance=provenance
    )
