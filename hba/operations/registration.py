"""Your own operations: registered by name, tried before they are used, and loaded from a Python file."""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle

from hba.errors import SettingsError
from hba.operations.operation import Operation
from hba.operations.table import OPERATIONS
from hba.utils.text import unknown

TRIED_SHAPE = (2, 3, 32, 32)
ROUNDING = 1e-3

_registered: dict[str, Operation] = {}


def register_operation(operation: Operation) -> Operation:
    """Make an operation of your own known by its name, to searches and to the reader of schedule files.

    It is tried on a small batch first. A second registration of a name replaces the first. Returns the operation.
    Raises SettingsError for the name of one of the 15, for a function without a name, which a schedule file could not
    refer to, and for a function that does not do what Operation asks of it.
    """
    if operation.name in OPERATIONS:
        raise SettingsError(f"{operation.name} is one of hba's own operations; give yours another name")
    function_path(operation)
    _try_out(operation)
    _registered[operation.name] = operation
    return operation


def registered_operations() -> tuple[Operation, ...]:
    """The operations that were registered, in order of registration."""
    return tuple(_registered.values())


def find_operation(name: str) -> Operation:
    """The operation of that exact name, of the 15 or registered; SettingsError with the known names otherwise."""
    known = {**OPERATIONS, **_registered}
    if name not in known:
        raise SettingsError(
            f"{unknown('operation', name, known)}. Register your own first "
            "(hba.register_operation; commands: --operations-file FILE.py)"
        )
    return known[name]


def function_path(operation: Operation) -> str | None:
    """`module:name` of the function of an operation that is not one of the 15, None for those."""
    if operation.name in OPERATIONS:
        check_known(operation)
        return None
    function = operation.function
    name = getattr(function, "__qualname__", "<lambda>")
    if "<lambda>" in name:
        raise SettingsError(f"the function of {operation.name} must be a function with a name, got {function!r}")
    return f"{function.__module__}:{name}"


def check_known(operation: Operation) -> None:
    """Raise SettingsError unless a schedule file with this operation could be read."""
    known = find_operation(operation.name)
    alike = dataclasses.replace(known, magnitude_range=operation.magnitude_range)
    # Range and interpolation may differ.
    if operation != (alike.with_interpolation(operation.interpolation) if operation.interpolation else alike):
        raise SettingsError(f"another operation is known as {operation.name}; register this one, or rename it")


def _try_out(operation: Operation) -> None:
    """Apply the operation at both ends of its range, with both signs if it has them; SettingsError for a mistake."""
    import torch

    images = (torch.arange(torch.Size(TRIED_SHAPE).numel()) * 37 % 256 / 255).view(TRIED_SHAPE)
    ends = operation.magnitude_range or (0.0,)
    for magnitude in (*ends, *(-end for end in ends if operation.signed and end)):
        given = images.clone()
        magnitudes = None if operation.magnitude_range is None else torch.full(TRIED_SHAPE[:1], magnitude)
        try:
            result = operation(given, magnitudes)
        except Exception as error:  # A user's function may raise anything.
            raise SettingsError(f"{operation.name} fails on images {TRIED_SHAPE}: {_in_words(error)}") from None
        if not torch.equal(given, images):
            raise SettingsError(f"{operation.name} must not change the images that it gets; return new ones")
        is_tensor = isinstance(result, torch.Tensor)
        is_alike = is_tensor and result.shape == given.shape and result.dtype == given.dtype
        if not is_alike or not ((result >= -ROUNDING) & (result <= 1 + ROUNDING)).all():
            found = f"{result.dtype} {tuple(result.shape)}" if is_tensor else type(result).__name__
            found += f" in [{result.min():g}, {result.max():g}] at magnitude {magnitude:g}" if is_alike else ""
            raise SettingsError(
                f"{operation.name} must return images like those it gets, torch.float32 {TRIED_SHAPE} in [0, 1], got "
                f"{found}; .clamp(0, 1) helps where values leave the range"
            )


def load_operations_file(
    path: Path, registered: Callable[[], tuple[Any, ...]] = registered_operations
) -> tuple[Any, ...]:
    """Run a Python file that calls hba.register_operation, and return the operations that it registered.

    registered: lists everything that counts as registered. Raises SettingsError for a file that is missing, that fails,
    or that registers nothing.
    """
    before = set(registered())
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise SettingsError(f"an operations file must be a Python file ending .py, got {path}")
    module = importlib.util.module_from_spec(spec)
    # Pickling finds a function by the name of its module. A module that has this name already stays.
    sys.modules.setdefault(path.stem, module)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        if sys.modules.get(path.stem) is module:
            del sys.modules[path.stem]
        lines = [one.lineno for one in traceback.extract_tb(error.__traceback__) if Path(one.filename) == path]
        line = error.lineno if isinstance(error, SyntaxError) else (lines or [None])[-1]
        raise SettingsError(f"{path} failed: {_in_words(error)}{f' (line {line})' if line else ''}") from None
    # Other processes cannot import it.
    cloudpickle.register_pickle_by_value(module)
    new = tuple(one for one in registered() if one not in before)
    if not new:
        raise SettingsError(f"{path} registers no operation; it must call hba.register_operation")
    return new


def _in_words(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
