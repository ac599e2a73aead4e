"""The 15 operations of the paper's Table 9, one row each."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor

from hba.errors import SettingsError
from hba.operations import enhance, geometric, point

LUMA_WEIGHTS = (0.299, 0.587, 0.114)


@dataclass(frozen=True)
class Operation:
    """One image operation: what it does, and what its magnitude means.

    magnitude_range is (low, high) in `unit`, None for an operation without magnitude. identity is the magnitude
    that changes no image, which also tells the direction; it may lie outside the range. signed: the magnitude is
    negated with probability 0.5 when it is drawn. uses_fill and uses_position: the function also takes a colour
    (C,), or a place (B, 2) drawn uniformly from [0, 1). pil names the PIL call that defines the result.
    """

    name: str
    function: Callable[..., Tensor]
    magnitude_range: tuple[float, float] | None
    unit: str | None
    identity: float | None
    pil: str
    signed: bool = False
    uses_fill: bool = False
    uses_position: bool = False

    def __call__(
        self,
        images: Tensor,
        magnitude: Tensor | None = None,
        *,
        fill: Tensor | None = None,
        position: Tensor | None = None,
    ) -> Tensor:
        """Apply to images (B, C, H, W) float in [0, 1] with one magnitude (B,) per image.

        The input is never changed. fill (C,) defaults to black, position (B, 2) to the middle of the image.
        Raises SettingsError for images or magnitudes of a shape or type that cannot be used.
        """
        check_images(images)
        arguments: list[Tensor] = []
        if self.magnitude_range is not None:
            if magnitude is None or magnitude.shape != images.shape[:1]:
                given = None if magnitude is None else tuple(magnitude.shape)
                raise SettingsError(f"{self.name} needs one magnitude per image, shape ({len(images)},), got {given}")
            arguments.append(magnitude)
        if self.uses_fill:
            arguments.append(images.new_zeros(images.shape[1]) if fill is None else fill)
        if self.uses_position:
            arguments.append(images.new_full((len(images), 2), 0.5) if position is None else position)
        return self.function(images, *arguments)

    def strength(self, magnitude: float) -> float:
        """How far a magnitude is from doing nothing, in [0, 1] of the most that the range allows.

        1 for an operation without magnitude.
        """
        if self.magnitude_range is None or self.identity is None:
            return 1.0
        farthest = max(abs(end - self.identity) for end in self.magnitude_range)
        return abs(magnitude - self.identity) / farthest if farthest else 0.0


def check_images(images: Tensor) -> None:
    """Raise SettingsError unless images are (B, 1 or 3, H, W) floating point. Values are not read."""
    if images.ndim != 4 or images.shape[1] not in (1, 3) or not images.is_floating_point():
        raise SettingsError(
            "images must be floating point of shape (B, C, H, W) with C 1 or 3, "
            f"got {images.dtype} {tuple(images.shape)}"
        )


def fill_for(images: Tensor, color: tuple[float, ...]) -> Tensor:
    """The colour as a tensor (C,) for these images: RGB becomes luma for one channel, grey is repeated for three."""
    channels = images.shape[1]
    if len(color) == 3 and channels == 1:
        color = (sum(weight * value for weight, value in zip(LUMA_WEIGHTS, color, strict=True)),)
    elif len(color) == 1:
        color = color * channels
    return _color_tensor(color, images.dtype, images.device)


# A colour needs to travel to each device only once.
@functools.lru_cache(maxsize=64)
def _color_tensor(color: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.tensor(color, dtype=dtype, device=device)


def _geometric(name: str, function: Callable[..., Tensor], high: float, unit: str, pil: str) -> Operation:
    return Operation(name, function, (0.0, high), unit, 0.0, pil, signed=True, uses_fill=True)


def _enhancer(name: str, function: Callable[..., Tensor]) -> Operation:
    return Operation(name, function, (0.1, 1.9), "PIL enhancement factor", 1.0, f"ImageEnhance.{name}")


_ROWS = (
    _geometric("ShearX", geometric.shear_x, 0.3, "shear factor", "Image.transform AFFINE (1, m, 0, 0, 1, 0)"),
    _geometric("ShearY", geometric.shear_y, 0.3, "shear factor", "Image.transform AFFINE (1, 0, 0, m, 1, 0)"),
    _geometric(
        "TranslateX", geometric.translate_x, 0.45, "fraction of width", "Image.transform AFFINE (1, 0, m W, 0, 1, 0)"
    ),
    _geometric(
        "TranslateY", geometric.translate_y, 0.45, "fraction of height", "Image.transform AFFINE (1, 0, 0, 0, 1, m H)"
    ),
    _geometric("Rotate", geometric.rotate, 30.0, "degrees", "Image.rotate"),
    Operation("AutoContrast", point.auto_contrast, None, None, None, "ImageOps.autocontrast"),
    Operation("Invert", point.invert, None, None, None, "ImageOps.invert"),
    Operation("Equalize", point.equalize, None, None, None, "ImageOps.equalize"),
    Operation("Solarize", point.solarize, (0.0, 255.0), "first grey level inverted", 256.0, "ImageOps.solarize"),
    Operation("Posterize", point.posterize, (0.0, 8.0), "bits kept", 8.0, "ImageOps.posterize"),
    _enhancer("Contrast", enhance.contrast),
    _enhancer("Color", enhance.color),
    _enhancer("Brightness", enhance.brightness),
    _enhancer("Sharpness", enhance.sharpness),
    Operation(
        "Cutout",
        geometric.cutout,
        (0.0, 0.2),
        "fraction of shorter side",
        0.0,
        "ImageDraw.rectangle, filled",
        uses_fill=True,
        uses_position=True,
    ),
)

OPERATIONS: Mapping[str, Operation] = MappingProxyType({row.name: row for row in _ROWS})


def find_operation(name: str) -> Operation:
    """The table's row of that exact name; SettingsError with the known names otherwise."""
    if name not in OPERATIONS:
        raise SettingsError(f"unknown operation {name!r}; known: {', '.join(OPERATIONS)}")
    return OPERATIONS[name]
