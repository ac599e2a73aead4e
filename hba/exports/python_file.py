"""A schedule as one Python file that does not need hba: modules of hba, and the
schedule's numbers.
"""

import inspect
import re
from collections.abc import Sequence
from importlib.machinery import PathFinder
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from hba.data.config import display_name
from hba.errors import SettingsError
from hba.exports import torchvision_code
from hba.exports.mixing import mixing_usage
from hba.operations import (
    Operation,
    color,
    distortion,
    erasing,
    geometric,
    on_pil,
    photometric,
)
from hba.operations.apply import color_for
from hba.operations.on_pil import Enhancer
from hba.operations.operation import MIXING
from hba.operations.registration import function_path
from hba.policy import player
from hba.schedule.recipes import RECIPE
from hba.schedule.schedule import Schedule
from hba.schedule.summary import left_out
from hba.utils import devices, tensors

MARK = "# Exported files contain the rest of this module."
"""The line of a module below which a file contains all of it."""
OWN = "own_"
"""Before the names of functions of your own in a file."""
DRAWING = (photometric, distortion, erasing)
"""Modules of operations that draw their own change."""
IMPORTS = """\
import contextlib
import copy
import copyreg
import functools
import itertools
import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import partial
from multiprocessing.context import get_spawning_popen
from multiprocessing.sharedctypes import RawValue
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeVar, cast

import torch
from numpy.polynomial.hermite_e import hermegauss
from torch import Tensor
"""
ON_IMAGES_IMPORTS = """\
from PIL import Image, ImageEnhance, ImageOps
from PIL.Image import Resampling, Transform, Transpose
from torchvision import tv_tensors
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as TF
"""
ON_BATCHES_IMPORTS = """\
from kornia.augmentation import GeometricAugmentationBase2D
from torch.nn.functional import pad
"""
FILE = '''# {generated}
# The next lines exclude generated code from your checks.
# fmt: off
# isort: skip_file
# ruff: noqa: PGH004
# ruff: noqa
# flake8: noqa
# pylint: skip-file
# mypy: ignore-errors
"""Data augmentation: {epochs}, {n} operations.
{left}
{usage}
{mixing}"""

from __future__ import annotations

{imports}
{code}


{numbers}'''
ON_IMAGES_USAGE = """\
    from {module} import transform

    policy = transform()
    pipeline = v2.Compose([policy, v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])
    for epoch in range(epochs):
        policy.set_epoch(epoch, epochs)  # reaches DataLoader workers, persistent \
ones too

It needs Python 3.11, torch, torchvision 0.19, or newer ones, {needs}, and nothing \
else{own}."""
ON_BATCHES_USAGE = """\
    from {module} import policy

    augment = AugmentationSequential(policy(), data_keys=["input", "mask"])  # or \
policy() alone, on images
    for epoch in range(epochs):
        augment[0].set_epoch(epoch, epochs)

It needs Python 3.11, torch and kornia 0.8, or newer ones, and nothing else{own}."""


def generated_note(schedule: Schedule) -> str:
    """The line of a generated file that says so, with what it was generated from."""
    known = [
        str(schedule.provenance[key])
        for key in ("algorithm", "dataset")
        if key in schedule.provenance
    ]
    if RECIPE in schedule.provenance:
        origin = f"the recipe {schedule.provenance[RECIPE]}"
    elif "algorithm" in schedule.provenance:
        origin = f"a schedule found by {' on '.join(map(display_name, known))}"
    else:
        origin = "a schedule"
    note = f"by hba {devices.VERSION} from {_harmless(origin)}"
    return f"@generated {note}; do not edit it, export the schedule again"


