"""What an operation is."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hba.errors import SettingsError
from hba.operations.kind import Kind, Own
from hba.operations.on_pil import RESAMPLING

if TYPE_CHECKING:
    from PIL import Image
    from torch import Tensor

    from hba.operations.on_pil import OnPil

ALL = "all"
"""In a list of operations, all of the search space."""
INTERPOLATIONS = ("nearest", "bilinear")


@dataclass(frozen=True)
class Operation:
    """One image operation: what it does, and what its magnitude means.

    function: takes images (B, C, H, W), float in [0, 1], then, as far as the operation has them, a magnitude for each
    (B,), a colour (C,) and a place for each (B, 2). It returns new images of that shape, type and range, and does not
    change what it gets.
    magnitude_range: (low, high) in `unit`, None for an operation without magnitude. It may descend; a search starts
    near its first end.
    identity: the magnitude that changes no image; it may lie outside the range. None where there is none.
    pil: the PIL call that defines the result.
    on_pil: the operation on a PIL image; on_pil.py beside this file lists its arguments.
    signed: the magnitude is negated with probability 0.5 when it is drawn.
    moves_pixels: whether what a pixel shows may stand elsewhere afterwards, so that boxes, masks and keypoints of the
    image have to move too; None where nobody has said so.
    any_channels: whether it treats each channel alone, and so takes any number of them; otherwise it takes 1, grey, and
    3, red, green and blue.
    uses_fill, uses_position: the function takes a colour, or a place drawn uniformly from [0, 1).
    Raises SettingsError for an operation that contradicts itself.
    """

    name: str
    function: Callable[..., Tensor]
    magnitude_range: tuple[float, float] | None = None
    unit: str | None = None
    identity: float | None = None
    pil: str | None = None
    on_pil: OnPil | None = None
    signed: bool = False
    uses_fill: bool = False
    uses_position: bool = False
    moves_pixels: bool | None = None
    any_channels: bool = False

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise SettingsError(f"an operation's name must be a word of letters, digits and _, got {self.name!r}")
        if self.name == ALL:
            raise SettingsError(f"an operation must not be called {ALL!r}, which stands for all of a search space")
        if self.magnitude_range is None:
            if self.unit is not None or self.identity is not None or self.signed:
                raise SettingsError(f"{self.name} has no magnitude_range, so it must have no unit, identity or sign")
            return
        object.__setattr__(self, "magnitude_range", tuple(self.magnitude_range))
        if len(self.magnitude_range) != 2 or not all(map(math.isfinite, self.magnitude_range)):
            raise SettingsError(f"{self.name}: magnitude_range must be two numbers, got {self.magnitude_range}")
        if self.identity is not None and not math.isfinite(self.identity):
            raise SettingsError(f"{self.name}: identity must be a number or None, got {self.identity}")
        if self.signed and min(self.magnitude_range) < 0:
            raise SettingsError(f"{self.name} is signed, so its magnitude_range must not be negative")

    def __call__(
        self,
        images: Tensor,
        magnitude: Tensor | None = None,
        *,
        fill: Tensor | None = None,
        position: Tensor | None = None,
    ) -> Tensor:
        """Apply to images (B, C, H, W) float in [0, 1] with one magnitude (B,) per image.

        Returns new images; the input is never changed. fill (C,) defaults to black, position (B, 2) to the middle of
        the image. Raises SettingsError for images or arguments of another shape or type.
        """
        from hba.operations.images import check_channels, check_images

        check_images(images)
        check_channels((self,), images.shape[1])
        batch, channels = images.shape[:2]
        wanted = self.arguments(
            ("one magnitude per image", magnitude, (batch,), None),
            ("a fill colour", fill, (channels,), 0.0),
            ("a position per image", position, (batch, 2), 0.5),
        )
        arguments = [self._checked(images, *argument) for argument in wanted]
        return self.function(images, *arguments) if images.numel() else images.clone()

    def _checked(
        self, images: Tensor, what: str, given: Tensor | None, shape: tuple[int, ...], default: float | None
    ) -> Tensor:
        from torch import Tensor

        if given is None and default is not None:
            return images.new_full(shape, default)
        if isinstance(given, Tensor) and given.shape == shape:
            return given
        found = tuple(given.shape) if isinstance(given, Tensor) else given
        raise SettingsError(f"{self.name} needs {what}, shape {shape}, got {found}")

    def arguments(self, magnitude: Any, fill: Any, position: Any) -> list[Any]:
        """Those of the three that the function takes after the images, in this order."""
        takes = ((magnitude, self.magnitude_range is not None), (fill, self.uses_fill), (position, self.uses_position))
        return [argument for argument, is_taken in takes if is_taken]

    def apply_to_pil(
        self, image: Image.Image, magnitude: float, fill: tuple[int, ...], position: tuple[float, float]
    ) -> Image.Image:
        """A new PIL image of the same mode, L or RGB, by PIL itself; SettingsError where there is no on_pil.

        fill: grey levels in [0, 255], one per channel. position: in [0, 1) of width and height.
        """
        if self.on_pil is None:
            raise SettingsError(f"{self.name} has no function for PIL images")
        arguments = self.arguments(magnitude, fill, position)
        if self.interpolation is not None:
            arguments.append(RESAMPLING[self.interpolation])
        return self.on_pil(image, *arguments)

    @property
    def kind(self) -> Kind:
        """How the function is computed together with those of other operations."""
        return self.function if isinstance(self.function, Kind) else Own(self.function)

    @property
    def interpolation(self) -> str | None:
        """How pixels between pixels are found: nearest or bilinear; None for an operation that moves none."""
        return self.kind.interpolation

    def with_interpolation(self, interpolation: str) -> Operation:
        """The same operation with another interpolation; one that moves no pixels stays as it is."""
        if interpolation not in INTERPOLATIONS:
            raise SettingsError(f"interpolation must be {' or '.join(INTERPOLATIONS)}, got {interpolation!r}")
        if self.interpolation is None:
            return self
        return dataclasses.replace(self, function=self.kind.with_interpolation(interpolation))

    def with_range(self, magnitude_range: tuple[float, float] | None) -> Operation:
        """The same operation with other magnitudes to search in; None for an operation without magnitude."""
        if (magnitude_range is None) != (self.magnitude_range is None):
            raise SettingsError(f"the magnitude_range of {self.name} must be like {self.magnitude_range}")
        return dataclasses.replace(self, magnitude_range=magnitude_range)

    def strength(self, magnitude: float) -> float:
        """How far a magnitude is from doing nothing: 0 at the identity, 1 at the end of the range that is farther away.

        Always 1 for an operation without magnitude or without identity.
        """
        if self.magnitude_range is None or self.identity is None:
            return 1.0
        farthest = max(abs(end - self.identity) for end in self.magnitude_range)
        return abs(magnitude - self.identity) / farthest if farthest else 0.0
