"""Does an exported file do what the schedule does? Its operations and its whole policy, beside hba's own on images."""

import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from PIL import Image

from hba.errors import ScheduleError, SettingsError
from hba.exports.targets import find_target
from hba.operations import Operation, color_for
from hba.schedule.file import parse
from hba.schedule.schedule import Schedule

N_MAGNITUDES = 5
N_DRAWS = 20
PLACES = (0.0, 0.37, 1.0)
"""In a schedule, at which whole policies are compared."""
POSITIONS = ((0.0, 0.0), (0.3, 0.6), (0.97, 0.97))
"""In an image, of operations that have one."""
WHOLE = "whole policy"


@dataclass(frozen=True)
class Checked:
    """largest, mean: difference to hba's own result, in grey levels of 255, over images, magnitudes and draws.

    what: the name of an operation, or WHOLE. n: images that were compared.
    """

    what: str
    n: int
    largest: float
    mean: float

    @property
    def is_exact(self) -> bool:
        return self.largest == 0


def check(text: str, to: str, schedule: Schedule, images: Sequence[Image.Image]) -> tuple[Checked, ...]:
    """What `export` gave for a target beside the schedule itself: each operation at several magnitudes, and draws.

    images: PIL images of mode L or RGB, at least one. Raises ScheduleError for a schedule file that does not load.
    """
    find_target(to)
    if not images:
        raise SettingsError("a check needs at least one image")
    if to == "json":
        return (_of_file(text, schedule),)
    module = types.ModuleType("exported")
    exec(compile(text, "exported.py", "exec"), vars(module))
    by_operation = [
        _compared(operation.name, _of_operation(module, operation, schedule, images))
        for operation in schedule.space.operations
    ]
    return (*by_operation, _compared(WHOLE, _of_policy(module, schedule, images)))


def _of_file(text: str, schedule: Schedule) -> Checked:
    """All numbers, bit for bit."""
    loaded = Schedule(**parse(text)._asdict())
    same = (
        loaded.space == schedule.space
        and loaded.fill == tuple(schedule.fill)
        and np.array_equal(loaded.values, schedule.values)
        and np.array_equal(loaded.spread, schedule.spread)
    )
    if not same:
        raise ScheduleError("the file that was written holds another schedule")
    return Checked("all numbers", schedule.values.size + schedule.spread.size, 0.0, 0.0)


Pair = tuple[Image.Image, Image.Image]


def _compared(what: str, pairs: Iterator[Pair]) -> Checked:
    differences = [np.abs(np.asarray(one, dtype=float) - np.asarray(other, dtype=float)) for one, other in pairs]
    largest = max(float(one.max(initial=0.0)) for one in differences)
    return Checked(what, len(differences), largest, float(np.mean([one.mean() for one in differences])))


def _of_operation(
    module: Any, operation: Operation, schedule: Schedule, images: Sequence[Image.Image]
) -> Iterator[Pair]:
    low, high = operation.magnitude_range or (0.0, 0.0)
    n_magnitudes = N_MAGNITUDES if operation.magnitude_range else 1
    magnitudes = [float(one) for one in np.linspace(low, high, n_magnitudes)]
    signs = (1, -1) if operation.signed else (1,)
    exported = module.OPERATIONS[operation.name]
    for image in images:
        color = tuple(round(255 * one) for one in color_for(len(image.getbands()), schedule.fill))
        for magnitude in (sign * one for one in magnitudes for sign in signs):
            for position in POSITIONS if operation.uses_position else POSITIONS[:1]:
                yield tuple(one.apply_to_pil(image, magnitude, color, position) for one in (operation, exported))  # type: ignore[misc]


def _of_policy(module: Any, schedule: Schedule, images: Sequence[Image.Image]) -> Iterator[Pair]:
    """With the same random numbers, both draw the same."""
    own, exported = schedule.transform(), module.transform()
    for place in PLACES:
        for transform in (own, exported):
            transform.set_progress(place)
        for seed in range(N_DRAWS):
            for image in images:
                results = []
                for transform in (own, exported):
                    with torch.random.fork_rng(devices=[]):
                        torch.manual_seed(seed)
                        transform(image)
                        # The second, so that both must have taken as many random numbers.
                        results.append(transform(image))
                yield results[0], results[1]
