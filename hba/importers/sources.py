"""Policies of other programs as schedules: `import_policy`, and the programs that it
reads.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from hba.errors import SettingsError
from hba.importers.lists import policy_of_list
from hba.importers.pba import PBA_FILL, pba_schedule
from hba.schedule.file import reading
from hba.schedule.fit import SubPolicy, fitted_schedule
from hba.schedule.schedule import Schedule
from hba.schedule.torchvision_policies import policy_of_torchvision
from hba.utils.files import read_text
from hba.utils.settings import whole_number
from hba.utils.text import unknown

_OF_LISTS = ("Cutout's own grey, where borders are black: here both have one color",)


class PolicySource(NamedTuple):
    """A program whose policies can be imported."""

    kind: str
    """Its name in errors."""
    read: Callable[..., tuple[SubPolicy, ...]] | None
    """Makes sub-policies of the text of a file, or of a policy's name; None for PBA,
    which has schedules.
    """
    notes: tuple[str, ...] = ()
    """What hba does differently."""


SOURCES: Mapping[str, PolicySource] = {
    "pba": PolicySource("PBA schedule", None),
    "fast-autoaugment": PolicySource(
        "policy of Fast AutoAugment", policy_of_list, _OF_LISTS
    ),
    "dada": PolicySource("policy of DADA", policy_of_list, _OF_LISTS),
    "torchvision": PolicySource("policy of torchvision", policy_of_torchvision),
}
"""By name."""


def import_policy(
    source: str,
    given: str | Path,
    *,
    epochs: int | None = None,
    fill: tuple[float, ...] | None = None,
    name: str | None = None,
) -> Schedule:
    """Import a policy of another program as the closest schedule of hba.

    The schedule's provenance says what differs.

    Args:
        source: A name of SOURCES.
        given: A file, or the name of one of torchvision's policies.
        epochs: Number of epochs of the source's search, required for PBA; a fixed
            policy is the same in all epochs, 1 by default.
        fill: Color in [0, 1] of uncovered areas; black by default, PBA's own for PBA.
        name: The list, if a file has several.

    Raises:
        SettingsError: For arguments that do not fit.
        ScheduleError: For other files, which it names.
    """
    if source not in SOURCES:
        raise SettingsError(unknown("source of policies", source, SOURCES))
    policy_source = SOURCES[source]
    path = Path(given)
    is_named = source == "torchvision"
    if policy_source.read is None and epochs is None:
        raise SettingsError(
            f"epochs (--epochs) must be the number of epochs of the search of {source}"
        )
    if name is not None and policy_source.read is not policy_of_list:
        raise SettingsError(f"name has no effect on policies of {source}; remove it")
    epochs = 1 if epochs is None else whole_number("epochs", epochs)
    with reading(path, policy_source.kind):
        text = str(given) if is_named else read_text(path)
        if policy_source.read is None:
            return pba_schedule(
                text, path.name, epochs, PBA_FILL if fill is None else fill
            )
        names = {} if name is None else {"list": name}
        policy = policy_source.read(text, *names.values())
        origin = {
            "algorithm": source,
            "source": text if is_named else path.name,
            **names,
        }
        fill = (0.0, 0.0, 0.0) if fill is None else fill
        return fitted_schedule(policy, epochs, fill, origin, policy_source.notes)
