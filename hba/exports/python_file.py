"""A schedule as one Python file that does not need hba: hba's own functions as source,
and the schedule's numbers.
"""

import ast
import inspect
import re
import symtable
from collections.abc import Mapping, Sequence
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

OWN = "own_"
"""Before the names of functions of your own in a file."""
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

{code}


{numbers}'''
ON_IMAGES_USAGE = """\
    from {module} import transform

    policy = transform()
    pipeline = v2.Compose([policy, v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])
    for epoch in range(epochs):
        policy.set_epoch(epoch, epochs)  # reaches DataLoader workers, persistent ones too

It needs Python 3.11, torch, torchvision 0.19, or newer ones, {needs}, and nothing else{own}."""
ON_BATCHES_USAGE = """\
    from {module} import policy

    augment = AugmentationSequential(policy(), data_keys=["input", "mask"])  # or policy() alone, on images
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
    """The text of the file, for kornia if on_batches. SettingsError for operations of
    your own.

    module: its name. mask_fill: the value of pixels of masks that operations uncover.
    """
    left = (
        f"\nLeft out: {_harmless(left_out(schedule.space))}.\n"
        if schedule.space.regularizers
        else ""
    )
    schedule = schedule.without_regularizers()
    operations = image_operations(schedule)
    modules: tuple[ModuleType, ...] = (
        tensors,
        color,
        photometric,
        distortion,
        erasing,
    )
    if on_batches:
        # kornia's augmentations take long to import.
        from hba.exports import kornia_code

        modules += (geometric, player, kornia_code)
    else:
        modules += (on_pil, player, torchvision_code)
    fill = {n_channels: color_for(n_channels, schedule.fill) for n_channels in (1, 3)}
    rows = "".join(
        f'    "{one.name}": {_operation_text(one, on_batches)},\n' for one in operations
    )
    numbers = f"OPERATIONS = {{\n{rows}}}\nFILL = {fill}\n{_tables_text(schedule)}"
    if on_batches:
        numbers = f"{numbers}MASK_FILL = {mask_fill}\n"
    own = {
        one.function.__name__: one.function.__module__
        for one in operations
        if function_path(one) is not None
    }
    code = _source(
        f"{numbers}\n{'policy' if on_batches else 'transform'}", modules, own
    )
    needs = "Pillow, and kornia" if "from kornia" in code else "and Pillow"
    return FILE.format(
        generated=generated_note(schedule),
        epochs=(
            "one policy throughout"
            if schedule.epochs == 1
            else f"a policy for each of {schedule.epochs} epochs"
        ),
        n=len(operations),
        left=left,
        usage=(ON_BATCHES_USAGE if on_batches else ON_IMAGES_USAGE).format(
            module=module,
            needs=needs,
            own=f" but {', '.join(sorted({*own.values()}))}" if own else "",
        ),
        mixing=mixing_usage(schedule),
        code=code,
        numbers=numbers,
    )


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
        SettingsError: if there is none, and if one is not hba's and Python cannot
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


def _source(code: str, modules: Sequence[ModuleType], own: Mapping[str, str]) -> str:
    """The imports, functions, classes and constants of the modules that code needs, in
    their order.

    own: modules by the names of functions that the file imports from them, with OWN
    before their names. Of two definitions of a name, the last counts. Imports of hba
    and comments for checkers and linters are left out.
    """
    imports = {
        f"{OWN}{name}": f"from {module} import {name} as {OWN}{name}"
        for name, module in own.items()
    }
    definitions: dict[str, str] = {}
    for module in modules:
        text = _text_of(module)
        for node in ast.parse(text).body:
            if isinstance(node, ast.ImportFrom) and not f"{node.module}.".startswith(
                "hba."
            ):
                imports |= {
                    one.asname
                    or one.name: f"from {node.module} import {ast.unparse(one)}"
                    for one in node.names
                }
            elif isinstance(node, ast.Import):
                imports |= {
                    one.asname or one.name: f"import {ast.unparse(one)}"
                    for one in node.names
                }
            elif isinstance(node, ast.FunctionDef | ast.ClassDef):
                first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
                found = "\n".join(text.splitlines()[first - 1 : node.end_lineno])
                found = re.sub(r"  # (type: ignore|noqa).*", "", found)
                inner_imports = (
                    r"^ +(from hba\.\S+ import .*|import"
                    r" torch)\n\n?|^@device_constant\n"
                )
                definitions[node.name] = re.sub(
                    inner_imports, "", found, flags=re.MULTILINE
                )
            elif isinstance(node, ast.Assign):
                definitions[ast.unparse(node.targets[0])] = ast.unparse(node)
    used: set[str] = set()
    new = _names(code)
    while new := new - used:
        used |= new
        new = {
            name
            for one in new & definitions.keys()
            for name in _names(definitions[one])
        }
    lines = sorted({line for name, line in imports.items() if name in used})
    return "\n\n\n".join(
        [
            "\n".join(lines),
            *(text for name, text in definitions.items() if name in used),
        ]
    )


def _text_of(module: ModuleType) -> str:
    try:
        return inspect.getsource(module)
    except OSError:
        lacks = (
            "a Python file needs the source files of hba, which this installation lacks"
        )
        raise SettingsError(
            f"{lacks}; install hba with its .py files, or export --to json"
        ) from None


def _names(code: str) -> set[str]:
    """Global names that code uses."""

    def read_in(table: symtable.SymbolTable) -> set[str]:
        is_module = table.get_type() == "module"
        own = {
            one.get_name()
            for one in table.get_symbols()
            if one.is_referenced() and (is_module or one.is_global())
        }
        return own.union(*map(read_in, table.get_children()))

    return read_in(symtable.symtable(code, "exported.py", "exec"))


def _operation_text(one: Operation, on_batches: bool) -> str:
    interpolation, flags = one.interpolation, {}
    if function_path(one) is not None:
        first, last, flags = (
            f"{OWN}{one.function.__name__}",
            "",
            {} if on_batches else {"on_batches": True},
        )
    elif on_batches:
        first, last = one.function.__name__, f'interpolation="{interpolation}"'
        if one.kernel in color.KERNELS:
            first = f"partial({color.KERNELS[one.kernel].__name__}, {first})"
    elif one.on_pil is None:
        first, last, flags = one.function.__name__, "", {"on_batches": True}
    else:
        first, last = (
            _pil_name(one.on_pil),
            f"resampling=Resampling.{str(interpolation).upper()}",
        )
    flags |= {
        "moves_pixels": bool(one.moves_pixels) and not interpolation,
        "has_magnitude": one.magnitude_range is not None,
        "signed": one.signed,
        "uses_fill": one.uses_fill,
    }
    arguments = [first, *(f"{name}=True" for name, is_set in flags.items() if is_set)]
    arguments += [f"n_uniforms={one.n_uniforms}"] if one.n_uniforms else []
    return f"Operation({', '.join([*arguments, last] if interpolation else arguments)})"


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
    counts, count_spread = values[:, columns.counts], spread[:, columns.counts]
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
