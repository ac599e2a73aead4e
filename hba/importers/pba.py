"""Schedules that Population Based Augmentation (PBA, Ho et al. 2019) left in its log files, as schedules of hba.

PBA trains a population of networks. Whenever a trial gave up its own network for a clone of a better trial's, its log
got a line, JSON or a Python list:

    [trial, cloned trial, epoch of the trial, epoch of the cloned trial, old policy, new policy]

The old policy is the clone's so far, the new one what it continues with. The schedule is the line of descent of the
last trial. In it, each line clones the trial of the line before. Lines before the last break in that chain are omitted.
A policy is 60 whole numbers, in newer files the entry "hp_policy" of a mapping: for each of two copies, and for the 15
operations in the order of PBA_RANGES, the probability in tenths and the level of the magnitude, both in [0, 10].

    PBA                                             here
    magnitudes in degrees, pixels, bits and grey    the same whole numbers, pixels as fractions of PBA's 32
      levels are truncated to whole numbers
    Posterize at level 10 keeps 0 bits: all black   the schedule says 0 too, but the operation keeps at least 1
    another length repeats policies, and fills up   Schedule.stretched, and with it `hba evaluate`, is linear between
      with the last one                               epochs
    borders and Cutout take the dataset's mean      they take `fill`

Ref: github.com/arcelien/pba, pba/utils.py (parse_log), pba/data_utils.py (parse_policy) and
pba/augmentation_transforms.py (levels), without its stretching.
"""

import itertools
import math
import reprlib
from typing import Annotated, NamedTuple

import numpy as np
import pydantic
from pydantic import BeforeValidator, Field

from hba.errors import ScheduleError
from hba.importers.files import literal, validated
from hba.policy.spaces import PBA_RANGES, PBA_SIDE_PIXELS, SPACES
from hba.schedule.schedule import Schedule

PBA_FILL = (125 / 255, 122 / 255, 113 / 255)
"""The colour of PBA's own Cutout, which is also the mean colour of CIFAR-10."""
MAX_LEVEL = 10
N_COPIES = SPACES["pba"].copies
N_NUMBERS = N_COPIES * len(PBA_RANGES) * 2
NOTE = (
    "Read from a log of Population Based Augmentation. PBA's Posterize keeps 0 bits at level 10, hba's at least 1; PBA "
    "repeats policies for other numbers of epochs, hba interpolates linearly."
)
_PARTS_OF_A_UNIT = {
    **dict.fromkeys(("Rotate", "Posterize", "Solarize"), 1),
    **dict.fromkeys(("TranslateX", "TranslateY", "Cutout"), PBA_SIDE_PIXELS),
}
"""Magnitudes that PBA truncates to whole degrees, bits, grey levels or pixels: how many make a unit."""
_DECIMALS = 10
"""Enough for every magnitude that is not truncated (steps of 0.18 and 0.03), and free of rounding errors."""

_Trial = pydantic.StrictStr | pydantic.StrictInt
_Epoch = Annotated[int, Field(ge=0, strict=True)]
_Policy = Annotated[
    tuple[Annotated[int, Field(ge=0, le=MAX_LEVEL, strict=True)], ...],
    Field(min_length=N_NUMBERS, max_length=N_NUMBERS),
    BeforeValidator(lambda config: config.get("hp_policy") if isinstance(config, dict) else config),
]


class _Clone(NamedTuple):
    """One line of the log. epoch: of the trial; cloned_epoch: of the cloned trial."""

    trial: _Trial
    cloned_trial: _Trial
    epoch: _Epoch
    cloned_epoch: _Epoch
    old_policy: _Policy
    new_policy: _Policy


_CLONE = pydantic.TypeAdapter(_Clone)


class PbaSegment(NamedTuple):
    """A policy of 60 whole numbers, and for how many epochs it is used; 0 where the next took its place at once."""

    n_epochs: int
    policy: tuple[int, ...]


def pba_schedule(text: str, file: str, epochs: int, fill: tuple[float, ...] = PBA_FILL) -> Schedule:
    """The schedule of a PBA log over the number of epochs that PBA searched, one row per epoch, in the space `pba`.

    file: the log's name, for the provenance. fill: colour in [0, 1] of what geometric operations and Cutout uncover.
    Raises ScheduleError, which names the line, for a text that is not such a log.
    """
    segments = pba_segments(text, epochs)
    space = SPACES["pba"]
    rows = []
    for segment in segments:
        values = natural_values(segment.policy)
        rows += [[values[name] for name in space.names]] * segment.n_epochs
    n_epochs = [segment.n_epochs for segment in segments]
    provenance = {"algorithm": "pba", "file": file, "segments": n_epochs, "note": NOTE}
    return Schedule(space, np.array(rows), fill, provenance)


def pba_segments(text: str, epochs: int) -> tuple[PbaSegment, ...]:
    """The policies of a log in their order, with n_epochs that sum up to epochs.

    Raises ScheduleError for a text that is not a PBA log.
    """
    clones = [_clone(number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
    if not clones:
        raise ScheduleError("it must have at least one line, but is empty")
    start = len(clones) - 1
    while start > 0 and clones[start - 1].trial == clones[start].cloned_trial:
        start -= 1
    descent = clones[start:]
    starts = [0, *(clone.cloned_epoch for clone in descent), epochs]
    if epochs < 1 or starts != sorted(starts):
        raise ScheduleError(
            f"the epochs of cloned trials must not fall, nor exceed the {epochs} given, got {starts[1:-1]}; "
            "give the number of epochs that PBA searched"
        )
    policies = [descent[0].old_policy, *(clone.new_policy for clone in descent)]
    return tuple(
        PbaSegment(end - start, policy)
        for (start, end), policy in zip(itertools.pairwise(starts), policies, strict=True)
    )


def _clone(number: int, line: str) -> _Clone:
    try:
        entries = literal(line.strip())
        if not isinstance(entries, list) or len(entries) != len(_Clone._fields):
            raise ScheduleError(f"must be a list of {', '.join(_Clone._fields)}, got {reprlib.repr(entries)}")
        return validated(_CLONE, dict(zip(_Clone._fields, entries, strict=True)))
    except ScheduleError as error:
        raise ScheduleError(f"line {number}: {error}") from None


def natural_values(policy: tuple[int, ...]) -> dict[str, float]:
    """A policy of 60 whole numbers as probabilities and magnitudes in natural units, by the names of the space `pba`.

    PBA writes a level for Invert, Equalize and AutoContrast too, which it does not use; it is left out.
    """
    values = {}
    half = len(PBA_RANGES) * 2
    for copy in range(N_COPIES):
        numbers = policy[copy * half : (copy + 1) * half]
        for (name, bounds), tenths, level in zip(PBA_RANGES.items(), numbers[::2], numbers[1::2], strict=True):
            values[f"{name}.{copy + 1}.probability"] = tenths / 10
            if bounds is not None:
                values[f"{name}.{copy + 1}.magnitude"] = _magnitude(level, bounds, _PARTS_OF_A_UNIT.get(name))
    return values


def _magnitude(level: int, bounds: tuple[float, float], parts: int | None) -> float:
    """The magnitude of a level in [0, 10]; bounds are those of levels 0 and 10."""
    low, high = bounds
    if parts is None:
        return round(low + (high - low) * level / MAX_LEVEL, _DECIMALS)
    n_parts = level * round(abs(high - low) * parts) // MAX_LEVEL
    return low + math.copysign(n_parts / parts, high - low)
