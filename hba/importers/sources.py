"""Policies of other programs as schedules: `import_policy`, and the programs that it reads."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from hba.errors import SettingsError
from hba.importers import autoalbument
from hba.importers.fit import fitted_schedule
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

_CUTOUT = "Cutout's own grey, where borders are black: here both have one colour"
_OF_AUTOALBUMENT = (
    "the signs of rotations and shifts, which hba draws",
    "grey levels that are added: here Brightness multiplies, by the same on mid-grey",
    "borders that mirror the image: here they have one colour",
)


class PolicySource(NamedTuple):
    """A program whose policies can be imported.

    read: from a file or a policy's name, the epochs, the fill and the name of a list. fill, epochs: the defaults; the
    number of epochs is None if it must be given. has_names: whether a file can hold several policies.
    """

    read: Callable[[str, int, Fill, str | None], Schedule]
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
    """Import a policy of another program as the closest schedule of hba; its provenance says what differs.

    source: a name of SOURCES. given: a file, or the name of one of torchvision's policies. epochs: over how many the
    source searched; a fixed policy is the same in all of them, 1 by default. fill: colour in [0, 1] of what geometric
    operations and Cutout uncover. name: which list, if the file holds several.

    Raises SettingsError for arguments that do not fit, and ScheduleError, which names the file and the place, for a
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
    return found.read(str(given), epochs, found.fill if fill is None else fill, name)


def _pba(given: str, epochs: int, fill: Fill, name: str | None) -> Schedule:
    return read_pba_schedule(Path(given), epochs, fill)


def _fast_autoaugment(given: str, epochs: int, fill: Fill, name: str | None) -> Schedule:
    return _list("fast-autoaugment", "policy of Fast AutoAugment", Path(given), epochs, fill, name)


def _dada(given: str, epochs: int, fill: Fill, name: str | None) -> Schedule:
    return _list("dada", "policy of DADA", Path(given), epochs, fill, name)


def _list(algorithm: str, kind: str, path: Path, epochs: int, fill: Fill, name: str | None) -> Schedule:
    policy = read_list(path, kind, name)
    origin = {"algorithm": algorithm, "source": path.name, **({} if name is None else {"list": name})}
    with explained(path, kind):
        return fitted_schedule(policy, epochs, fill, origin, (_CUTOUT,))


def _autoalbument(given: str, epochs: int, fill: Fill, name: str | None) -> Schedule:
    path = Path(given)
    policy = autoalbument.read_autoalbument(path)
    origin = {"algorithm": "autoalbument", "source": path.name}
    with explained(path, autoalbument.KIND):
        return fitted_schedule(policy, epochs, fill, origin, _OF_AUTOALBUMENT, "bilinear")


def _torchvision(given: str, epochs: int, fill: Fill, name: str | None) -> Schedule:
    if given not in POLICIES:
        raise SettingsError(unknown("policy of torchvision", given, POLICIES))
    return fitted_schedule(POLICIES[given](), epochs, fill, {"algorithm": "torchvision", "source": given})


SOURCES: Mapping[str, PolicySource] = MappingProxyType(
    {
        "pba": PolicySource(_pba, PBA_FILL, None),
        "fast-autoaugment": PolicySource(_fast_autoaugment, has_names=True),
        "dada": PolicySource(_dada, has_names=True),
        "autoalbument": PolicySource(_autoalbument),
        "torchvision": PolicySource(_torchvision),
    }
)
"""By name."""
