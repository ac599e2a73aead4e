"""Schedules that Population Based Augmentation (PBA, Ho et al. 2019) left in its log
files, as schedules of hba.

PBA trains a population of networks. A trial that clones the network of a better one
logs a line, JSON or Python:

    [trial, cloned trial, epoch of the trial, epoch of the cloned trial, old policy, new
        policy]

The old policy is the one that the clone used so far, and the new one its next. The
schedule is the ancestry of the last trial, in which each line clones the trial of the
line before. Lines before the last break in that chain are omitted. A policy is 60 whole
numbers, in newer files the entry "hp_policy" of a mapping: for each of two copies, and
for the 15 operations in the order of hba.policy.spaces.PBA, the probability in tenths
and the level of the magnitude, both in [0, 10].

Magnitudes in degrees, pixels, bits and grey levels are truncated to whole numbers as in
PBA; pixels become fractions of PBA's side of 32. PBA fills borders and Cutout with the
dataset's mean colour, here `fill`. NOTE has other differences.

Ref: github.com/arcelien/pba, pba/utils.py (parse_log), pba/data_utils.py (parse_policy)
and pba/augmentation_transforms.py (levels), without its stretching.
"""

import ast
import itertools
import json
import math
from typing import Annotated, Any

import numpy as np
import pydantic
from pydantic import Field

from hba.errors import ScheduleError
from hba.operations import OPERATIONS
from hba.operations.operation import PbaMagnitudes
from hba.policy.spaces import PBA, SPACES
from hba.schedule.file import MALFORMED, problem_of
from hba.schedule.schedule import Schedule

PBA_FILL = (125 / 255, 122 / 255, 113 / 255)
"""The colour of PBA's own Cutout, which is also the mean colour of CIFAR-10."""
MAX_LEVEL = 10
N_NUMBERS = 2 * 2 * len(PBA)
NOTE = (
    "Read from a log of Population Based Augmentation. PBA's Posterize keeps 0 bits at"
    " level 10, hba's at least 1; PBA repeats policies for other numbers of epochs, hba"
    " interpolates linearly."
)
Numbers = Annotated[
    tuple[Annotated[int, Field(strict=True, ge=0, le=MAX_LEVEL)], ...],
    Field(min_length=N_NUMBERS, max_length=N_NUMBERS),
    pydantic.BeforeValidator(
        lambda entry: entry["hp_policy"] if isinstance(entry, dict) else entry
    ),
]
_LINE = pydantic.TypeAdapter(tuple[Any, Any, Any, pydantic.StrictInt, Numbers, Numbers])


def pba_schedule(
    text: str, file: str, epochs: int, fill: tuple[float, ...]
) -> Schedule:
    """The schedule of a PBA log over the epochs that PBA searched.

    Args:
        text: The log.
        file: Its name, for the provenance.
        epochs: How many epochs PBA searched.
        fill: Colour in [0, 1] of what geometric operations and Cutout uncover.

    Raises:
        ScheduleError: For a text that is not such a log; it names the line.
    """
    space = SPACES["pba"]
    segments = pba_segments(text, epochs)
    lengths = [length for length, _ in segments]
    rows = []
    for _, policy in segments:
        values = natural_values(policy)
        rows.append([values[name] for name in space.names])
    provenance = {
        "algorithm": "pba",
        "file": file,
        "segments": lengths,
        "note": NOTE,
    }
    return Schedule(space, np.repeat(np.array(rows), lengths, axis=0), fill, provenance)


def pba_segments(text: str, epochs: int) -> list[tuple[int, Numbers]]:
    """The policies of a log with their numbers of epochs.

    Args:
        text: The log.
        epochs: Number of epochs that PBA searched.

    Returns:
        Epochs of each policy, `epochs` in all, and the policy; 0 epochs if it was
        replaced at once.

    Raises:
        ScheduleError: For another text.
    """
    starts = [0]
    policies: list[Numbers] = []
    last = None
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            trial, cloned_trial, _, epoch, old, new = _LINE.validate_python(
                _literal(line)
            )
        except MALFORMED as error:
            raise ScheduleError(f"line {number}: {problem_of(error)}") from None
        if cloned_trial != last:
            starts = [0]
            policies = [old]
        starts.append(epoch)
        policies.append(new)
        last = trial
    starts.append(epochs)
    if not policies or epochs < 1 or starts != sorted(starts):
        rule = (
            "a log needs a line, and the epochs of cloned trials must not decrease or"
            f" exceed the {epochs} given"
        )
        raise ScheduleError(
            f"{rule}, got {starts[1:-1]}; give the number of epochs that PBA searched"
        )
    return [
        (end - start, policy)
        for (start, end), policy in zip(
            itertools.pairwise(starts), policies, strict=True
        )
    ]


def _literal(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return ast.literal_eval(line.strip())


def natural_values(policy: Numbers) -> dict[str, float]:
    """Probabilities and magnitudes in natural units, by the names of the space `pba`.

    PBA also writes a level for Invert, Equalize and AutoContrast, but does not use it;
    it is left out.
    """
    values = {}
    numbers = iter(policy)
    for copy, name in itertools.product((1, 2), PBA):
        values[f"{name}.{copy}.probability"] = next(numbers) / 10
        level = next(numbers)
        magnitudes = OPERATIONS[name].pba
        if magnitudes is not None:
            values[f"{name}.{copy}.magnitude"] = _magnitude(magnitudes, level)
    return values


def _magnitude(magnitudes: PbaMagnitudes, level: int) -> float:
    first, last, parts = magnitudes
    if parts is None:
        # Ten digits are enough for steps of 0.18 and 0.03, and free of rounding errors.
        return round(first + (last - first) * level / MAX_LEVEL, 10)
    n_parts = level * round(abs(last - first) * parts) // MAX_LEVEL
    return first + math.copysign(n_parts / parts, last - first)
