"""The run folder of a search (docs/searching.md lists its files), and the checkpoints
to resume it from.

Files are written atomically. To resume, config.json and checkpoint.pt are enough.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hba.errors import RunError
from hba.results.run import CONFIG_NAME, METRICS_NAME, OWN
from hba.schedule.library import POLICY_NAME
from hba.utils.files import load_tensors, save_tensors, write_text

CHECKPOINT_VERSION = 10


class RunFolder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.policy = path / POLICY_NAME
        self.config = path / CONFIG_NAME
        self.metrics = path / METRICS_NAME
        self.checkpoint = path / "checkpoint.pt"

    def check_free(self) -> None:
        """Raise RunError if the folder already contains results of a run."""
        if self.checkpoint.exists() or self.policy.exists():
            raise RunError(
                f"{self.path} already holds a run: add --resume to resume it, or choose"
                " another --out"
            )

    def write_config(
        self, settings: Mapping[str, Any], replaced: Sequence[str] = ()
    ) -> None:
        """Write config.json.

        Args:
            settings: All settings, as JSON values.
            replaced: Settings that an object of the user replaces.
        """
        content = {**settings, **({OWN: list(replaced)} if replaced else {})}
        write_text(self.config, json.dumps(content, indent=2) + "\n")

    def save_metrics(self, metrics: Sequence[Mapping[str, float | None]]) -> None:
        """Write metrics.csv, with empty cells for values that were not measured."""
        lines = [
            ["" if value is None else str(round(value, 6)) for value in row.values()]
            for row in metrics
        ]
        write_text(
            self.metrics,
            "".join(",".join(line) + "\n" for line in [[*metrics[0]], *lines]),
        )

    def save_checkpoint(
        self, state: dict[str, Any], identity: Mapping[str, str]
    ) -> None:
        """Write a checkpoint.

        Args:
            state: The state to save.
            identity: By name, what must be the same on resuming.
        """
        save_tensors(
            self.checkpoint,
            {"version": CHECKPOINT_VERSION, "identity": dict(identity), "state": state},
        )

    def load_checkpoint(self, identity: Mapping[str, str]) -> dict[str, Any] | None:
        """Return the state in the checkpoint, on the CPU; None if nothing was saved.

        Args:
            identity: By name, what must be the same as when the run was begun.

        Raises:
            RunError: If the file is broken, or if its version or identity differs.
        """
        if not self.checkpoint.exists():
            return None
        content = load_tensors(self.checkpoint)
        if content["version"] != CHECKPOINT_VERSION:
            raise RunError(
                f"{self.checkpoint} is from another version of hba; use that, or choose"
                " another --out"
            )
        for name in {**identity, **(stored := content["identity"])}:
            if (before := stored.get(name)) != (now := identity.get(name)):
                change = (
                    f"the {name} changed since {self.path} was begun ({before}, now"
                    f" {now})"
                )
                raise RunError(
                    f"{change}; resume with the old one, or choose another --out"
                )
        return content["state"]
