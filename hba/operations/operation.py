"""Operation: the function that computes it on batches, and the meaning of its
magnitude.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from hba.errors import SettingsError
from hba.operations.drawing import AROUND, DRAWINGS, FIXED, SIGN, UP_TO
from hba.operations.image_operation import INTERPOLATIONS, ImageOperation
from hba.operations.on_pil import apply_by_pil

if TYPE_CHECKING:
    from PIL import Image
    from torch import Tensor

    from hba.operations.on_albumentations import OnAlbumentations

ALL = "all"
"""In a list of operations, stands for all of the search space."""
COMMON_CHANNELS = (1, 3)
"""Grey, and red, green and blue: all operations are defined for these."""
SYMMETRY = "symmetry"
WALK = "walk"
MIXING = "mixing"
STAGES = (SYMMETRY, "crop", WALK, "photometric", "erasing", MIXING)
"""Stages of a policy, in the order of application: first to each image, and at last to
the batch.
"""


class PbaMagnitudes(NamedTuple):
    """Magnitudes of an operation in Population Based Augmentation (Ho et al. 2019,
    published code).

    Attributes:
        first: At level 0.
        last: At level 10.
        parts: PBA truncates magnitudes to whole parts of a unit, of which so many make
            a unit; None if it does not truncate them.
    """

    first: float
    last: float
    parts: int | None = None


@dataclass(frozen=True)
class Operation(ImageOperation):
    """An image operation: the functions that compute it, and the meaning of its
    magnitude.

    On the walk, an image gets at most K operations in random order. In the other
    stages, each operation has its own probability. The draw makes the magnitude of an
    image from that of the policy, as `drawing` says. dataclasses.replace makes another
    use of an operation, with another name, stage, range and drawing.

    Attributes:
        pil: The PIL call that defines the result.
        stage: One of STAGES.
        any_channels: Whether it treats each channel alone and takes any number of them;
            others take 1 (grey) or 3 (RGB).
        code: The number in codes.py of the compiled step for 8-bit images; None to
            compute them by the functions of ImageOperation. It has no effect with
            bilinear interpolation.
        on_albumentations: The operation as transforms of albumentations, with arguments
            as in on_albumentations.py; None if albumentations lacks it.
        randaugment: Magnitudes of torchvision's RandAugment in `unit`, by copy; empty
            for an operation without magnitude, None if RandAugment lacks it.
        pba: Magnitudes of Population Based Augmentation in `unit`; None without
            magnitude, or if PBA lacks the operation.

    Raises:
        SettingsError: If the operation contradicts itself.
    """

    pil: str | None = None
    stage: str = WALK
    any_channels: bool = False
    code: int | None = None
    on_albumentations: OnAlbumentations | None = None
    randaugment: tuple[float, ...] | None = None
    pba: PbaMagnitudes | None = None

    def __post_init__(self) -> None:
        if not self.name.isidentifier() or self.name == ALL:
            rule = f"a word of letters, digits and _, other than {ALL!r}"
            raise SettingsError(
                f"an operation's name must be {rule}, got {self.name!r}"
            )
        if self.stage not in STAGES or self.drawing not in DRAWINGS:
            rule = f"a stage of {', '.join(STAGES)}, and a drawing of {DRAWINGS}"
            raise SettingsError(
                f"{self.name} must have {rule}, got {self.stage} and {self.drawing!r}"
            )
        ends = self.magnitude_range
        if ends is None and (
            self.unit is not None or self.identity is not None or self.drawing != FIXED
        ):
            raise SettingsError(
                f"{self.name} has no magnitude_range, so it must have no unit, identity"
                " or drawing"
            )
        if self.identity is None and self.drawing in (AROUND, UP_TO):
            raise SettingsError(
                f"{self.name} must have an identity, from which {self.drawing!r} draws"
            )
        numbers = (*(ends if ends is not None else (0.0, 0.0)), self.identity or 0.0)
        is_distance = self.drawing in (SIGN, AROUND)
        if (
            len(numbers) != 3
            or not all(map(math.isfinite, numbers))
            or (is_distance and min(numbers[:2]) < 0)
        ):
            rule = (
                f"two finite numbers as magnitude_range, not negative for {SIGN!r} and"
                f" {AROUND!r}, and one or None as identity"
            )
            raise SettingsError(
                f"{self.name} must have {rule}, got {self.magnitude_range} and"
                f" {self.identity}"
            )
        object.__setattr__(
            self, "magnitude_range", None if ends is None else tuple(ends)
        )

    def __call__(
        self,
        images: Tensor,
        magnitude: Tensor | None = None,
        *,
        fill: Tensor | None = None,
        position: Tensor | None = None,
    ) -> Tensor:
        """Apply the operation to images (B, C, H, W), float in [0, 1], with one
        magnitude (B,) per image.

        Returns new images; the input does not change. fill (C,) defaults to black,
        position (B, n_uniforms) to 0.5, the middle of the image. Raises SettingsError
        for images or arguments of another shape or type.
        """
        from torch import Tensor

        check_images(images)
        check_channels((self,), images.shape[1])
        batch, channels = images.shape[:2]
        fill = images.new_zeros(channels) if fill is None else fill
        position = (
            images.new_full((batch, self.n_uniforms), 0.5)
            if position is None
            else position
        )
        for what, argument, shape in self.arguments(
            ("one magnitude per image", magnitude, (batch,)),
            ("a fill color", fill, (channels,)),
            ("random numbers per image", position, (batch, self.n_uniforms)),
        ):
            if not isinstance(argument, Tensor) or argument.shape != shape:
                given_shape = (
                    tuple(argument.shape) if isinstance(argument, Tensor) else argument
                )
                raise SettingsError(
                    f"{self.name} needs {what}, shape {shape}, got {given_shape}"
                )
        return (
            self.compute(images, magnitude, fill, position)
            if images.numel()
            else images.clone()
        )

    def apply_to_pil(
        self,
        image: Image.Image,
        magnitude: float,
        fill: tuple[int, ...],
        position: tuple[float, ...],
    ) -> Image.Image:
        """Apply the operation to a PIL image of mode L or RGB by PIL itself. Raises
        SettingsError without on_pil.

        fill: grey levels in [0, 255], one per channel. position: at least n_uniforms
        numbers in [0, 1).
        """
        if self.on_pil is None:
            raise SettingsError(f"{self.name} has no function for PIL images")
        return apply_by_pil(self, image, magnitude, fill, position)

    def with_interpolation(self, interpolation: str) -> Operation:
        """The operation with another interpolation; unchanged without an affine map, or
        outside the walk.
        """
        if interpolation not in INTERPOLATIONS:
            raise SettingsError(
                f"interpolation must be {' or '.join(INTERPOLATIONS)}, got"
                f" {interpolation!r}"
            )
        has_choice = self.interpolation is not None and self.stage == WALK
        return dataclasses.replace(self, kernel=interpolation) if has_choice else self

    def with_range(self, magnitude_range: tuple[float, float] | None) -> Operation:
        """The operation with another range of magnitudes to search; None for an
        operation without magnitude.
        """
        if (magnitude_range is None) != (self.magnitude_range is None):
            raise SettingsError(
                f"the magnitude_range of {self.name} must be like"
                f" {self.magnitude_range}"
            )
        return dataclasses.replace(self, magnitude_range=magnitude_range)

    @property
    def neutral(self) -> float | None:
        """The policy's magnitude that changes no image: the identity, or no distance
        from it; None without an identity.
        """
        return 0.0 if self.drawing == AROUND else self.identity

    def strength(self, magnitude: float) -> float:
        """How far a policy's magnitude is from `neutral`, relative to the end of the
        range that is farther away.

        Always 1 for an operation without magnitude or without identity.
        """
        neutral = self.neutral
        if self.magnitude_range is None or neutral is None:
            return 1.0
        farthest = max(abs(end - neutral) for end in self.magnitude_range)
        return abs(magnitude - neutral) / farthest if farthest else 0.0


def channels_note(n_channels: int) -> str | None:
    """A sentence on the operations that recipes and default spaces leave out for images
    of so many channels; None if they leave out none.
    """
    if n_channels in COMMON_CHANNELS:
        return None
    return (
        f"images have {n_channels} channels, so operations that are only defined for"
        " grey and color images are left out of recipes and default spaces"
    )


def check_channels(operations: Iterable[Operation], n_channels: int) -> None:
    """Raise SettingsError if an operation is not defined for this number of channels.
    It names the usable ones.
    """
    if n_channels in COMMON_CHANNELS:
        return
    all_operations = tuple(operations)
    undefined = [
        operation.name for operation in all_operations if not operation.any_channels
    ]
    if undefined:
        usable = ",".join(
            operation.name for operation in all_operations if operation.any_channels
        )
        remedy = f"; choose the others by --operations {usable}" if usable else ""
        rule = "must get images of 1 (grey) or 3 (red, green, blue) channels"
        raise SettingsError(
            f"{' and '.join(undefined)} {rule}, got {n_channels}{remedy}"
        )


def check_images(images: Tensor, *, or_bytes: bool = False) -> None:
    """Raise SettingsError unless images are (B, C, H, W), floating point, or uint8 with
    or_bytes. Reads no values.
    """
    import torch

    is_tensor = isinstance(images, torch.Tensor)
    is_number = is_tensor and (
        images.is_floating_point() or (or_bytes and images.dtype == torch.uint8)
    )
    if not is_number or images.ndim != 4 or not images.shape[1]:
        kinds = "uint8 or floating point" if or_bytes else "floating point"
        found = (
            f"{images.dtype} {tuple(images.shape)}"
            if is_tensor
            else type(images).__name__
        )
        raise SettingsError(
            f"images must be a {kinds} tensor (B, C, H, W) with at least one channel,"
            f" got {found}"
        )
