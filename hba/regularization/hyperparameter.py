"""A hyperparameter of the regularisation: its name, its range, and where a search for it begins."""

import math
from dataclasses import dataclass
from typing import Literal

from hba.errors import SettingsError

Scale = Literal["linear", "log"]
LARGEST_LOGIT = 5.0
"""Of a start: what begins at an end of its range could not be told to move."""


@dataclass(frozen=True)
class Hyperparameter:
    """One number that a search moves. Its place in its range is the sigmoid of a logit, like an operation's.

    name: that of its group alone, or `<group>.<own name>`. low, high: natural units. initial: where a search begins,
    in natural units. scale: `log` spreads the range by its logarithm. whole: it is rounded to the nearest whole number
    where it acts; what is searched and kept is not. unit: for people; None without one.
    """

    name: str
    low: float
    high: float
    initial: float
    scale: Scale = "linear"
    whole: bool = False
    unit: str | None = None

    def __post_init__(self) -> None:
        if not all(self.name.split(".")):
            raise SettingsError(f"the name of a hyperparameter must be words with dots between, got {self.name!r}")
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise SettingsError(f"the range of {self.name} must be finite and ascend, got {self.low} to {self.high}")
        if not self.low <= self.initial <= self.high:
            raise SettingsError(f"initial of {self.name} must lie in [{self.low}, {self.high}], got {self.initial}")
        if self.scale not in ("linear", "log"):
            raise SettingsError(f"scale of {self.name} must be linear or log, got {self.scale!r}")
        if self.scale == "log" and self.low <= 0:
            raise SettingsError(f"a log scale of {self.name} must begin above 0, got {self.low}")

    @property
    def group(self) -> str:
        """The first word of its name."""
        return self.name.partition(".")[0]

    @property
    def own_name(self) -> str:
        """What its group calls it: the name behind the group's, or `value` where there is none."""
        return self.name.partition(".")[2] or "value"

    @property
    def initial_logit(self) -> float:
        """Of the start, within LARGEST_LOGIT."""
        low, high, initial = (math.log(one) if self.scale == "log" else one for one in self._numbers)
        place = (initial - low) / (high - low)
        if not 0 < place < 1:
            return math.copysign(LARGEST_LOGIT, place - 0.5)
        return max(-LARGEST_LOGIT, min(LARGEST_LOGIT, math.log(place / (1 - place))))

    @property
    def _numbers(self) -> tuple[float, float, float]:
        return self.low, self.high, self.initial
