"""An exported schedule as one Python file for kornia, with the operations on batches."""

import inspect
from types import ModuleType
from typing import Any

from hba.exports import kornia_code, torchvision_code
from hba.exports.torchvision_file import called, operations_text, python_file, refuse_own, sources, tables_text
from hba.operations import Operation, enhance, geometric, images, operation, point
from hba.operations.enhance import Blend
from hba.operations.geometric import Warp
from hba.operations.images import color_for
from hba.operations.point import Curve, Stretch
from hba.schedule.schedule import Schedule

IMPORTS = (
    {
        "from collections.abc import": ("Callable", "Mapping"),
        "from functools import": ("partial",),
        "from typing import": ("Any", "NamedTuple"),
    },
    {
        "import": ("torch",),
        "from kornia.augmentation import": ("GeometricAugmentationBase2D",),
        "from numpy.polynomial.hermite_e import": ("hermegauss",),
        "from torch import": ("Tensor",),
    },
)
ROOMS: tuple[ModuleType, ...] = (images, operation, geometric, point, enhance)
"""Where the operations' functions stand, and what these call."""
POLICY = (
    kornia_code.Operation,
    torchvision_code.Row,
    torchvision_code.Tables,
    torchvision_code.numbers_at,
    torchvision_code.mean_probabilities,
    torchvision_code.row_of,
    kornia_code.draw_for_batch,
    kornia_code.matrices,
    torchvision_code.Place,
    kornia_code.SchedulePolicy,
)
MAKERS = {Curve: kornia_code.curve, Stretch: kornia_code.stretch, Blend: kornia_code.enhance}
"""What applies the function that is the heart of an operation, by its kernel."""


def kornia_file(schedule: Schedule, usage: str, needs: str) -> str:
    """The text of the file: operations on batches, the draw for a batch, the schedule's tables, the policy.

    usage: lines of the docstring. needs: the libraries. Raises SettingsError for operations of one's own.
    """
    operations = schedule.space.operations
    refuse_own(operations, _function)
    table = operations_text(operations, _arguments)
    policy = sources(POLICY)
    makers = called(table, list(MAKERS.values()))
    functions = called(" ".join([table, policy, sources(makers)]), _all_functions())
    parts = [
        _constants_text(sources(functions)),
        sources([kornia_code.whole_numbers, *functions, *makers]),
        policy,
        table,
        tables_text(schedule),
        f"FILL = {{{', '.join(f'{n}: {tuple(color_for(n, schedule.fill))}' for n in (1, 3))}}}\n",
        sources([kornia_code.policy]),
    ]
    return python_file(schedule, usage, needs, IMPORTS, parts)


def _all_functions() -> list[Any]:
    """Those of all rooms, and Maps, in their order."""
    things = [
        thing for room in ROOMS for thing in vars(room).values() if getattr(thing, "__module__", "") == room.__name__
    ]
    return [thing for thing in things if inspect.isfunction(thing) or thing is operation.Maps]


def _constants_text(text: str) -> str:
    """Numbers of the rooms that the text uses."""
    named = {name: value for room in ROOMS for name, value in vars(room).items() if name.isupper()}
    used = [f"{name} = {value}" for name, value in named.items() if isinstance(value, int | tuple) and name in text]
    return "\n".join(used) + "\n"


def _arguments(operation: Operation) -> tuple[str, str]:
    """The first and the last argument of the operation in the file's table."""
    if operation.interpolation is None:
        return _function(operation), ""
    return f"coefficients={_function(operation)}", f'interpolation="{operation.interpolation}"'


def _function(operation: Operation) -> str:
    """How the file calls the operation's function, or its coefficients; nothing for one that is not hba's."""
    kernel = operation.kernel
    if isinstance(kernel, Warp):
        return kernel.coefficients.__name__ if kernel.coefficients.__module__ == geometric.__name__ else ""
    if operation.function is geometric.cutout:
        return "cutout"
    inner = next((value for value in vars(kernel).values() if type(kernel) in MAKERS), None)
    if getattr(inner, "__module__", "") not in (point.__name__, enhance.__name__):
        return ""
    return f"partial({MAKERS[type(kernel)].__name__}, {inner.__name__})"  # type: ignore[union-attr]
