"""What an operation is, and what all of them ask of images."""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from hba.errors import SettingsError
from hba.operations.geometric import INTERPOLATIONS, Warp
from hba.operations.on_pil import RESAMPLING, OnPil
from hba.runtime.device_constants import device_constant

ALL = "all"
"""In a list of operations, all of the search space."""
LUMA_WEIGHTS = (0.299, 0.587, 0.114)


@dataclass(frozen=True)
class Operation:
    """One image operation: what it does, and what its magnitude means.

    function takes images (B, C, H, W), float in [0, 1], and, where the operation has one, a magnitude for each (B,);
    it returns new images of that shape, type and range, and leaves its input alone. magnitude_range is (low, high) in
    `unit`, None for an operation without magnitude; it may descend, and a policy search starts near its first end.
    identity is the magnitude that changes no image, which also tells the direction; it may lie outside the range, and
    is None where there is none. signed: the magnitude is negated with probability 0.5 when it is drawn. uses_fill and
    uses_position: the function also takes a colour (C,), or a place (B, 2) drawn uniformly from [0, 1). pil names the
    PIL call that defines the result; on_pil is the operation on a PIL image, its arguments as in on_pil.py beside this
    file. Raises SettingsError for a row that contradicts itself.
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

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise SettingsError(f"an operation's name must be a word of letters, digits and _, got {self.name!r}")
        if self.name == ALL:
            raise SettingsError(f"an operation cannot be called {ALL!r}, which stands for all of a search space")
        if self.magnitude_range is None:
            if self.unit is not None or self.identity is not None or self.signed:
                raise SettingsError(f"{self.name} has no magnitude_range, so that it has no unit, identity or sign")
            return
        object.__setattr__(self, "magnitude_range", tuple(self.magnitude_range))
        if len(self.magnitude_range) != 2 or not all(map(math.isfinite, self.magnitude_range)):
            raise SettingsError(f"{self.name}: magnitude_range must be two numbers, got {self.magnitude_range}")
        if self.identity is not None and not math.isfinite(self.identity):
            raise SettingsError(f"{self.name}: identity must be a number or None, got {self.identity}")
        if self.signed and min(self.magnitude_range) < 0:
            raise SettingsError(f"{self.name} is signed, so that its magnitude_range must not be negative")

    def __call__(
        self,
        images: Tensor,
        magnitude: Tensor | None = None,
        *,
        fill: Tensor | None = None,
        position: Tensor | None = None,
    ) -> Tensor:
        """Apply to images (B, C, H, W) float in [0, 1] with one magnitude (B,) per image.

        The input is never changed; images without a pixel are copied. fill (C,) defaults to black, position (B, 2) to
        the middle of the image. Raises SettingsError for images or magnitudes of a shape or type that cannot be used.
        """
        check_images(images)
        batch, channels = images.shape[:2]
        arguments: list[Tensor] = []
        if self.magnitude_range is not None:
            arguments.append(self._checked("one magnitude per image", magnitude, (batch,)))
        if self.uses_fill:
            fill = images.new_zeros(channels) if fill is None else fill
            arguments.append(self._checked("a fill colour", fill, (channels,)))
        if self.uses_position:
            position = images.new_full((batch, 2), 0.5) if position is None else position
            arguments.append(self._checked("a position per image", position, (batch, 2)))
        return self.function(images, *arguments) if images.numel() else images.clone()

    def _checked(self, what: str, given: Tensor | None, shape: tuple[int, ...]) -> Tensor:
        if isinstance(given, Tensor) and given.shape == shape:
            return given
        found = tuple(given.shape) if isinstance(given, Tensor) else given
        raise SettingsError(f"{self.name} needs {what}, shape {shape}, got {found}")

    def apply_to_pil(
        self, image: Image.Image, magnitude: float, fill: tuple[int, ...], position: tuple[float, float]
    ) -> Image.Image:
        """A new PIL image of the same mode, L or RGB, by PIL itself; SettingsError where there is no on_pil.

        fill: grey levels in [0, 255], one per channel. position: in [0, 1) of width and height.
        """
        if self.on_pil is None:
            raise SettingsError(f"{self.name} has no function for PIL images")
        arguments: list[Any] = [] if self.magnitude_range is None else [magnitude]
        if self.uses_fill:
            arguments.append(fill)
        if self.uses_position:
            arguments.append(position)
        if self.interpolation is not None:
            arguments.append(RESAMPLING[self.interpolation])
        return self.on_pil(image, *arguments)

    @property
    def interpolation(self) -> str | None:
        """How pixels between pixels are found: nearest or bilinear; None for an operation that moves none."""
        return self.function.interpolation if isinstance(self.function, Warp) else None

    def with_interpolation(self, interpolation: str) -> "Operation":
        """The same operation with another interpolation; one that moves no pixels stays as it is."""
        if interpolation not in INTERPOLATIONS:
            raise SettingsError(f"interpolation must be {' or '.join(INTERPOLATIONS)}, got {interpolation!r}")
        if not isinstance(self.function, Warp):
            return self
        return dataclasses.replace(self, function=dataclasses.replace(self.function, interpolation=interpolation))

    def with_range(self, magnitude_range: tuple[float, float] | None) -> "Operation":
        """The same operation with other magnitudes to search in; None for an operation without magnitude."""
        if (magnitude_range is None) != (self.magnitude_range is None):
            raise SettingsError(f"the magnitude_range of {self.name} must be like {self.magnitude_range}")
        return dataclasses.replace(self, magnitude_range=magnitude_range)

    def strength(self, magnitude: float) -> float:
        """How far a magnitude is from doing nothing, in [0, 1] of the most that the range allows.

        1 for an operation without magnitude or without identity.
        """
        if self.magnitude_range is None or self.identity is None:
            return 1.0
        farthest = max(abs(end - self.identity) for end in self.magnitude_range)
        return abs(magnitude - self.identity) / farthest if farthest else 0.0


def check_images(images: Tensor) -> None:
    """Raise SettingsError unless images are (B, 1 or 3, H, W) floating point. Values are not read."""
    if not isinstance(images, Tensor):
        raise SettingsError(f"images must be a tensor (B, C, H, W), got {type(images).__name__}")
    if images.ndim != 4 or images.shape[1] not in (1, 3) or not images.is_floating_point():
        raise SettingsError(
            "images must be floating point of shape (B, C, H, W) with C 1 or 3, "
            f"got {images.dtype} {tuple(images.shape)}"
        )


def color_for(n_channels: int, color: tuple[float, ...]) -> tuple[float, ...]:
    """A colour of 1 or 3 numbers for images of 1 or 3 channels: RGB becomes luma, grey is repeated."""
    if len(color) == 3 and n_channels == 1:
        return (sum(weight * value for weight, value in zip(LUMA_WEIGHTS, color, strict=True)),)
    return color * n_channels if len(color) == 1 else color


def fill_for(images: Tensor, color: tuple[float, ...]) -> Tensor:
    """The colour as a tensor (C,) for these images (B, C, H, W)."""
    return _color_tensor(color_for(images.shape[1], color), images.dtype, images.device)


@device_constant
def _color_tensor(color: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.tensor(color, dtype=dtype, device=device)
