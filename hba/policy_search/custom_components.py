"""What of a search is the user's own, and so in no file: config.json names it, that a later search asks for it."""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from torch import nn

from hba.errors import SettingsError
from hba.policy.space import SearchSpace
from hba.report.run import OWN, POLICY_NAME
from hba.schedule.schedule import Schedule
from hba.utils.files import read_text

PARTS: Mapping[str, str] = MappingProxyType({"model": "network", "space": "space"})
"""By setting, the argument of hba.search that takes its place."""


def custom_components(network: nn.Module | None, space: SearchSpace | str | None) -> tuple[str, ...]:
    """The settings in whose place the user brought something."""
    brought = {"model": network is not None, "space": isinstance(space, SearchSpace)}
    return tuple(name for name, is_own in brought.items() if is_own)


def check_told(file: Path, told: Collection[str]) -> None:
    """SettingsError for what the search of a config.json had of its own, and a new one like it has not been told of.

    told: settings that are given, or in whose place something is.
    """
    found = _own_of(file)
    for name in [name for name in PARTS if name in found and name not in told]:
        raise SettingsError(
            f"the search of {file} had a {PARTS[name]} of its own, which no file has; give {PARTS[name]} in Python, or "
            f"choose another {name}"
        )


def check_same(file: Path, own: Collection[str]) -> None:
    """SettingsError where a search is resumed without what it had of its own, or with more than that."""
    stored = _stored(file)
    if stored is None:
        # It had nothing of its own, or is of 0.1.0: its checkpoint tells.
        return
    for name, part in PARTS.items():
        if name in stored and name not in own:
            raise SettingsError(
                f"the search of {file} has a {part} of its own, which no file has; give {part} in Python to resume it"
            )
        if name in own and name not in stored:
            raise SettingsError(f"the search of {file} has no {part} of its own; omit {part} to resume it")


def _own_of(file: Path) -> Collection[str]:
    policy = file.with_name(POLICY_NAME)
    if (stored := _stored(file)) is not None or not policy.exists():
        return stored or ()
    # Of searches of 0.1.0 the schedule alone tells.
    settings = Schedule.load(policy).provenance.get("settings")
    return [name for name, one in settings.items() if one is None] if isinstance(settings, Mapping) else ()


def _stored(file: Path) -> list[Any] | None:
    """None where the file, which holds settings, names no own parts."""
    found = json.loads(read_text(file)).get(OWN)
    return found if isinstance(found, list) else None
