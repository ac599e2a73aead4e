"""Policies of other programs as schedules: `import_policy`, and what it can import from."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from hba.errors import SettingsError
from hba.importers.autoalbument import KIND as OF_AUTOALBUMENT
from hba.importers.autoalbument import read_autoalbument
from hba.importers.expressed import Origin, expressed
from hba.importers.lists import read_list
from hba.importers.pba import PBA_FILL, read_pba_schedule
from hba.importers.torchvision_policies import POLICIES
from hba.schedule.file import explained
from hba.schedule.schedule import Schedule
from hba.utils.settings import whole_number
from hba.utils.text import unknown

Fill = tuple[float, ...]
BLACK = (0.0, 0.0, 0.0)
MOST_EPOCHS = 100_000


class Asked(NamedTuple):
    """given: a file, or a policy's name. name: of one of several lists in the file; None for the only one."""

    given: str
    epochs: int
    fill: Fill
    name: str | None


class Source(NamedTuple):
    """fill: the colour where none is asked for. epochs: their number, None where it has to be said. has_names: whether
    a file can hold several policies.
    """

    read: Callable[[Asked], Schedule]
    fill: Fill = BLACK
    epochs: int | None = 1
    has_names: bool = False


def import_policy(
    source: str,
    given: str | Path,
    *,
    epochs: int | None = None,
    fill: Fill | None = None,
    name: str | None = None,
) -> Schedule:
    """A policy of another program as the closest schedule of hba, whose provenance says what it does otherwise.

    source: a name of SOURCES. given: a file, or the name of one of torchvision's policies. epochs: over how many the
    source searched; a fixed policy is the same in all of them, and has one where nothing is said. fill: colour in
    [0, 1] of what geometric operations and Cutout uncover. name: which list, where the file holds several.

    Raises SettingsError for arguments that cannot be, and ScheduleError, which names the file and the place, for a
    file that the source did not write.
    """
    if source not in SOURCES:
        raise SettingsError(unknown("source of policies", source, SOURCES))
    found = SOURCES[source]
    epochs = found.epochs if epochs is None else whole_number("epochs", epochs)
    if epochs is None:
        raise SettingsError(f"epochs must be given for a schedule of {source}: over how many it was searched")
    if not 1 <= epochs <= MOST_EPOCHS:
        raise SettingsError(f"epochs must lie in [1, {MOST_EPOCHS:,}], got {epochs}")
    if name is not None and not found.has_names:
        raise SettingsError(f"name has no effect on policies of {source}; remove it")
    return found.read(Asked(str(given), epochs, found.fill if fill is None else fill, name))


def _pba(asked: Asked) -> Schedule:
    return read_pba_schedule(Path(asked.given), asked.epochs, asked.fill)


_CUTOUT = "Cutout's own grey, where borders are black: here both have one colour"
_TO_BOTH_SIDES = "the signs of rotations and shifts, which hba draws"
_MIRRORED = "borders that mirror the image: here they have one colour"
_BRIGHTNESS = "grey levels that are added: here Brightness multiplies, by the same on mid-grey"


def _list(algorithm: str, kind: str, asked: Asked) -> Schedule:
    path = Path(asked.given)
    policy = read_list(path, kind, asked.name)
    facts = {} if asked.name is None else {"list": asked.name}
    with explained(path, kind):
        return expressed(policy, Origin(algorithm, path.name, (_CUTOUT,), facts=facts), asked.epochs, asked.fill)


def _autoalbument(asked: Asked) -> Schedule:
    path = Path(asked.given)
    origin = Origin("autoalbument", path.name, (_TO_BOTH_SIDES, _BRIGHTNESS, _MIRRORED), "bilinear")
    policy = read_autoalbument(path)
    with explained(path, OF_AUTOALBUMENT):
        return expressed(policy, origin, asked.epochs, asked.fill)


def _torchvision(asked: Asked) -> Schedule:
    if asked.given not in POLICIES:
        raise SettingsError(unknown("policy of torchvision", asked.given, POLICIES))
    return expressed(POLICIES[asked.given](), Origin("torchvision", asked.given), asked.epochs, asked.fill)


SOURCES: Mapping[str, Source] = MappingProxyType(
    {
        "pba": Source(_pba, PBA_FILL, None),
        "fast-autoaugment": Source(partial(_list, "fast-autoaugment", "policy of Fast AutoAugment"), has_names=True),
        "dada": Source(partial(_list, "dada", "policy of DADA"), has_names=True),
        "autoalbument": Source(_autoalbument),
        "torchvision": Source(_torchvision),
    }
)
"""By name."""
