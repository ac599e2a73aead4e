"""Regularizer: a group of hyperparameters that are tuned together, and the function
that they control.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from hba.errors import SettingsError

if TYPE_CHECKING:
    from torch import Tensor

Place = Literal["inputs", "network", "loss"]
LARGEST_LOGIT = 5.0
"""Largest absolute logit of an initial value: one at an end of its range would hardly
move.
"""


@dataclass(frozen=True)
class Hyperparameter:
    """A number that a search tunes.

    Its position in its range is the sigmoid of a logit, as for operations.
    """

    name: str
    """Its group's name, or `<group>.<own name>`."""
    low: float
    """Low end of the range, in natural units."""
    high: float
    """High end of the range, in natural units."""
    initial: float
    """Initial value, in natural units."""
    scale: Literal["linear", "log"] = "linear"
    """`log` for a logarithmic range."""
    whole: bool = False
    """Whether it is rounded to the nearest whole number when it acts; searched and
    saved values are not rounded.
    """
    unit: str | None = None
    """Unit for display; None without one."""

    def __post_init__(self) -> None:
        is_range = (
            0 < self.high - self.low < math.inf
            and self.low <= self.initial <= self.high
        )
        is_scale = self.scale == "linear" or (self.scale == "log" and self.low > 0)
        if not (all(self.name.split(".")) and is_range and is_scale):
            range_ = (
                "a finite ascending range that holds its initial value, and a scale,"
                " linear, or log above 0"
            )
            raise SettingsError(
                "a hyperparameter must have a name of words separated by dots,"
                f" {range_}; got {self}"
            )

    @property
    def group(self) -> str:
        return self.name.partition(".")[0]

    @property
    def own_name(self) -> str:
        """The name after the group's, or `value` if there is none."""
        return self.name.partition(".")[2] or "value"

    @property
    def initial_logit(self) -> float:
        """Logit of the initial value, within LARGEST_LOGIT."""
        numbers = (self.low, self.high, self.initial)
        low, high, initial = (
            math.log(number) if self.scale == "log" else number for number in numbers
        )
        place = (initial - low) / (high - low)
        if not 0 < place < 1:
            return math.copysign(LARGEST_LOGIT, place - 0.5)
        return max(-LARGEST_LOGIT, min(LARGEST_LOGIT, math.log(place / (1 - place))))


@dataclass(frozen=True)
class Regularizer:
    """A group of hyperparameters, whose names begin with its name.

    In `tune`, its name has dashes instead of `_`. To change images in [0, 1], register
    an operation with hba.register_operation.

    place    function                                   acts on
    inputs   f(images, generator, **values) -> images   the network's input,
                                                        standardized
    loss     f(logits, labels, **values) -> (B,) or ()  the training loss, to which its
                                                        mean is added
    network  none                                       the network (dropout,
                                                        weight_decay; built-in only)
    """

    name: str
    """Name of the group, one word."""
    hyperparameters: tuple[Hyperparameter, ...]
    """Its hyperparameters."""
    place: Place
    """Where it acts, as in the table."""
    function: Callable[..., Tensor] | None = None
    """The function in the table. `values` has, by own name, one number for each image
    (B,), in natural units, on the device.
    """
    tasks: tuple[str, ...] | None = None
    """Names of the tasks that can tune it, in `hba.tasks.TASKS`; None for all tasks on
    images. The function gets the inputs, or the outputs and labels, of these tasks.
    """

    def __post_init__(self) -> None:
        names = [hyperparameter.name for hyperparameter in self.hyperparameters]
        is_named = self.name.isidentifier() and all(
            hyperparameter.group == self.name for hyperparameter in self.hyperparameters
        )
        is_placed = self.place in get_args(Place) and (self.place == "network") == (
            self.function is None
        )
        if not (is_named and is_placed and len(set(names)) == len(names)):
            rule = (
                "a name in one word, hyperparameters with different names <name>.<own"
                " name>, a function and a place"
            )
            raise SettingsError(
                f"a regularizer must have {rule} of {', '.join(get_args(Place))}, got"
                f" {self}"
            )

    def __call__(self, *arguments: Any, **values: Any) -> Tensor:
        assert self.function is not None
        return self.function(*arguments, **values)

    @property
    def tuned_as(self) -> str:
        """Its name in the setting `tune`."""
        return self.name.replace("_", "-")
