"""The schedules that ship with the package, and what their files say of them, known without PyTorch."""

import json
from collections.abc import Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, NamedTuple

FOLDER, CARDS = "hba.policies", "cards"


class ShippedSchedule(NamedTuple):
    """A shipped schedule as its file and its card describe it; provenance and card hold JSON values."""

    name: str
    epochs: int
    provenance: Mapping[str, Any]
    card: Mapping[str, Any]


def policy_names() -> list[str]:
    """Names of the schedules that ship with the package."""
    return sorted(Path(file.name).stem for file in files(FOLDER).iterdir() if file.name.endswith(".json"))


def shipped_schedules() -> list[ShippedSchedule]:
    """What the files say, in the order of the names. Nothing is checked: hba.load_policy does that."""
    found = []
    for name in policy_names():
        schedule, card = (json.loads(file.read_text("utf-8")) for file in files_of(name))
        found.append(ShippedSchedule(name, schedule["epochs"], schedule["provenance"], card))
    return found


def files_of(name: str) -> tuple[Traversable, Traversable]:
    """Of a shipped schedule and of its card."""
    folder = files(FOLDER)
    return folder.joinpath(f"{name}.json"), folder.joinpath(CARDS, f"{name}.json")
