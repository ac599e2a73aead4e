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
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from hba.errors import ScheduleError
from hba.importers.literals import limited_text, literal
from hba.policy.spaces import PBA_RANGES, PBA_SIDE_PIXELS, SPACES
from hba.schedule.file import explained
from hba.schedule.schedule import Schedule

KIND = "PBA schedule"
PBA_FILL = (125 / 255, 122 / 255, 113 / 255)
"""The colour of PBA's own Cutout, which is also the mean colour of CIFAR-10."""

MAX_LEVEL = 10
N_COPIES = SPACES["pba"].copies
N_NUMBERS = N_COPIES * len(PBA_RANGES) * 2
N_ENTRIES = 6

NOTE = (
    "Read from a log of Population Based Augmentation. PBA's Posterize keeps 0 bits at level 10, hba's at least 1; PBA "
    "repeats policies for other numbers of epochs, hba interpolates linearly."
)

_PARTS_OF_A_UNIT: Mapping[str, int] = MappingProxyType(
    {
        "Rotate": 1,
        "TranslateX": PBA_SIDE_PIXELS,
        "TranslateY": PBA_SIDE_PIXELS,
        "Posterize": 1,
        "Solarize": 1,
        "Cutout": PBA_SIDE_PIXELS,
    }
)
"""Magnitudes that PBA truncates to a whole number of degrees, pixels, bits or grey levels: how many make a unit."""

_DECIMALS = 10
"""Enough for every magnitude that is not truncated (steps of 0.18 and 0.03), and free of rounding errors."""


class PbaSegment(NamedTuple):
    """A policy of 60 whole numbers, and for how many epochs it is used; 0 where the next took its place at once."""

    n_epochs: int
    policy: tuple[int, ...]


@dataclass(frozen=True)
class _Clone:
    """One line of the log; epoch is that of the cloned trial."""

    line: int
    trial: str | int
    cloned_trial: str | int
    epoch: int
    old_policy: tuple[int, ...]
    new_policy: tuple[int, ...]


def read_pba_schedule(path: Path, epochs: int, fill: tuple[float, ...] = PBA_FILL) -> Schedule:
    """The schedule of a PBA log over the number of epochs that PBA searched, one row per epoch, in the space `pba`.

    fill: colour in [0, 1] of what geometric operations and Cutout uncover. Raises ScheduleError, which names the file
    and the line, for anything that is not such a log.
    """
    text = limited_text(path, KIND)
    with explained(path, KIND):
        segments = pba_segments(text, epochs)
    space = SPACES["pba"]
    rows = []
    for segment in segments:
        values = natural_values(segment.policy)
        rows += [[values[name] for name in space.names]] * segment.n_epochs
    provenance = {
        "algorithm": "pba",
        "file": path.name,
        "segments": [segment.n_epochs for segment in segments],
        "note": NOTE,
    }
    return Schedule(space, np.array(rows), fill, provenance)


def pba_segments(text: str, epochs: int) -> tuple[PbaSegment, ...]:
    """The policies of a log in their order, n_epochs of all of them summing up to epochs.

    Raises ScheduleError with the line number for a text that is not a PBA log.
    """
    clones = _line_of_descent(_read_clones(text))
    for before, after in itertools.pairwise(clones):
        if after.epoch < before.epoch:
            raise ScheduleError(
                f"line {after.line}: the epoch of the cloned trial must not be less than the {before.epoch} of line "
                f"{before.line}, got {after.epoch}"
            )
    last = clones[-1]
    if epochs < max(1, last.epoch):
        raise ScheduleError(
            f"line {last.line}: the last clone is of epoch {last.epoch}, so epochs must be at least "
            f"{max(1, last.epoch)}, got {epochs}"
        )
    starts = [0, *(clone.epoch for clone in clones)]
    policies = [clones[0].old_policy, *(clone.new_policy for clone in clones)]
    return tuple(
        PbaSegment(end - start, policy)
        for start, end, policy in zip(starts, [*starts[1:], epochs], policies, strict=True)
    )


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


def _line_of_descent(clones: list[_Clone]) -> list[_Clone]:
    """The lines at the end of which each clones the trial of the one before."""
    start = len(clones) - 1
    while start > 0 and clones[start - 1].trial == clones[start].cloned_trial:
        start -= 1
    return clones[start:]


def _read_clones(text: str) -> list[_Clone]:
    clones = []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                clones.append(_clone(number, literal(line.strip())))
            except ScheduleError as error:
                raise ScheduleError(f"line {number}: {error}") from None
    if not clones:
        raise ScheduleError("it must have at least one line, but is empty")
    return clones


def _clone(number: int, entries: Any) -> _Clone:
    if not isinstance(entries, list) or len(entries) != N_ENTRIES:
        got = f"{len(entries)} entries" if isinstance(entries, list) else type(entries).__name__
        raise ScheduleError(
            "must be a list of 6: trial, cloned trial, epoch of the trial, epoch of the cloned trial, old policy, new "
            f"policy; got {got}"
        )
    trial, cloned_trial, *epochs, old_policy, new_policy = entries
    for name, value in (("trial", trial), ("cloned trial", cloned_trial)):
        if type(value) not in (str, int):
            raise ScheduleError(f"the {name} must be a name or a number, got {reprlib.repr(value)}")
    for name, value in zip(("trial", "cloned trial"), epochs, strict=True):
        if type(value) is not int or value < 0:
            raise ScheduleError(f"the epoch of the {name} must be a whole number from 0, got {reprlib.repr(value)}")
    old, new = _policy("old policy", old_policy), _policy("new policy", new_policy)
    return _Clone(number, trial, cloned_trial, epochs[1], old, new)


def _policy(name: str, config: Any) -> tuple[int, ...]:
    numbers = config.get("hp_policy") if isinstance(config, dict) else config
    if not isinstance(numbers, list):
        raise ScheduleError(f"the {name} must be a list, or a mapping with a list as hp_policy")
    if len(numbers) != N_NUMBERS:
        raise ScheduleError(f"the {name} must have {N_NUMBERS} numbers, got {len(numbers)}")
    for position, number in enumerate(numbers, start=1):
        if type(number) is not int or not 0 <= number <= MAX_LEVEL:
            raise ScheduleError(
                f"the {name} must be whole numbers in [0, {MAX_LEVEL}], got {reprlib.repr(number)} as number {position}"
            )
    return tuple(numbers)
