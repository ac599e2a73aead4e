"""What an operation is: a kernel that computes it on batches, what its magnitude means, and a step of a batch."""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Self, TypeVar

from hba.errors import SettingsError
from hba.operations.on_pil import RESAMPLING

if TYPE_CHECKING:
    from PIL import Image
    from torch import Tensor

    from hba.operations.on_pil import OnPil

ALL = "all"
"""In a list of operations, all of the search space."""
INTERPOLATIONS = ("nearest", "bilinear")
COMMON_CHANNELS = (1, 3)
"""Grey, and red, green and blue: all operations are defined for these."""

FRACTION_BITS = 16
ONE = 1 << FRACTION_BITS
"""A pixel, in the fixed point of PIL's maps."""

KernelT = TypeVar("KernelT", bound="Kernel", covariant=True)


def identity_coefficients(like: Tensor) -> dict[str, Tensor]:
    """The map that changes nothing, for each of (N,)."""
    import torch

    zero, one = torch.zeros_like(like), torch.ones_like(like)
    return {"a": one, "b": zero, "c": zero, "d": zero, "e": one, "f": zero}


class Maps(NamedTuple):
    """Affine maps of N images, coefficients a to f in the last of (N, 6): float64, and in units of 2^-16 pixel, int64.

    In the second the offsets c and f are those of the first pixel's centre.
    """

    exact: Tensor
    fixed_point: Tensor

    @staticmethod
    def of(coefficients: Mapping[str, Tensor]) -> "Maps":  # noqa: UP037
        """From coefficients by name, of any shape (...)."""
        import torch

        a, b, c, d, e, f = (coefficients[name] for name in "abcdef")
        # PIL moves an image that keeps its form by whole pixels, before the fraction is cut to 16 bits.
        moved = (a == 1) & (b == 0) & (d == 0) & (e == 1)
        x0 = torch.where(moved, (c + a / 2).floor(), c + a / 2 + b / 2)
        y0 = torch.where(moved, (f + e / 2).floor(), f + d / 2 + e / 2)
        fixed_point = torch.stack([a, b, x0, d, e, y0], dim=-1).mul(ONE).add(0.5).floor().long()
        return Maps(torch.stack([a, b, c, d, e, f], dim=-1), fixed_point)


class Step(NamedTuple):
    """One operation for each of B images.

    chosen (B,): index into the operations, -1 for none. magnitude (B,): of that operation, with its sign. position
    (B, 2): where an operation that needs a place puts it, in [0, 1) of width and height. The maps are those of
    Maps, the identity for images whose operation moves no pixels.
    """

    chosen: Tensor
    magnitude: Tensor
    position: Tensor
    exact_maps: Tensor
    fixed_point_maps: Tensor

    @property
    def maps(self) -> Maps:
        return Maps(self.exact_maps, self.fixed_point_maps)

    def select(self, images: Tensor) -> Step:
        """The step for some of the images, in the order of their numbers (N,)."""
        return Step(*(values.index_select(0, images) for values in self))

    def split(self, counts: int | list[int]) -> list[Step]:
        """The step in consecutive parts of so many images; a single count is the size of every part."""
        return [Step(*parts) for parts in zip(*(values.split(counts) for values in self), strict=True)]


class Selection(NamedTuple, Generic[KernelT]):
    """An operation of a step: which images (B,) get it, and the magnitude (B,) of the operation that an image gets."""

    operation: Operation
    kernel: KernelT
    images: Tensor
    magnitude: Tensor

    def own_magnitude(self) -> Tensor | None:
        """The magnitude, replaced by the start of this operation's range for images that get another operation."""
        import torch

        if self.operation.magnitude_range is None:
            return None
        return torch.where(self.images, self.magnitude, self.operation.magnitude_range[0])


class Kernel(ABC):
    """The function of an operation, called as Operation.function is, that can also compute several operations at once.

    A subclass overrides what it does better than one operation after the other. Kernels are values: hashable, and
    equal if they compute the same.
    """

    interpolation: str | None = None
    """How values between pixels are found: nearest or bilinear; None for a kernel that moves no pixels."""

    @abstractmethod
    def __call__(self, *arguments: Any, **named: Any) -> Tensor:
        """New images (B, C, H, W)."""

    @property
    def batch_group(self) -> Hashable | None:
        """Operations with equal groups share a call of on_batch; with None, each has its own."""
        return None

    @property
    def subset_group(self) -> Hashable | None:
        """Operations with equal groups share a call of on_subset; with None, each has its own."""
        return None

    def map_coefficients(self, magnitude: Tensor, height: int, width: int) -> Mapping[str, Tensor]:
        """The coefficients {name: (...)} of the affine map of pixels that may differ from the identity's."""
        return {}

    def maps(self, magnitude: Tensor, height: int, width: int) -> Maps:
        """The affine map of pixels for magnitudes (N,) float64; the identity for a kernel that moves none."""
        return Maps.of({**identity_coefficients(magnitude), **self.map_coefficients(magnitude, height, width)})

    def on_subset(self, operation: Operation, images: Tensor, step: Step, fill: Tensor) -> Tensor:
        """New images (N, C, H, W) from those that get an operation of the group, of which `operation` is one."""
        return operation(images, step.magnitude, fill=fill, position=step.position)

    def on_batch(self, selections: Sequence[Selection[Self]], images: Tensor, step: Step, fill: Tensor) -> Tensor:
        """New images (B, C, H, W) from a whole batch; results of images that get none of the group are ignored.

        selections: the operations of the group. Shapes must not depend on what was drawn, and nothing may wait for the
        device.
        """
        (selection,) = selections
        return selection.operation(images, selection.own_magnitude(), fill=fill, position=step.position)

    def with_interpolation(self, interpolation: str) -> Self:
        """The same with another interpolation, for a kernel that moves pixels."""
        return self


