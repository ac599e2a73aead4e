"""An exported schedule as one Python file for torchvision, and what all exported Python files are made of.

A file is a docstring, imports, sources of functions, and the schedule's tables.
"""

import ast
import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hba.errors import SettingsError
from hba.exports import torchvision_code
from hba.operations import Operation, on_pil
from hba.operations.images import color_for
from hba.operations.on_pil import RESAMPLING, Enhancer
from hba.policy import single_image
from hba.policy.space import SearchSpace
from hba.schedule.schedule import Schedule
from hba.schedule.summary import left_out
from hba.utils.provenance import VERSION

Imports = Sequence[Mapping[str, tuple[str, ...]]]
"""Groups of names that the code of a file may use, by where they come from: Python's own, and others."""

IMPORTS = (
    {
        "import": ("math",),
        "from collections.abc import": ("Callable", "Mapping"),
        "from dataclasses import": ("dataclass",),
        "from typing import": ("Any", "NamedTuple"),
    },
    {
        "import": ("torch",),
        "from numpy.polynomial.hermite_e import": ("hermegauss",),
        "from PIL import": ("Image", "ImageEnhance", "ImageOps"),
        "from PIL.Image import": ("Resampling", "Transform"),
        "from torch import": ("Tensor",),
        "from torchvision import": ("tv_tensors",),
        "from torchvision.transforms import": ("v2",),
        "from torchvision.transforms.v2 import": ("functional as TF",),
    },
)
CHANNELS = {"L": 1, "RGB": 3}
"""By mode of a PIL image."""
DRAW = (single_image.OpSample, single_image.PlainSlot, single_image.PlainRow, single_image.draw_for_one)
TRANSFORM = (
    torchvision_code.Tables,
    torchvision_code.numbers_at,
    torchvision_code.mean_probabilities,
    torchvision_code.Row,
    torchvision_code.row_of,
    torchvision_code.row_at,
    torchvision_code.is_image_tensor,
    torchvision_code.Place,
    torchvision_code.ScheduleTransform,
)


def torchvision_file(schedule: Schedule, usage: str, needs: str, makes: Sequence[Any]) -> str:
    """The text of the file: operations on PIL images, the draw for one image, the schedule's tables, the transform.

    usage: lines of the docstring. needs: the libraries. makes: the functions at its end that a user calls.
    Raises SettingsError for operations of one's own.
    """
    operations = schedule.space.operations
    refuse_own(operations, _name)
    parts = [
        "Color = tuple[int, ...]\n",
        sources(_functions(operations)),
        sources([torchvision_code.Operation]),
        operations_text(operations, _arguments),
        sources([*DRAW, *TRANSFORM]),
        tables_text(schedule),
        _fill_text(schedule.fill),
        sources(makes),
    ]
    return python_file(schedule, usage, needs, IMPORTS, parts)


def _fill_text(fill: tuple[float, ...]) -> str:
    by_mode = {mode: tuple(round(255 * one) for one in color_for(n, fill)) for mode, n in CHANNELS.items()}
    return f"FILL = {json.dumps(by_mode).replace('[', '(').replace(']', ',)')}\n"


def _functions(operations: Iterable[Operation]) -> list[Any]:
    """What the table of operations calls, and what that calls, in the order of on_pil.py."""
    functions = [thing for thing in vars(on_pil).values() if getattr(thing, "__module__", "") == on_pil.__name__]
    return called(" ".join(map(_name, operations)), functions)


def _name(operation: Operation) -> str:
    """How the file calls the operation's function on PIL images; nothing for one that is not hba's or PIL's."""
    function = operation.on_pil
    if isinstance(function, Enhancer):
        return f"Enhancer(ImageEnhance.{function.enhance.__name__})"
    module, name = getattr(function, "__module__", ""), getattr(function, "__name__", "")
    return {on_pil.__name__: name, "PIL.ImageOps": f"ImageOps.{name}"}.get(module, "")


def _arguments(operation: Operation) -> tuple[str, str]:
    """The first and the last argument of the operation in the file's table."""
    interpolation = operation.interpolation
    return _name(operation), f"resampling=Resampling.{RESAMPLING[interpolation].name}" if interpolation else ""


def operations_text(operations: Iterable[Operation], ends: Callable[[Operation], tuple[str, str]]) -> str:
    """The table of operations. ends: the first argument of each, and the last one or nothing."""
    lines = []
    for operation in operations:
        first, last = ends(operation)
        flags = {
            "has_magnitude": operation.magnitude_range is not None,
            "signed": operation.signed,
            "uses_fill": operation.uses_fill,
            "uses_position": operation.uses_position,
        }
        arguments = [first, *(f"{name}=True" for name, is_set in flags.items() if is_set), *([last] if last else [])]
        lines.append(f'    "{operation.name}": Operation({", ".join(arguments)}),')
    return "\n".join(["OPERATIONS = {", *lines, "}\n"])


def python_file(schedule: Schedule, usage: str, needs: str, imports: Imports, parts: Sequence[str]) -> str:
    """The text of a file from its parts of code. usage: lines of the docstring. needs: the libraries."""
    code = "\n\n".join(parts)
    return "\n".join([_docstring(schedule, usage, needs), _imports(imports, code), code]).rstrip() + "\n"


