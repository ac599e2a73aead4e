"""The history of a search: what it notes at the end of every epoch, and keeps when it is interrupted."""

import math
from dataclasses import dataclass, field

import numpy as np
from torch import Tensor

from hba.policy.space import SearchSpace

VALUE_DIGITS = 6

Metrics = dict[str, float | None]


@dataclass
class History:
    """epochs: how many there are to be. lengthened: how that came to be more than it was, as extend_epochs.py says.

    rows: one row of values (n,) in natural units for each finished epoch. spreads: a number each, in logits, or one for
    each hyperparameter where the noise is learnt. metrics: one mapping for each. seconds: computing time so far, over
    all runs.
    """

    epochs: int
    rows: list[list[float]] = field(default_factory=list)
    spreads: list[float | list[float]] = field(default_factory=list)
    metrics: list[Metrics] = field(default_factory=list)
    seconds: float = 0.0
    lengthened: list[dict[str, int]] = field(default_factory=list)

    def note(self, row: list[float], spread: float | list[float], metrics: Metrics, space: SearchSpace) -> None:
        """An epoch that ended, with its row and spread as they were computed."""
        self.spreads.append(_rounded(spread))
        self.metrics.append({**metrics, "seconds": self.seconds})
        rounded = [float(np.round(value, decimals_of(*ends))) for value, ends in zip(row, space.ranges, strict=True)]
        for column in range(space.n_of_policy, space.n):
            # Six decimals of a weight decay of 1e-6 would be a single digit.
            rounded[column] = float(f"{row[column]:.{VALUE_DIGITS}g}")
        # Rounding must not carry a value past the end of its range.
        self.rows.append(np.clip(rounded, *np.sort(space.ranges).T).tolist())


def decimals_of(low: float, high: float) -> int:
    """Of a value in a range: six, and more where the range is narrower than a tenth."""
    width = abs(high - low)
    return VALUE_DIGITS + (max(0, -1 - math.floor(math.log10(width))) if width else 0)


def _rounded(spread: float | list[float]) -> float | list[float]:
    if isinstance(spread, list):
        return [round(one, VALUE_DIGITS) for one in spread]
    return round(spread, VALUE_DIGITS)


def row_of(space: SearchSpace, lam: Tensor) -> list[float]:
    """lambda (n,) in natural units."""
    row: list[float] = space.decode(lam.detach().double()).tolist()
    return row


def is_finite(row: list[float], loss: float) -> bool:
    """Whether an epoch that ended so has not diverged."""
    return math.isfinite(loss) and all(map(math.isfinite, row))


def finite_or_none(value: float | None) -> float | None:
    """JSON has no word for infinity and not-a-number."""
    return value if value is not None and math.isfinite(value) else None
