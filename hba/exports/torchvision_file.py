"""An exported schedule as one Python file for torchvision, with the operations on PIL images."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from hba.exports import torchvision_code
from hba.exports.python_file import called, python_file, refuse_own, sources, tables_text
from hba.operations import Operation, color_for, on_pil
from hba.operations.on_pil import RESAMPLING, Enhancer
from hba.policy import single_image
from hba.schedule.schedule import Schedule

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
        _operations_text(operations),
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


def _operations_text(operations: Iterable[Operation]) -> str:
    lines = []
    for operation in operations:
        said = {
            "has_magnitude": operation.magnitude_range is not None,
            "signed": operation.signed,
            "uses_fill": operation.uses_fill,
            "uses_position": operation.uses_position,
        }
        arguments = [_name(operation), *(f"{name}=True" for name, is_so in said.items() if is_so)]
        if operation.interpolation is not None:
            arguments.append(f"resampling=Resampling.{RESAMPLING[operation.interpolation].name}")
        lines.append(f'    "{operation.name}": Operation({", ".join(arguments)}),')
    return "\n".join(["OPERATIONS = {", *lines, "}\n"])
