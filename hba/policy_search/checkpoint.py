"""The run folder of a search, and the checkpoints that it is resumed from.

A folder holds policy.json, config.json, metrics.csv, checkpoint.pt with the one before it, left_out.csv if files were
skipped, and at the end report.html. Every file is written whole. The checkpoint alone decides how a run continues; the
other files can be made again from it.
"""

import contextlib
import csv
import io
import json
import time
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from hba.algorithms import SearchState
from hba.algorithms.state import InnerModel
from hba.algorithms.update_schedule import UpdateSchedule
from hba.distributed.collectives import broadcast_from_rank0
from hba.distributed.process_info import size
from hba.errors import DivergedError, RunError, SettingsError
from hba.policy_search.context import SearchContext
from hba.policy_search.history import History, finite_or_none
from hba.report.run import CONFIG_NAME, METRICS_NAME, OWN
from hba.schedule.library import POLICY_NAME
from hba.schedule.schedule import Schedule
from hba.utils.files import reason_of, write_atomically, write_text
from hba.utils.provenance import environment
from hba.utils.seeding import default_generator_state, restore_default_generators
from hba.utils.snapshot import restore, snapshot

CHECKPOINT_VERSION = 9
SAVE_EVERY_SECONDS = 5.0


class Checkpoint(NamedTuple):
    """What a run is resumed from, on the CPU, and a note if it is not the last checkpoint that was written."""

    state: dict[str, Any]
    note: str | None


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
        if self.has_checkpoint():
            raise RunError(f"{self.path} already holds a run: add --resume to resume it, or choose another --out")
        if self.policy.exists():
            raise RunError(f"{self.path} already holds a schedule, {self.policy.name}: choose another --out")

    def write_config(self, settings: Mapping[str, Any], own: Sequence[str] = ()) -> None:
        """Write config.json. own: settings that are replaced by an object of the user's."""
        content = {**settings, **({OWN: list(own)} if own else {})}
        write_text(self.config, json.dumps(content, indent=2) + "\n")

    def save_checkpoint(self, state: dict[str, Any], identity: Mapping[str, str]) -> None:
        """identity: what must be the same when the run is resumed, by a name that a person understands."""
        content = {"version": CHECKPOINT_VERSION, "identity": dict(identity), "state": state}
        # Through memory, because torch.save reports a full disk in words that nobody understands.
        buffer = io.BytesIO()
        torch.save(content, buffer)
        write_atomically(self.checkpoint, lambda file: file.write(buffer.getbuffer()), before=self.checkpoint_before)

    def load_checkpoint(self, identity: Mapping[str, str]) -> Checkpoint | None:
        """The last checkpoint, or the one before it if the last is broken; None if nothing was saved.

        Raises RunError if both are broken, for another version, and if the identity is not the one that was saved.
        """
        if not self.has_checkpoint():
            return None
        content, note = self._readable_checkpoint()
        if not isinstance(content, dict) or content.get("version") != CHECKPOINT_VERSION:
            raise RunError(
                f"{self.checkpoint} must be a checkpoint of version {CHECKPOINT_VERSION}, the one that hba resumes "
                "now; resume it with the version that began it, or start anew with another --out"
            )
        stored = content["identity"]
        for name, value in identity.items():
            if stored.get(name) != value:
                raise RunError(
                    f"the {name} changed since {self.path} was begun ({stored.get(name)}, now {value}); "
                    "resume with the old one, or start anew with another --out"
                )
        if note is not None:
            # Otherwise the next save would move the broken file over the one that can be read.
            with contextlib.suppress(OSError):
                self.checkpoint.replace(self.checkpoint.with_name("checkpoint_broken.pt"))
        return Checkpoint(content["state"], note)

    def _readable_checkpoint(self) -> tuple[Any, str | None]:
        """The content of the last checkpoint that can be read, and a note if that is the one before the last."""
        broken = []
        for path in (self.checkpoint, self.checkpoint_before):
            try:
                # PyTorch does not verify the checksums of its files.
                with zipfile.ZipFile(path) as parts:
                    if damaged := parts.testzip():
                        raise ValueError(f"wrong checksum of {damaged}")
                content = torch.load(path, map_location="cpu", weights_only=True)
            except MemoryError:
                raise
            except PermissionError as error:
                raise RunError(f"{path} cannot be read: {error.strerror}") from None
            except Exception as error:
                # A broken file can make the reader raise anything.
                broken.append(f"{path} cannot be read ({reason_of(error)})")
            else:
                return content, f"{broken[0]}; resumed from the one before it, {path.name}" if broken else None
        if not self.checkpoint_before.exists():
            raise RunError(f"{broken[0]}, and there is none before it; start anew with another --out")
        raise RunError(f"{'; '.join(broken)}; what was found is in {self.policy.name}, but cannot be resumed")

    def save_metrics(self, metrics: Sequence[Mapping[str, float | None]], columns: Sequence[str]) -> None:
        text = io.StringIO()
        writer = csv.DictWriter(text, columns, lineterminator="\n", extrasaction="ignore")
        writer.writeheader()
        for row in metrics:
            writer.writerow({name: value if value is None else round(value, 6) for name, value in row.items()})
        write_text(self.metrics, text.getvalue())