@dataclass(frozen=True)
class FunctionKernel(Kernel):
    """A plain function, such as a user's: each operation is computed by itself."""

    function: Callable[..., Tensor]

    def __call__(self, *arguments: Any, **named: Any) -> Tensor:
        return self.function(*arguments, **named)


@dataclass(frozen=True)
class Operation:
    """One image operation: what it does, and what its magnitude means.

    function: takes images (B, C, H, W), float in [0, 1], then, as far as the operation has them, a magnitude for each
    (B,), a colour (C,) and a place for each (B, 2). It returns new images of that shape, type and range, and does not
    change its input.
    magnitude_range: (low, high) in `unit`, None for an operation without magnitude. It may descend; a search starts
    near its first end.
    identity: the magnitude that changes no image; it may lie outside the range. None if there is none.
    pil: the PIL call that defines the result.
    on_pil: the operation on a PIL image; on_pil.py beside this file lists its arguments.
    signed: the magnitude is negated with probability 0.5 when it is drawn.
    moves_pixels: whether content can move to other pixels, so that boxes, masks and keypoints of the image have to move
    too; None if unknown.
    any_channels: whether it treats each channel alone, and so takes any number of them; otherwise it takes 1 (grey) and
    3 (red, green, blue).
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
        if not self.name.isidentifier() or self.name == ALL:
            raise SettingsError(
                f"an operation's name must be a word of letters, digits and _, other than {ALL!r}, got {self.name!r}"
            )
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
        from hba.operations.images import check_images

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
        """A new PIL image of the same mode, L or RGB, by PIL itself; SettingsError if there is no on_pil.

        fill: grey levels in [0, 255], one per channel. position: in [0, 1) of width and height.
        """
        if self.on_pil is None:
            raise SettingsError(f"{self.name} has no function for PIL images")
        arguments = self.arguments(magnitude, fill, position)
        if self.interpolation is not None:
            arguments.append(RESAMPLING[self.interpolation])
        return self.on_pil(image, *arguments)

    @property
    def kernel(self) -> Kernel:
        """How the function is computed together with those of other operations."""
        return self.function if isinstance(self.function, Kernel) else FunctionKernel(self.function)

    @property
    def interpolation(self) -> str | None:
        """How values between pixels are found: nearest or bilinear; None for an operation that moves no pixels."""
        return self.kernel.interpolation

    def with_interpolation(self, interpolation: str) -> Operation:
        """The same operation with another interpolation; one that moves no pixels stays as it is."""
        if interpolation not in INTERPOLATIONS:
            raise SettingsError(f"interpolation must be {' or '.join(INTERPOLATIONS)}, got {interpolation!r}")
        if self.interpolation is None:
            return self
        return dataclasses.replace(self, function=self.kernel.with_interpolation(interpolation))

    def with_range(self, magnitude_range: tuple[float, float] | None) -> Operation:
        """The same operation with other magnitudes to search in; None for an operation without magnitude."""
        if (magnitude_range is None) != (self.magnitude_range is None):
            raise SettingsError(f"the magnitude_range of {self.name} must be like {self.magnitude_range}")
        return dataclasses.replace(self, magnitude_range=magnitude_range)

    def strength(self, magnitude: float) -> float:
        """How far a magnitude is from the identity, relative to the end of the range that is farther away.

        Always 1 for an operation without magnitude or without identity.
        """
        if self.magnitude_range is None or self.identity is None:
            return 1.0
        farthest = max(abs(end - self.identity) for end in self.magnitude_range)
        return abs(magnitude - self.identity) / farthest if farthest else 0.0


def check_channels(operations: Iterable[Operation], n_channels: int) -> None:
    """Raise SettingsError, which names the usable ones, if an operation is not defined for that many channels."""
    if n_channels in COMMON_CHANNELS:
        return
    given = tuple(operations)
    undefined = [operation.name for operation in given if not operation.any_channels]
    if undefined:
        left = ",".join(operation.name for operation in given if operation.any_channels)
        raise SettingsError(
            f"{' and '.join(undefined)} {'is' if len(undefined) == 1 else 'are'} defined for images of 1 (grey) or 3 "
            f"(red, green, blue) channels, not of {n_channels}"
            + (f": choose the others by --operations {left}" if left else "")
        )
