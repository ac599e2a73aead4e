"""A regularizer: a group of hyperparameters that are tuned together, and what they do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from hba.errors import SettingsError

if TYPE_CHECKING:
    from torch import Tensor
import math

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


Place = Literal["pixels", "inputs", "network", "loss", "states"]
PLACES: tuple[Place, ...] = ("pixels", "inputs", "network", "loss", "states")
ON_IMAGES: tuple[Place, ...] = ("pixels", "inputs")
IN_LOSS: tuple[Place, ...] = ("loss", "states")

Ranges = Mapping[str, Hyperparameter]
"""The hyperparameters of a group by their own names."""


def nothing_fixed(ranges: Ranges) -> Mapping[str, Any]:
    return MappingProxyType({})


@dataclass(frozen=True)
class Regularizer:
    """A group by name, the first word of its hyperparameters' names; in `tune`, a dash stands for each `_`.

    place      function                                      acts on
    pixels     f(images, generator, **values) -> images      images (B, C, H, W) in [0, 1], behind the policy
    inputs     f(images, generator, **values) -> images      what the network takes, standardised
    loss       f(logits, labels, **values) -> (B,) or ()     the training loss, to which its mean is added
    states     f(states, dropped, **values) -> (B,)          the same, by the states (B, T, H) of a recurrent network
                                                             behind its last layer, and by what dropout leaves of them
    network    none: hba changes the network itself (dropout, weight_decay)

    values: by own name, one number for each image (B,), in natural units, on the device. uses_fill: the function takes
    `fill` (C,) too, the colour of what is uncovered. fixed: what else it takes, from the ranges.
    """

    name: str
    hyperparameters: tuple[Hyperparameter, ...]
    place: Place
    function: Callable[..., Tensor] | None = None
    uses_fill: bool = False
    fixed: Callable[[Ranges], Mapping[str, Any]] = nothing_fixed

    def __post_init__(self) -> None:
        wrong = [one.name for one in self.hyperparameters if one.group != self.name]
        if wrong or "." in self.name or not self.name.isidentifier():
            raise SettingsError(
                f"a regularizer must have a name in one word and hyperparameters called <name>.<own name>, got "
                f"{self.name!r} with {', '.join(wrong) or 'no other'}"
            )
        if self.place not in PLACES:
            raise SettingsError(f"place of {self.name} must be one of {', '.join(PLACES)}, got {self.place!r}")
        if self.uses_fill and self.place != "pixels":
            raise SettingsError(f"{self.name} cannot use a fill: only what acts on pixels is told of one")
        own = [one.own_name for one in self.hyperparameters]
        if len(set(own)) < len(own):
            raise SettingsError(
                f"the hyperparameters of {self.name} must have names of their own, got {', '.join(own)}"
            )
        if (self.place == "network") != (self.function is None):
            raise SettingsError(f"the regularizer {self.name} must have a function that acts on {self.place}")

    @property
    def tuned_as(self) -> str:
        """What the setting `tune` calls it."""
        return self.name.replace("_", "-")
