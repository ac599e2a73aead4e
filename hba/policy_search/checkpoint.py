"""The run folder of a search, and the checkpoints that it is resumed from.

A folder holds policy.json, config.json, metrics.csv, checkpoint.pt with the one before it, left_out.csv if files were
skipped, and at the end report.html. Every file is written whole. The checkpoint alone decides how a run continues; the
other files can be made again from it.
"""

import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from hba.errors import RunError
from hba.report.run import CONFIG_NAME, METRICS_NAME, OWN
from hba.schedule.library import POLICY_NAME
from hba.utils.files import reason_of, write_atomically, write_text

CHECKPOINT_VERSION = 9


class RunFolder:
    """The files of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.policy = path / POLICY_NAME
        self.config = path / CONFIG_NAME
        self.metrics = path / METRICS_NAME
        self.checkpoint = path / "checkpoint.pt"
        self.checkpoint_before = path / "checkpoint_before.pt"

    def has_checkpoint(self) -> bool:
        return self.checkpoint.exists() or self.checkpoint_before.exists()

    def check_free(self) -> None:
        """Raise RunError if the folder already holds a run that has found something."""
        if self.has_checkpoint() or self.policy.exists():
            raise RunError(f"{self.path} already holds a run: add --resume to resume it, or choose another --out")

    def write_config(self, settings: Mapping[str, Any], own: Sequence[str] = ()) -> None:
        """Write config.json. own: settings that are replaced by an object of the user's."""
        content = {**settings, **({OWN: list(own)} if own else {})}
        write_text(self.config, json.dumps(content, indent=2) + "\n")

    def save_metrics(self, metrics: Sequence[Mapping[str, float | None]]) -> None:
        """Write metrics.csv; what was not measured is empty."""
        lines = [["" if value is None else str(round(value, 6)) for value in row.values()] for row in metrics]
        write_text(self.metrics, "".join(",".join(line) + "\n" for line in [[*metrics[0]], *lines]))

    def save_checkpoint(self, state: dict[str, Any], identity: Mapping[str, str]) -> None:
        """identity: what must be the same when the run is resumed, by a readable name."""
        content = {"version": CHECKPOINT_VERSION, "identity": dict(identity), "state": state}
        # Through memory, because torch.save does not say that a disk is full.
        buffer = io.BytesIO()
        torch.save(content, buffer)
        write_atomically(self.checkpoint, lambda file: file.write(buffer.getbuffer()), before=self.checkpoint_before)

    def load_checkpoint(self, identity: Mapping[str, str]) -> tuple[dict[str, Any], str | None] | None:
        """The state in the last checkpoint, on the CPU, and a note if it is the one before because the last is broken.

        None if nothing was saved. Raises RunError if both are broken, for another version or another identity.
        """
        if not self.has_checkpoint():
            return None
        content, broken = None, list[str]()
        for path in (self.checkpoint, self.checkpoint_before):
            try:
                content = _read_checkpoint(path)
                break
            except Exception as error:  # A broken file can make the reader raise anything.
                broken.append(f"{path} cannot be read ({reason_of(error)})")
        else:
            raise RunError(f"{'; '.join(broken)}; what was found is in {self.policy.name}, but cannot be resumed")
        if not isinstance(content, dict) or content.get("version") != CHECKPOINT_VERSION:
            raise RunError(f"{path} is of another version of hba; resume it with that, or choose another --out")
        for name in {**identity, **(stored := content["identity"])}:
            if stored.get(name) != identity.get(name):
                raise RunError(
                    f"the {name} changed since {self.path} was begun ({stored.get(name)}, now {identity.get(name)}); "
                    "resume with the old one, or start anew with another --out"
                )
        if broken:
            # Otherwise the next save would move the broken file over the one that can be read.
            self.checkpoint.unlink(missing_ok=True)
        return content["state"], f"{broken[0]}; resumed from the one before it, {path.name}" if broken else None


def _read_checkpoint(path: Path) -> Any:
    # PyTorch does not verify the checksums of its files.
    with zipfile.ZipFile(path) as parts:
        if damaged := parts.testzip():
            raise ValueError(f"wrong checksum of {damaged}")
    return torch.load(path, map_location="cpu", weights_only=True)
