"""A schedule as one Python file that does not need hba: modules of hba, and the
schedule's numbers.
"""

import dataclasses
import inspect
import re
from collections.abc import Callable, Sequence
from importlib.machinery import PathFinder
from types import ModuleType
from typing import Any

from PIL import ImageOps

from hba.data.config import display_name
from hba.errors import SettingsError
from hba.exports.mixing import mixing_usage
from hba.operations import (
    Operation,
    color,
    distortion,
    drawing,
    erasing,
    geometric,
    image_operation,
    on_pil,
    photometric,
)
from hba.operations.apply import color_for
from hba.operations.image_operation import ImageOperation
from hba.operations.on_pil import Enhancer
from hba.operations.registration import function_path
from hba.policy import annotations, batch_draw, player, schedule_transform
from hba.policy.player import Tables
from hba.policy.tables import tables_of
from hba.schedule.recipes import RECIPE
from hba.schedule.schedule import Schedule
from hba.schedule.summary import left_out
from hba.utils import devices, tensors
from hba.utils.text import first_of

MARK = "# Exported files contain the rest of this module."
"""The line of a module below which a file contains all of it."""
OF_USER = "user_"
"""Before the names of a user's modules in a file."""
OPTIONAL = (photometric, distortion, erasing)
"""Modules of operations that a file contains only if it uses one of them."""
FOR_SINGLE_IMAGES = ("on_pil", "on_annotation")
"""Functions of an operation that a file for batches does not need."""
IMPORTS = """\
import contextlib
import copy
import copyreg
import functools
import itertools
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from multiprocessing.context import get_spawning_popen
from multiprocessing.sharedctypes import RawValue
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
import torch
from numpy.polynomial.hermite_e import hermegauss
from torch import Tensor
from torch.nn.functional import pad
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
"""
TRANSFORM = '''\


def transform(mask_fill: float = MASK_FILL) -> ScheduleTransform:
    """The schedule as a transform, in its last epoch until you call set_epoch or
    set_progress.

    mask_fill: the value of pixels of masks that operations uncover.
    """
    return ScheduleTransform(OPERATIONS, TABLES, FILL, mask_fill)
'''
POLICY = '''\


def policy(
    same_on_batch: bool = False, keepdim: bool = False, mask_fill: float = MASK_FILL
) -> SchedulePolicy:
    """The schedule as an augmentation of kornia, in its last epoch until you call
    set_epoch or set_progress.

    mask_fill: the value of pixels of masks that operations uncover.
    """
    return SchedulePolicy(
        OPERATIONS, TABLES, FILL, mask_fill, same_on_batch, keepdim
    )
'''
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

{imports}
{code}


