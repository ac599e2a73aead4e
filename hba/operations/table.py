"""The 15 operations of the paper's Table 9, one row each, and those that users register."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from PIL import ImageEnhance, ImageOps

from hba.errors import SettingsError
from hba.operations import enhance, geometric, on_pil, point
from hba.operations.cutout import cutout
from hba.operations.enhance import Blend
from hba.operations.geometric import Warp
from hba.operations.operation import Operation
from hba.operations.point import Curve, Stretch
from hba.utils.text import unknown

if TYPE_CHECKING:
    from torch import Tensor

    from hba.operations.geometric import Coefficients
    from hba.operations.on_pil import OnPil


def _geometric(name: str, coefficients: Coefficients, on: OnPil, high: float, unit: str, pil: str) -> Operation:
    return Operation(
        name,
        Warp(coefficients),
        (0.0, high),
        unit,
        0.0,
        pil,
        on,
        signed=True,
        uses_fill=True,
        moves_pixels=True,
        any_channels=True,
    )


def _point(
    name: str,
    function: Curve | Stretch,
    on: OnPil,
    magnitude_range: tuple[float, float] | None = None,
    unit: str | None = None,
    identity: float | None = None,
) -> Operation:
    pil = f"ImageOps.{name.lower()}"
    return Operation(name, function, magnitude_range, unit, identity, pil, on, moves_pixels=False, any_channels=True)


def _enhancer(
    name: str,
    poorer: Callable[[Tensor], Tensor],
    enhance: Callable[..., ImageEnhance._Enhance],
    *,
    any_channels: bool = True,
) -> Operation:
    pil = f"ImageEnhance.{name}"
    on = on_pil.Enhancer(enhance)
    unit, high = "PIL enhancement factor", 1.9
    return Operation(
        name, Blend(poorer), (0.1, high), unit, 1.0, pil, on, moves_pixels=False, any_channels=any_channels
    )


_SHEAR, _WIDTH, _HEIGHT = "shear factor", "fraction of width", "fraction of height"

_ROWS = (
    _geometric("ShearX", geometric.shear_x, on_pil.shear_x, 0.3, _SHEAR, "Image.transform (1, m, 0, 0, 1, 0)"),
    _geometric("ShearY", geometric.shear_y, on_pil.shear_y, 0.3, _SHEAR, "Image.transform (1, 0, 0, m, 1, 0)"),
    _geometric(
        "TranslateX", geometric.translate_x, on_pil.translate_x, 0.45, _WIDTH, "Image.transform (1, 0, m W, 0, 1, 0)"
    ),
    _geometric(
        "TranslateY", geometric.translate_y, on_pil.translate_y, 0.45, _HEIGHT, "Image.transform (1, 0, 0, 0, 1, m H)"
    ),
    _geometric("Rotate", geometric.rotate, on_pil.rotate, 30.0, "degrees", "Image.rotate"),
    _point("AutoContrast", Stretch(point.auto_contrast), ImageOps.autocontrast),
    _point("Invert", Curve(point.invert), ImageOps.invert),
    _point("Equalize", Stretch(point.equalize), ImageOps.equalize),
    _point("Solarize", Curve(point.solarize), on_pil.solarize, (0.0, 255.0), "first grey level inverted", 256.0),
    _point("Posterize", Curve(point.posterize), on_pil.posterize, (0.0, 8.0), "bits kept", 8.0),
    _enhancer("Contrast", enhance.mean_gray, ImageEnhance.Contrast, any_channels=False),
    _enhancer("Color", enhance.gray, ImageEnhance.Color, any_channels=False),
    _enhancer("Brightness", enhance.black, ImageEnhance.Brightness),
    _enhancer("Sharpness", enhance.smooth, ImageEnhance.Sharpness),
    Operation(
        "Cutout",
        cutout,
        (0.0, 0.2),
        "fraction of shorter side",
        0.0,
        "ImageDraw.rectangle, filled",
        on_pil.cutout,
        uses_fill=True,
        uses_position=True,
        moves_pixels=False,
        any_channels=True,
    ),
)

OPERATIONS: Mapping[str, Operation] = MappingProxyType({row.name: row for row in _ROWS})
"""The 15 of the paper, by name; those that were registered are not among them."""

_registered: dict[str, Operation] = {}


def register_operation(operation: Operation) -> Operation:
    """Make an operation of your own known by its name, to searches and to the reader of schedule files.

    It is tried on a small batch first. A second registration of a name replaces the first. Returns the operation.
    Raises SettingsError for the name of one of the 15, for a function without a name, which a schedule file could not
    refer to, and for a function that does not do what Operation asks of it.
    """
    function_path(operation)
    if operation.name in OPERATIONS:
        raise SettingsError(f"{operation.name} is one of hba's own operations; give yours another name")
    from hba.operations.trial import try_out

    try_out(operation)
    _registered[operation.name] = operation
    return operation


def registered_operations() -> tuple[Operation, ...]:
    """The operations that were registered, in order of registration."""
    return tuple(_registered.values())


def function_path(operation: Operation) -> str | None:
    """`module:name` of the function of an operation that is not one of the 15, None for those."""
    if operation.name in OPERATIONS:
        if not _means_the_same(operation, OPERATIONS[operation.name]):
            raise SettingsError(f"{operation.name} is one of hba's own operations; give yours another name")
        return None
    function = operation.function
    name = getattr(function, "__qualname__", "<lambda>")
    if "<lambda>" in name:
        raise SettingsError(f"the function of {operation.name} must be a function with a name, got {function!r}")
    return f"{function.__module__}:{name}"


def check_known(operation: Operation) -> None:
    """Raise SettingsError unless a schedule file with this operation could be read."""
    if not _means_the_same(operation, find_operation(operation.name)):
        raise SettingsError(f"another operation is registered as {operation.name}; register this one, or rename it")


def _means_the_same(operation: Operation, other: Operation) -> bool:
    """Whether two operations differ in their range and interpolation at most."""
    alike = dataclasses.replace(other, magnitude_range=operation.magnitude_range)
    return operation == (alike.with_interpolation(operation.interpolation) if operation.interpolation else alike)


def find_operation(name: str) -> Operation:
    """The operation of that exact name, of the 15 or registered; SettingsError with the known names otherwise."""
    known = {**OPERATIONS, **_registered}
    if name not in known:
        raise SettingsError(
            f"{unknown('operation', name, known)}. Register your own first "
            "(hba.register_operation; commands: --operations-file FILE.py)"
        )
    return known[name]
