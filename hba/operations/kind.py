"""What operations are to the code that applies them: a kind says which of them are computed together, and how."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from torch import Tensor

    from hba.operations.operation import Operation
    from hba.operations.resample import Maps
    from hba.operations.steps import Pick, Step


class Kind(ABC):
    """The function of an operation, called as Operation.function is, that also knows how to compute several in one go.

    A subclass overrides what it does better than one operation after the other. Kinds are values: equal where they do
    the same, and hashable.
    """

    interpolation: str | None = None
    """How pixels between pixels are found: nearest or bilinear; None for a kind that moves no pixels."""

    @abstractmethod
    def __call__(self, *arguments: Any, **named: Any) -> Tensor:
        """New images (B, C, H, W)."""

    @property
    def batch_group(self) -> Hashable | None:
        """Operations with equal groups share a call of on_batch; with None, each has its own."""
        return None

    @property
    def own_images_group(self) -> Hashable | None:
        """Operations with equal groups share a call of on_own_images; with None, each has its own."""
        return None

    def map_coefficients(self, magnitude: Tensor, height: int, width: int) -> Mapping[str, Tensor]:
        """The coefficients {name: (...)} of the affine map of pixels, as far as they may differ from the identity's."""
        return {}

    def maps(self, magnitude: Tensor, height: int, width: int) -> Maps:
        """The affine map of pixels for magnitudes (N,) float64; the identity of a kind that moves none."""
        from hba.operations.resample import Maps, identity_coefficients

        own = self.map_coefficients(magnitude, height, width)
        return Maps.of({**identity_coefficients(magnitude), **own})

    def on_own_images(self, operation: Operation, images: Tensor, step: Step, fill: Tensor) -> Tensor:
        """New images (N, C, H, W), from those that get an operation of the group; `operation` is one of the group."""
        return operation(images, step.magnitude, fill=fill, position=step.position)

    def on_batch(self, picks: Sequence[Pick[Self]], images: Tensor, step: Step, fill: Tensor) -> Tensor:
        """New images (B, C, H, W), from a whole batch; what becomes of images that get none of the group is not used.

        picks: the group's operations. Shapes must not depend on what was drawn, and nothing may wait for the device.
        """
        (pick,) = picks
        return pick.operation(images, pick.own_magnitude(), fill=fill, position=step.position)

    def with_interpolation(self, interpolation: str) -> Self:
        """The same with another interpolation, for a kind that moves pixels."""
        return self


@dataclass(frozen=True)
class Own(Kind):
    """A plain function, a user's for example: each operation is computed by itself."""

    function: Callable[..., Tensor]

    def __call__(self, *arguments: Any, **named: Any) -> Tensor:
        return self.function(*arguments, **named)