@dataclass
class Checkpointer:
    """Counts the seconds of a search, and saves it now and then. folder: None saves nothing."""

    context: SearchContext
    state: SearchState[InnerModel]
    history: History
    updates: UpdateSchedule
    folder: RunFolder | None
    note: str | None = None
    """On the checkpoint that was restored."""
    last_clock: float = field(default_factory=time.monotonic)
    last_save: float = field(default_factory=time.monotonic)

    def restore(self) -> bool:
        """Restore state and history from the folder; False if nothing was saved."""
        folder = self.folder
        found = broadcast_from_rank0(lambda: None if folder is None else folder.load_checkpoint(self.context.identity))
        if found is None:
            return False
        saved, self.note = found
        restore(self.state, saved["search"])
        restore(self.history, saved["history"])
        restore_default_generators(saved["default_generators"], self.state.device)
        return True

    def snapshot(self) -> dict[str, Any]:
        """Everything that a search is resumed from.

        Raises SettingsError for the state of your own algorithm that no file can hold; what was found is saved first.
        """
        try:
            state = snapshot(self.state)
        except TypeError as error:
            self.save_found()
            name = self.context.config.algorithm.name
            raise SettingsError(f"the state of the algorithm {name} cannot be saved: {error}") from None
        generators = default_generator_state(self.state.device)
        return {"search": state, "history": snapshot(self.history), "default_generators": generators}

    def count_seconds(self) -> None:
        now = time.monotonic()
        self.history.seconds += now - self.last_clock
        self.last_clock = now

    def save_now_and_then(self) -> None:
        if time.monotonic() - self.last_save > SAVE_EVERY_SECONDS:
            self.save()

    def save(self) -> None:
        """Write everything that the search can be resumed from."""
        if self.folder is None:
            return
        self.count_seconds()
        self.folder.save_checkpoint(self.snapshot(), self.context.identity)
        self.save_found()
        self.context.save_further(self.folder.path)
        self.last_save = time.monotonic()

    def save_found(self) -> None:
        """Write the schedule and the metrics of the finished epochs."""
        schedule = self.schedule()
        if self.folder is not None and schedule is not None:
            schedule.save(self.folder.policy)
            self.folder.save_metrics(self.history.metrics, self.context.columns)

    def diverged(self, epoch: int) -> DivergedError:
        """The error for an epoch whose loss is not finite. What was found before it is saved."""
        self.save_found()
        kept = f"; the {epoch - 1} epochs before it are in {self.folder.policy}" if self.folder and epoch > 1 else ""
        rate = self.context.config.learning_rate
        return DivergedError(f"the loss of epoch {epoch} is not finite{kept}; try a learning rate below {rate:g}")

    def schedule(self) -> Schedule | None:
        """The schedule of the finished epochs; None before the end of the first."""
        if not self.history.rows:
            return None
        space, history = self.context.task.space, self.history
        columns = self.context.config.algorithm.spread_columns(space).numpy()
        spread = np.array(history.spreads).reshape(len(history.spreads), -1) * columns
        return Schedule(space, np.array(history.rows), self.context.fill, self.provenance(), spread=spread)

    def provenance(self) -> dict[str, Any]:
        """How the schedule was made, as JSON values."""
        config, history, state = self.context.config, self.history, self.state
        n_done = len(history.rows)
        return {
            "algorithm": config.algorithm.name,
            **self.context.provenance(),
            "epochs_finished": n_done,
            "steps_per_epoch": state.steps_per_epoch,
            "policy_steps": self.updates.policy_steps(config.epochs, n_done, history.lengthened),
            **({"lengthened": history.lengthened} if history.lengthened else {}),
            **{name: finite_or_none(history.metrics[-1][name]) for name in self.context.in_provenance},
            "wall_seconds": round(history.seconds, 1),
            **environment(state.device),
            **({"n_processes": size()} if size() > 1 else {}),
        }
