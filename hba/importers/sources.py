"""Policies of other programs as schedules: `import_policy`, and the programs that it reads."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from hba.errors import SettingsError
from hba.importers.autoalbument import policy_of_autoalbument
from hba.importers.files import limited_text
from hba.importers.fit import fitted_schedule
from hba.importers.lists import policy_of_list
from hba.importers.pba import PBA_FILL, pba_schedule
from hba.importers.torchvision_policies import POLICIES
from hba.schedule.file import explained
from hba.schedule.schedule import Schedule
from hba.utils.settings import whole_number
from hba.utils.text import unknown

MOST_EPOCHS = 100_000
_OF_LISTS = ("Cutout's own grey, where borders are black: here both have one colour",)
_OF_AUTOALBUMENT = (
    "the signs of rotations and shifts, which hba draws",
    "grey levels that are added: here Brightness multiplies, by the same on mid-grey",
    "borders that mirror the image: here they have one colour",
)


class Request(NamedTuple):
    """What a reader gets. given: the text of a file, or a policy's name. source: the file's name, or again that name.

    name: of one of several lists in the file; None for the only one.
    """

    given: str
    source: str
    epochs: int
    fill: tuple[float, ...]
    name: str | None


class PolicySource(NamedTuple):
    """A program whose policies can be imported.

    kind: what errors call its files; None if its policies have names. fill, epochs: the defaults; the number of epochs
    is None if it must be given. has_names: whether a file can hold several policies.
    """

    read: Callable[[Request], Schedule]
    kind: str | None
    fill: tuple[float, ...] = (0.0, 0.0, 0.0)
    epochs: int | None = 1
    has_names: bool = False


def import_policy(
    source: str,
    given: str | Path,
    *,
    epochs: int | None = None,
    fill: tuple[float, ...] | None = None,
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
    fill = found.fill if fill is None else fill
    if found.kind is None:
        return found.read(Request(str(given), str(given), epochs, fill, name))
    path = Path(given)
    text = limited_text(path, found.kind)
    with explained(path, found.kind):
        return found.read(Request(text, path.name, epochs, fill, name))


def _list(algorithm: str, request: Request) -> Schedule:
    named = {} if request.name is None else {"list": request.name}
    origin = {"algorithm": algorithm, "source": request.source, **named}
    policy = policy_of_list(request.given, request.name)
    return fitted_schedule(policy, request.epochs, request.fill, origin, _OF_LISTS)


def _autoalbument(request: Request) -> Schedule:
    origin = {"algorithm": "autoalbument", "source": request.source}
    policy = policy_of_autoalbument(request.given)
    return fitted_schedule(policy, request.epochs, request.fill, origin, _OF_AUTOALBUMENT, "bilinear")


def _torchvision(request: Request) -> Schedule:
    if request.given not in POLICIES:
        raise SettingsError(unknown("policy of torchvision", request.given, POLICIES))
    origin = {"algorithm": "torchvision", "source": request.given}
    return fitted_schedule(POLICIES[request.given](), request.epochs, request.fill, origin)


SOURCES: Mapping[str, PolicySource] = MappingProxyType(
    {
        "pba": PolicySource(lambda asked: pba_schedule(*asked[:4]), "PBA schedule", PBA_FILL, None),
        "fast-autoaugment": PolicySource(
            partial(_list, "fast-autoaugment"), "policy of Fast AutoAugment", has_names=True
        ),
        "dada": PolicySource(partial(_list, "dada"), "policy of DADA", has_names=True),
        "autoalbument": PolicySource(_autoalbument, "policy of AutoAlbument"),
        "torchvision": PolicySource(_torchvision, None),
    }
)
"""By name."""