{numbers}{function}'''
ON_IMAGES_USAGE = """\
    from {module} import transform

    policy = transform()
    pipeline = v2.Compose([policy, v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])
    for epoch in range(epochs):
        policy.set_epoch(epoch, epochs)  # reaches DataLoader workers, persistent \
ones too

{by_class}\
Boxes, masks and keypoints of torchvision.tv_tensors move with their image. It needs
Python 3.11, torch, torchvision 0.19, or newer ones, {needs}, and nothing \
else{users}."""
BY_CLASS_USAGE = """\
Give an image with its label, `image, label = policy(image, label)`: some flips or turns
hold only for some classes, and may change the label. Without a label, they are left
out. Labels count these classes from 0: {classes}.

"""
ON_BATCHES_USAGE = """\
    from {module} import policy

    augment = AugmentationSequential(policy(), data_keys=["input", "mask"])  # or \
policy() alone, on images
    for epoch in range(epochs):
        augment[0].set_epoch(epoch, epochs)

It needs Python 3.11, torch and kornia 0.8, or newer ones, and nothing else{users}."""


def generated_note(schedule: Schedule) -> str:
    """The line of a generated file that says so, with what it was generated from."""
    names = [
        str(schedule.provenance[key])
        for key in ("algorithm", "dataset")
        if key in schedule.provenance
    ]
    if RECIPE in schedule.provenance:
        origin = f"the recipe {schedule.provenance[RECIPE]}"
    elif "algorithm" in schedule.provenance:
        origin = f"a schedule found by {' on '.join(map(display_name, names))}"
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
        mask_fill: The value of pixels of masks that operations uncover.
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
    check_has_image_operations(schedule)
    operations = schedule.space.on_images
    modules = _modules(operations, on_batches)
    users_modules = sorted(
        {
            function.__module__
            for operation in operations
            for function in _users_functions(operation, on_batches)
        }
    )
    imports = IMPORTS + (ON_BATCHES_IMPORTS if on_batches else ON_IMAGES_IMPORTS)
    for source in users_modules:
        imports += f"import {source} as {_alias(source)}\n"
    needs_kornia = photometric in modules
    usage = ON_BATCHES_USAGE if on_batches else ON_IMAGES_USAGE
    moves = schedule.space.class_moves
    by_class = ""
    if moves is not None:
        names = _harmless(first_of(moves.class_names))
        by_class = BY_CLASS_USAGE.format(classes=names)
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
            users=f" but {', '.join(users_modules)}" if users_modules else "",
            by_class=by_class,
        ),
        mixing=mixing_usage(schedule),
        imports=imports,
        code="\n\n\n".join(_code_of(module) for module in modules),
        numbers=_numbers_text(schedule, operations, mask_fill, on_batches),
        function=POLICY if on_batches else TRANSFORM,
    )


def _modules(operations: Sequence[Operation], on_batches: bool) -> list[ModuleType]:
    """The modules that the file contains, each after those that it uses."""
    optional_names = {module.__name__ for module in OPTIONAL}
    needs_optional = any(
        operation.function.__module__ in optional_names for operation in operations
    )
    modules = [tensors, color, geometric, *(OPTIONAL if needs_optional else ())]
    modules += [drawing, image_operation, player]
    if on_batches:
        # kornia's augmentations take long to import.
        from hba.exports import schedule_policy

        return [*modules, batch_draw, schedule_policy]
    return [*modules, on_pil, annotations, schedule_transform]


def check_has_image_operations(schedule: Schedule) -> None:
    """Raise SettingsError if the schedule has no operation on single images."""
    if not schedule.space.acts_on_images:
        remedy = "export --to json, and mix by schedule.batch_transform(n_classes)"
        raise SettingsError(
            f"the schedule has only Mixup and CutMix, which act on batches: {remedy}"
        )


def _users_functions(
    operation: Operation, on_batches: bool
) -> list[Callable[..., Any]]:
    """The functions of an operation that the file imports: none of hba's operations.

    Raises:
        SettingsError: If Python cannot import one of them.
    """
    if function_path(operation) is None:
        return []
    names = ["function", *(() if on_batches else FOR_SINGLE_IMAGES)]
    functions = [
        function
        for function in (getattr(operation, name) for name in names)
        if not (function is None or _is_in_every_file(function))
    ]
    for function in functions:
        if not _is_importable(function):
            raise SettingsError(
                "operations must be hba's own, or functions at the top of a module that"
                f" Python can import, to be exported, got {operation.name}; export --to"
                " json, and register yours where the schedule is read"
            )
    return functions


def _is_in_every_file(function: Any) -> bool:
    """Whether it is one of hba's functions, or one of PIL's that hba uses."""
    module = function.__module__
    return module.startswith("hba.") or module == ImageOps.__name__


def _is_importable(function: Any) -> bool:
    """Whether it is a function at the top of a module on Python's path."""
    module = function.__module__
    # Unlike importlib.util.find_spec, it does not find the module of an operations
    # file.
    is_found = (
        module != "__main__"
        and PathFinder.find_spec(module.partition(".")[0]) is not None
    )
    return is_found and getattr(function, "__qualname__", "").isidentifier()


def _alias(module: str) -> str:
    """The name of a user's module in a file."""
    return OF_USER + module.replace(".", "_")


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


def _numbers_text(
    schedule: Schedule,
    operations: Sequence[Operation],
    mask_fill: float,
    on_batches: bool,
) -> str:
    """The constants of the file."""
    rows = "".join(
        f'    "{operation.name}": {_operation_text(operation, on_batches)},\n'
        for operation in operations
    )
    fill = {n_channels: color_for(n_channels, schedule.fill) for n_channels in (1, 3)}
    tables = tables_of(schedule.space, schedule.values, schedule.spread)
    return (
        f"OPERATIONS = {{\n{rows}}}\nFILL = {fill}\n{_tables_text(tables)}"
        f"MASK_FILL = {mask_fill}\n"
    )


def _operation_text(operation: Operation, on_batches: bool) -> str:
    """The operation as an ImageOperation of the file."""
    arguments = []
    for field in dataclasses.fields(ImageOperation):
        value = getattr(operation, field.name)
        is_needed = not (on_batches and field.name in FOR_SINGLE_IMAGES)
        if is_needed and value != field.default:
            arguments.append(f"{field.name}={_text_of(value)}")
    return f"ImageOperation({', '.join(arguments)})"


def _text_of(value: Any) -> str:
    """A field of an operation as Python code."""
    if isinstance(value, Enhancer):
        return f"Enhancer(ImageEnhance.{value.enhance.__name__})"
    if not callable(value):
        return repr(value)
    name: str = value.__name__
    if not _is_in_every_file(value):
        return f"{_alias(value.__module__)}.{name}"
    return name if value.__module__.startswith("hba.") else f"ImageOps.{name}"


def _tables_text(tables: Tables) -> str:
    """The tables, with a line for each of their rows."""
    lines = ["TABLES = Tables("]
    for name, value in tables._asdict().items():
        if isinstance(value, list) and value and isinstance(value[0], list):
            rows = [f"        {row}," for row in value]
            lines += [f"    {name}=[", *rows, "    ],"]
        else:
            lines.append(f"    {name}={value},")
    return "\n".join([*lines, ")"]) + "\n"
