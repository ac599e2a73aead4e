"""Your own operations: registering them by name, testing them before use, and loading
them from a Python file.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from hba.errors import SettingsError
from hba.operations.operation import MIXING, Operation
from hba.operations.stages import STAGED
from hba.operations.table import OPERATIONS
from hba.utils.python_files import error_in_words, load_python_file
from hba.utils.text import unknown

TRIED_SHAPE = (2, 3, 32, 32)
ROUNDING = 1e-3

_registered: dict[str, Operation] = {}


def register_operation(operation: Operation) -> Operation:
    """Register your own operation by its name, for searches and for reading schedule
    files; return the operation.

    The operation is first applied to a small batch. A second registration of a name
    replaces the first, and yours also replaces one of hba's operations outside the walk
    that has its name. Raises SettingsError for the name of one of the 15, for the stage
    `mixing`, for a function without a name, to which a schedule file could not refer,
    and for a function that does not do what Operation requires.
    """
    if operation.name in OPERATIONS:
        raise SettingsError(
            f"{operation.name} is one of hba's own operations; give yours another name"
        )
    if operation.stage == MIXING:
        raise SettingsError(
            f"{operation.name} must act on single images; only Mixup and CutMix mix"
            " batches"
        )
    _path(operation)
    _try_out(operation)
    _registered[operation.name] = operation
    return operation


def registered_operations() -> tuple[Operation, ...]:
    """The registered operations, in the order of registration."""
    return tuple(_registered.values())


def find_operation(name: str) -> Operation:
    """The operation with exactly this name, hba's or registered. Raises SettingsError
    if there is none.
    """
    all_operations = {**OPERATIONS, **STAGED, **_registered}
    if name not in all_operations:
        remedy = (
            "Register your own first (hba.register_operation; commands:"
            " --operations-file FILE.py)"
        )
        raise SettingsError(f"{unknown('operation', name, all_operations)}. {remedy}")
    return all_operations[name]


def function_path(operation: Operation) -> str | None:
    """`module:name` of the function of your own operation; None for one of hba's."""
    if operation.name not in _registered and operation.name in {*OPERATIONS, *STAGED}:
        check_known(operation)
        return None
    return _path(operation)


def _path(operation: Operation) -> str:
    function = operation.function
    name = getattr(function, "__qualname__", "<lambda>")
    if "<lambda>" in name:
        raise SettingsError(
            f"the function of {operation.name} must be a function with a name, got"
            f" {function!r}"
        )
    return f"{function.__module__}:{name}"


def check_known(operation: Operation) -> None:
    """Raise SettingsError if a schedule file with this operation could not be read."""
    registered = find_operation(operation.name)
    alike = dataclasses.replace(registered, magnitude_range=operation.magnitude_range)
    # The range and the interpolation may differ.
    if operation != (
        alike.with_interpolation(operation.interpolation)
        if operation.interpolation
        else alike
    ):
        raise SettingsError(
            f"another operation is known as {operation.name}; register this one, or"
            " rename it"
        )


def _try_out(operation: Operation) -> None:
    """Apply the operation at the ends of what it draws at both ends of its range.
    Raises SettingsError for a mistake.
    """
    import torch

    images = (torch.arange(torch.Size(TRIED_SHAPE).numel()) * 37 % 256 / 255).view(
        TRIED_SHAPE
    )
    ends = operation.magnitude_range or (0.0,)
    drawn = [
        operation.draw_magnitude(end, number) for end in ends for number in (1.0, 0.0)
    ]
    for magnitude in dict.fromkeys(drawn):
        images_before = images.clone()
        magnitudes = (
            None
            if operation.magnitude_range is None
            else torch.full(TRIED_SHAPE[:1], magnitude)
        )
        try:
            result = operation(images_before, magnitudes)
        except Exception as error:  # A user's function may raise anything.
            raise SettingsError(
                f"{operation.name} fails on images {TRIED_SHAPE}:"
                f" {error_in_words(error)}"
            ) from None
        is_alike = isinstance(result, torch.Tensor) and (
            result.shape,
            result.dtype,
        ) == (images_before.shape, images_before.dtype)
        is_inside = is_alike and bool(
            ((result >= -ROUNDING) & (result <= 1 + ROUNDING)).all()
        )
        if not is_inside or not torch.equal(images_before, images):
            results = (
                f"{type(result).__name__} {getattr(result, 'dtype', '')}"
                f" {tuple(getattr(result, 'shape', ()))}"
            )
            results += (
                f" in [{result.min():g}, {result.max():g}] at magnitude {magnitude:g}"
                if is_alike
                else ""
            )
            rule = (
                f"return new images like its input, torch.float32 {TRIED_SHAPE} in [0,"
                " 1], and not change its input"
            )
            raise SettingsError(
                f"{operation.name} must {rule}, got {results}; use .clamp(0, 1) against"
                " other values"
            )


def load_operations_file(path: Path) -> None:
    """Run a Python file that calls hba.register_operation. Raises SettingsError if it
    is missing or fails.
    """
    load_python_file(path, "an operations file")
