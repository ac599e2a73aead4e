"""The run folder of a search: policy.json, config.json, metrics.csv, checkpoint.pt. Every file is written whole."""

import csv
import io
import json
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from hba.config import SearchConfig
from hba.errors import RunError, SettingsError
from hba.files import write_atomically, write_text

CHECKPOINT_VERSION = 1
METRICS = (
    "epoch",
    "train_loss",
    "train_error_percent",
    "lambda_loss",
    "val_loss",
    "val_error_percent",
    "learning_rate",
    "seconds",
)


class RunFolder:
    """Files of one run. The checkpoint alone decides how a run goes on; the other files can be made again from it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.policy = path / "policy.json"
        self.config = path / "config.json"
        self.metrics = path / "metrics.csv"
        self.checkpoint = path / "checkpoint.pt"

    def start(self, config: SearchConfig) -> None:
        """Write the settings; RunError where the folder already holds a run."""
        if self.config.exists():
            raise RunError(f"{self.path} already holds a run: add --resume to go on with it, or choose another --out")
        write_text(self.config, config.model_dump_json(indent=2) + "\n")

    def stored_config(self, settings: Mapping[str, Any]) -> SearchConfig:
        """The settings of the run in this folder; SettingsError if any of those given now is another one."""
        if not self.config.exists():
            raise RunError(f"{self.path} holds no run to resume: there is no {self.config.name} in it")
        try:
            config = SearchConfig.make(json.loads(self.config.read_text(encoding="utf-8")))
        except (ValueError, OSError) as error:
            raise RunError(f"{self.config} cannot be read: {error}") from None
        changed = [name for name, value in settings.items() if getattr(config, name) != value]
        if changed:
            stored = ", ".join(f"{name} {getattr(config, name)!r} (given {settings[name]!r})" for name in changed)
            raise SettingsError(f"a resumed run keeps its settings; {self.path} has {stored}")
        return config

    def save_checkpoint(self, state: dict[str, Any], fingerprint: str) -> None:
        content = {"version": CHECKPOINT_VERSION, "fingerprint": fingerprint, "state": state}
        write_atomically(self.checkpoint, lambda file: torch.save(content, file))

    def load_checkpoint(self, fingerprint: str, device: torch.device) -> dict[str, Any] | None:
        """The saved state, or None where the run ended before its first save.

        RunError for a broken file, one of another version, and data that changed since.
        """
        if not self.checkpoint.exists():
            return None
        try:
            content = torch.load(self.checkpoint, map_location=device, weights_only=True)
        except (OSError, RuntimeError, EOFError, ValueError, pickle.UnpicklingError) as error:
            raise RunError(f"{self.checkpoint} cannot be read ({str(error).splitlines()[0]})") from None
        if not isinstance(content, dict) or content.get("version") != CHECKPOINT_VERSION:
            raise RunError(f"{self.checkpoint} is not a checkpoint of version {CHECKPOINT_VERSION}")
        if content["fingerprint"] != fingerprint:
            raise RunError(
                f"the images or their split changed since {self.path} was begun; start anew with another --out"
            )
        state: dict[str, Any] = content["state"]
        return state

    def save_metrics(self, metrics: list[dict[str, float | None]]) -> None:
        text = io.StringIO()
        writer = csv.DictWriter(text, METRICS, lineterminator="\n")
        writer.writeheader()
        for row in metrics:
            writer.writerow({name: value if value is None else round(value, 6) for name, value in row.items()})
        write_text(self.metrics, text.getvalue())
