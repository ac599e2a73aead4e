"""A regularizer: a group of hyperparameters that are tuned together, and what they do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from hba.errors import SettingsError
from hba.regularization.hyperparameter import Hyperparameter

if TYPE_CHECKING:
    from torch import Tensor

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
