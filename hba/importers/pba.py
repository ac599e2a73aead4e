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
from typing import Any, NamedTuple

import numpy as np

from hba.errors import ScheduleError
from hba.importers.lists import literal
from hba.policy.spaces import PBA_RANGES, PBA_SIDE_PIXELS, SPACES
from hba.schedule.file import MALFORMED
from hba.schedule.schedule import Schedule
from hba.utils.files import reason_of

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


class PbaSegment(NamedTuple):
    """A policy of 60 whole numbers, and for how many epochs it is used; 0 where the next took its place at once."""

    n_epochs: int
    policy: tuple[int, ...]


def pba_schedule(text: str, file: str, epochs: int, fill: tuple[float, ...]) -> Schedule:
    """The schedule of a PBA log over the number of epochs that PBA searched, one row per epoch, in the space `pba`.

    file: the log's name, for the provenance. fill: colour in [0, 1] of what geometric operations and Cutout uncover.
    Raises ScheduleError, which names the line, for a text that is not such a log.
    """
    segments, space = pba_segments(text, epochs), SPACES["pba"]
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
    starts, policies, last = [0], [], None
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            trial, cloned_trial, _, epoch, old, new = literal(line)
            old, new = _policy(old), _policy(new)
            if type(epoch) is not int:
                raise ScheduleError(f"the epoch of the cloned trial must be a whole number, got {epoch!r}")
        except MALFORMED as error:
            raise ScheduleError(f"line {number}: {reason_of(error)}") from None
        if cloned_trial != last:
            starts, policies = [0], [old]
        starts.append(epoch)
        policies.append(new)
        last = trial
    starts.append(epochs)
    if not policies or epochs < 1 or starts != sorted(starts):
        raise ScheduleError(
            f"a log needs a line, and the epochs of cloned trials must not fall, nor exceed the {epochs} given, got "
            f"{starts[1:-1]}; give the number of epochs that PBA searched"
        )
    lengths = (end - start for start, end in itertools.pairwise(starts))
    return tuple(map(PbaSegment, lengths, policies))


def _policy(entry: Any) -> tuple[int, ...]:
    numbers = tuple(entry["hp_policy"] if isinstance(entry, dict) else entry)
    if len(numbers) != N_NUMBERS or not all(type(one) is int and 0 <= one <= MAX_LEVEL for one in numbers):
        raise ScheduleError(f"a policy must be {N_NUMBERS} whole numbers from 0 to {MAX_LEVEL}")
    return numbers


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