def _docstring(schedule: Schedule, usage: str, needs: str) -> str:
    epochs = "one policy throughout" if schedule.epochs == 1 else f"a policy for each of {schedule.epochs} epochs"
    origin = [str(schedule.provenance[name]) for name in ("algorithm", "dataset") if name in schedule.provenance]
    # What a schedule says of itself must not end the docstring.
    searched = re.sub(r"[^\w .,:/()-]", "?", " on ".join(origin))
    found = f" It was found by {searched}." if searched else ""
    # Names of a network's modules, which come from a file too.
    without = re.sub(r"[^\w .,:/();-]", "?", left_out(schedule.space))
    left = f"\nLeft out: {without}.\n" if schedule.space.regularizers else ""
    return f'''"""Data augmentation: {epochs}, {len(schedule.space.operations)} operations.{found}
{left}
{usage}
It needs {needs}, and nothing else.
hba {VERSION} wrote it (hba export); export the schedule again rather than edit it.
"""

# ruff: noqa: E501
'''


def _imports(imports: Imports, code: str) -> str:
    """Lines for the names that the code uses."""
    used = {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}
    return "\n".join("".join(_import_lines(group, used)) for group in imports)


def _import_lines(group: Mapping[str, tuple[str, ...]], used: Set[str]) -> Iterator[str]:
    for source, names in group.items():
        chosen = [name for name in names if name.split()[-1] in used]
        if chosen:
            yield f"{source} {', '.join(chosen)}\n"


def sources(things: Iterable[Any]) -> str:
    """Without what is said there to type checkers and linters, and without imports inside functions."""
    text = re.sub(r"  # (type: ignore|noqa).*", "", "\n\n".join(map(inspect.getsource, things)))
    return re.sub(r"^ +(from hba\.\S+ import .*|import torch)\n\n?", "", text, flags=re.MULTILINE)


def called(text: str, functions: Sequence[Any]) -> list[Any]:
    """Those of the functions that a text calls, and that these call, in their order."""
    found: list[Any] = []
    while len(found) < len(found := [one for one in functions if re.search(rf"\b{one.__name__}\b", text)]):
        text += "".join(inspect.getsource(one) for one in found)
    return found


def refuse_own(operations: Iterable[Operation], name_of: Callable[[Operation], str]) -> None:
    """SettingsError for operations that a file has no name for: their functions are in other files."""
    own = [operation.name for operation in operations if not name_of(operation)]
    if own:
        raise SettingsError(
            f"{', '.join(own)} cannot be written into a file of its own: only the operations of hba can; export "
            "--to json, and register yours where the schedule is read"
        )


def tables_text(schedule: Schedule) -> str:
    """In single precision, in which hba draws."""
    space = schedule.space
    slots = [
        (slot.operation.name, *((0.0, 0.0) if slot.magnitude is None else space.ranges[slot.magnitude]))
        for slot in space.slots
    ]
    values, spread = (torch.tensor(rows, dtype=torch.float32) for rows in (schedule.values, schedule.spread))
    columns = [slot.probability for slot in space.slots]
    counts, count_spread = _counts(space, values, spread)
    tables = {
        "probabilities": values[:, columns],
        "probability_spread": spread[:, columns],
        "magnitudes": _of_magnitudes(space.slots, values),
        "magnitude_spread": _of_magnitudes(space.slots, spread),
        "counts": counts,
        "count_spread": count_spread,
    }
    rows = [f"    {name}={_rows(table)}," for name, table in tables.items()]
    return "\n".join(
        [
            "# fmt: off",
            "TABLES = Tables(",
            f"    epochs={schedule.epochs},",
            "    slots=[",
            *(f'        ("{name}", {low}, {high}),' for name, low, high in slots),
            "    ],",
            *rows,
            ")",
            "# fmt: on\n",
        ]
    )


def _of_magnitudes(slots: Sequence[Any], rows: Tensor) -> Tensor:
    """A number for each slot, 0 where it has no magnitude."""
    columns = [rows.new_zeros(len(rows)) if slot.magnitude is None else rows[:, slot.magnitude] for slot in slots]
    return torch.stack(columns, dim=1)


def _counts(space: SearchSpace, values: Tensor, spread: Tensor) -> tuple[Tensor, Tensor]:
    """Probabilities (epochs, most operations) of one more operation, and their spread."""
    if space.searches_count:
        return values[:, space.count_columns], spread[:, space.count_columns]
    at_least = torch.tensor(space.count_probabilities, dtype=torch.float64).flip(0).cumsum(0).flip(0)
    counts = (at_least[1:] / at_least[:-1].clamp(min=torch.finfo(torch.float64).tiny))[None]
    return counts, torch.zeros_like(counts)


def _rows(table: Tensor) -> str:
    """A line for each epoch, or one line where all are alike; the shortest decimals that give the same numbers."""
    rows = table[:1] if (table == table[0]).all() else table
    lines = [", ".join(str(number) for number in row) for row in rows.numpy().astype(np.float32)]
    return "[\n" + "".join(f"        [{line}],\n" for line in lines) + "    ]"
