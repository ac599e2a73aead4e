"""The schedules that ship with the package, and what their files say of them, known without PyTorch."""

import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = "hba.policies"


class ShippedSchedule(NamedTuple):
    """A shipped schedule as its file describes it; provenance holds JSON values."""

    name: str
    epochs: int
    provenance: Mapping[str, Any]


def policy_names() -> list[str]:
    """Names of the schedules that ship with the package."""
    return sorted(Path(file.name).stem for file in files(FOLDER).iterdir() if file.name.endswith(".json"))


def shipped_schedules() -> list[ShippedSchedule]:
    """What the files say, in the order of the names. Nothing is checked: hba.load_policy does that."""
    contents = {name: json.loads((files(FOLDER) / f"{name}.json").read_text("utf-8")) for name in policy_names()}
    return [ShippedSchedule(name, file["epochs"], file["provenance"]) for name, file in contents.items()]