def python_file(
    schedule: Schedule, module: str, mask_fill: float = 0, *, on_batches: bool = False
) -> str:
    """The text of the file.

    Args:
        schedule: With operations on single images.
        module: The file's name.
        mask_fill: The value of pixels of masks that operations uncover, for kornia.
        on_batches: For kornia; otherwise, for torchvision.

    Raises:
        SettingsError: For operations of your own that Python cannot import.
    """
    left = (
        f"\nLeft out: {_harmless(left_out(schedule.space))}.\n"
        if schedule.space.regularizers
        else ""
    )
    schedule = schedule.without_regularizers()
    operations = image_operations(schedule)
    modules = _modules(operations, on_batches)
    fill = {n_channels: color_for(n_channels, schedule.fill) for n_channels in (1, 3)}
    rows = "".join(
        f'    "{operation.name}": {_operation_text(operation, on_batches)},\n'
        for operation in operations
    )
    numbers = f"OPERATIONS = {{\n{rows}}}\nFILL = {fill}\n{_tables_text(schedule)}"
    if on_batches:
        numbers = f"{numbers}MASK_FILL = {mask_fill}\n"
    functions_of_user = {
        operation.function.__name__: operation.function.__module__
        for operation in operations
        if function_path(operation) is not None
    }
    imports = IMPORTS + (ON_BATCHES_IMPORTS if on_batches else ON_IMAGES_IMPORTS)
    for name, source in functions_of_user.items():
        imports += f"from {source} import {name} as {OWN}{name}\n"
    users_modules = ", ".join(sorted(set(functions_of_user.values())))
    needs_kornia = photometric in modules
    usage = ON_BATCHES_USAGE if on_batches else ON_IMAGES_USAGE
    return FILE.format(
        generated=generated_note(schedule),
        epochs=(
            "one policy throughout"
            if schedule.epochs == 1
            else f"a policy for each of {schedule.epochs} epochs"
        ),
        n=len(operations),
        left=left,
        usage=usage.format(
            module=module,
            needs=(
                "Pillow, kornia for Blur and Perspective"
                if needs_kornia
                else "and Pillow"
            ),
            own=f" but {users_modules}" if users_modules else "",
        ),
        mixing=mixing_usage(schedule),
        imports=imports,
        code="\n\n\n".join(_code_of(module) for module in modules),
        numbers=numbers,
    )


def _modules(operations: Sequence[Operation], on_batches: bool) -> list[ModuleType]:
    """The modules that the file contains, each after those that it uses."""
    hba_operations = [
        operation for operation in operations if function_path(operation) is None
    ]
    if on_batches:
        # kornia's augmentations take long to import.
        from hba.exports import schedule_policy

        names = {module.__name__ for module in DRAWING}
        draws = any(
            operation.function.__module__ in names for operation in hba_operations
        )
        drawing = [*DRAWING] if draws else []
        return [tensors, color, geometric, *drawing, player, schedule_policy]
    draws = any(operation.on_pil is None for operation in hba_operations)
    drawing = [color, *DRAWING] if draws else []
    # Of posterize and solarize, which color has too, the later ones count.
    return [tensors, *drawing, on_pil, player, torchvision_code]


def check_has_image_operations(schedule: Schedule) -> None:
    """Raise SettingsError if the schedule has no operation on single images."""
    if all(operation.stage == MIXING for operation in schedule.space.operations):
        remedy = "export --to json, and mix by schedule.batch_transform(n_classes)"
        raise SettingsError(
            f"the schedule has only Mixup and CutMix, which act on batches: {remedy}"
        )


def image_operations(schedule: Schedule) -> Sequence[Operation]:
    """The schedule's operations on single images.

    Raises:
        SettingsError: If there is none, and if one is not hba's and Python cannot
            import its function.
    """
    check_has_image_operations(schedule)
    operations = [
        operation
        for operation in schedule.space.operations
        if operation.stage != MIXING
    ]
    for operation in operations:
        path = function_path(operation)
        if path is not None and not _is_importable(path, operation):
            raise SettingsError(
                "operations must be hba's own, or functions at the top of a module that"
                f" Python can import, to be exported, got {operation.name}; export --to"
                " json, and register yours where the schedule is read"
            )
    return operations


def _is_importable(path: str, operation: Operation) -> bool:
    """Whether `module:name` is a function on images, at the top of a module on Python's
    path.
    """
    module, _, name = path.partition(":")
    # Unlike importlib.util.find_spec, it does not find the module of an operations
    # file.
    is_found = (
        module != "__main__"
        and PathFinder.find_spec(module.partition(".")[0]) is not None
    )
    return name.isidentifier() and is_found and operation.interpolation is None


def _harmless(text: str) -> str:
    """Text from a schedule's file, changed so that it cannot end the docstring."""
    return re.sub(r"[^\w .,:/();-]", "?", text)


def _code_of(module: ModuleType) -> str:
    """All of a module below MARK."""
    try:
        text = inspect.getsource(module)
    except OSError:
        raise SettingsError(
            "a Python file needs the source files of hba, which this installation"
            " lacks; install hba with its .py files, or export --to json"
        ) from None
    return text.partition(f"{MARK}\n")[2].strip()


def _operation_text(operation: Operation, on_batches: bool) -> str:
    """The operation as a call of the file's Operation."""
    flags = {
        "moves_pixels": bool(operation.moves_pixels) and not operation.interpolation,
        "has_magnitude": operation.magnitude_range is not None,
        "signed": operation.signed,
        "uses_fill": operation.uses_fill,
    }
    function = operation.function.__name__
    interpolation = operation.interpolation
    last = []
    if function_path(operation) is not None:
        function = f"{OWN}{function}"
        flags = {"on_batches": not on_batches, **flags}
    elif on_batches:
        if operation.kernel in color.KERNELS:
            function = (
                f"partial({color.KERNELS[operation.kernel].__name__}, {function})"
            )
        if interpolation:
            last = [f'interpolation="{interpolation}"']
    elif operation.on_pil is None:
        flags = {"on_batches": True, **flags}
    else:
        function = _pil_name(operation.on_pil)
        if interpolation:
            last = [f"resampling=Resampling.{interpolation.upper()}"]
    arguments = [
        function,
        *(f"{name}=True" for name, is_set in flags.items() if is_set),
    ]
    if operation.n_uniforms:
        arguments.append(f"n_uniforms={operation.n_uniforms}")
    return f"Operation({', '.join([*arguments, *last])})"


def _pil_name(function: Any) -> str:
    if isinstance(function, Enhancer):
        return f"Enhancer(ImageEnhance.{function.enhance.__name__})"
    return (
        function.__name__
        if function.__module__ == on_pil.__name__
        else f"ImageOps.{function.__name__}"
    )


def _tables_text(schedule: Schedule) -> str:
    """The tables in single precision, in which hba draws."""
    space = schedule.space
    ranges = [
        (0.0, 0.0) if slot.magnitude is None else space.ranges[slot.magnitude]
        for slot in space.slots
    ]
    slots = [
        (slot.operation.name, *ends)
        for slot, ends in zip(space.slots, ranges, strict=True)
    ]
    # Slots without magnitude have the column behind the last one: zeros.
    values, spread = (
        pad(torch.tensor(rows, dtype=torch.float32), (0, 1))
        for rows in (schedule.values, schedule.spread)
    )
    columns = space.slot_columns(values.device)
    counts = values[:, columns.counts]
    count_spread = spread[:, columns.counts]
    if not space.searches_count:
        at_least = 1 - pad(columns.count_limits.double(), (1, 0))
        counts = (
            at_least[1:] / at_least[:-1].clamp(min=torch.finfo(torch.float64).tiny)
        ).float()[None]
        count_spread = torch.zeros_like(counts)
    tables = {
        "probabilities": values[:, columns.probability],
        "probability_spread": spread[:, columns.probability],
        "magnitudes": values[:, columns.magnitude],
        "magnitude_spread": spread[:, columns.magnitude],
        "counts": counts,
        "count_spread": count_spread,
    }
    rows = "".join(f"    {name}={_rows(table)},\n" for name, table in tables.items())
    walk = (space.walk_slots.start, space.walk_slots.stop)
    head = (
        f"    epochs={schedule.epochs},\n    slots={slots},\n    walk={walk},\n   "
        f" n_uniforms={space.n_uniforms},\n"
    )
    return f"TABLES = Tables(\n{head}{rows})\n"


def _rows(table: Tensor) -> str:
    """A line for each epoch, or one line if all are equal; the shortest decimals that
    give the same numbers.
    """
    rows = table[:1] if (table == table[0]).all() else table
    lines = [", ".join(str(number) for number in row) for row in rows.numpy()]
    return "[\n" + "".join(f"        [{line}],\n" for line in lines) + "    ]"
