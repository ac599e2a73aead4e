"""What a search has found, kept: its schedule with where it came from, and the files of its folder."""

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hba.algorithms import SearchState
from hba.algorithms.state import InnerModel
from hba.algorithms.update_schedule import UpdateSchedule
from hba.data.labels import error_of
from hba.data.reading import save_left_out
from hba.distributed.collectives import broadcast_from_rank0
from hba.distributed.process_info import size
from hba.errors import DivergedError, SettingsError
from hba.policy_search.context import PRETRAINED, SearchContext
from hba.policy_search.folder import OLDER_VERSION, RunFolder
from hba.policy_search.history import History, finite_or_none
from hba.policy_search.probes import probes_of
from hba.policy_search.version_6 import as_now
from hba.schedule.schedule import Schedule
from hba.utils.provenance import environment
from hba.utils.seeding import default_generator_state, restore_default_generators
from hba.utils.snapshot import restore, snapshot

SAVE_EVERY_SECONDS = 5.0


@dataclass
class Checkpointer:
    """Counts the seconds of a search, and saves it now and then. folder: None keeps nothing."""

    setup: SearchContext
    state: SearchState[InnerModel]
    history: History
    pace: UpdateSchedule
    folder: RunFolder | None
    note: str | None = None
    """On what was restored."""
    last_clock: float = field(default_factory=time.monotonic)
    last_save: float = field(default_factory=time.monotonic)

    def restore(self) -> bool:
        """Give state and history what the folder has saved; False where it has nothing."""
        folder = self.folder
        found = broadcast_from_rank0(lambda: None if folder is None else folder.load_checkpoint(self.setup.identity))
        if found is None:
            return False
        version, saved, self.note = found
        if version == OLDER_VERSION:
            saved = as_now(saved, self.state)
        restore(self.state, saved["search"])
        restore(self.history, saved["history"])
        restore_default_generators(saved["default_generators"], self.state.device)
        return True

    def snapshot(self) -> dict[str, Any]:
        """All that a search is resumed from.

        SettingsError for the state of an own algorithm that no file can hold; what was found is saved then.
        """
        try:
            state = snapshot(self.state)
        except TypeError as error:
            self.save_found()
            name = self.setup.config.algorithm.name
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
        """Write everything, from which the search can be resumed."""
        if self.folder is None:
            return
        self.count_seconds()
        self.folder.save_checkpoint(self.snapshot(), self.setup.identity)
        self.save_found()
        save_left_out(self.folder.path, self.setup.task.data.left_out)
        self.last_save = time.monotonic()

    def save_found(self) -> None:
        """The schedule and the metrics of the finished epochs."""
        schedule = self.schedule()
        if self.folder is not None and schedule is not None:
            schedule.save(self.folder.policy)
            self.folder.save_metrics(self.history.metrics)

    def diverged(self, epoch: int) -> DivergedError:
        """The error of an epoch whose loss is not finite. What was found before it is saved."""
        self.save_found()
        kept = self.folder is not None and epoch > 1
        saved = f"; the {epoch - 1} epochs before it are in {self.folder.policy}" if kept and self.folder else ""
        rate = self.setup.config.learning_rate
        return DivergedError(f"the loss of epoch {epoch} is not finite{saved}; try a learning rate below {rate:g}")

    def schedule(self) -> Schedule | None:
        """Of the finished epochs; None before the first."""
        if not self.history.rows:
            return None
        space, history = self.setup.task.space, self.history
        columns = self.setup.config.algorithm.spread_columns(space).numpy()
        spread = np.array(history.spreads).reshape(len(history.spreads), -1) * columns
        return Schedule(space, np.array(history.rows), self.setup.fill, self.provenance(), spread=spread)

    def provenance(self) -> dict[str, Any]:
        """How the schedule was made, as JSON values."""
        setup, history, state = self.setup, self.history, self.state
        config, data, last = setup.config, setup.task.data, history.metrics[-1]
        return {
            "algorithm": config.algorithm.name,
            "dataset": data.name,
            "class_names": list(data.class_names),
            **({} if (error := error_of(data.train.labels)) is None else {"error": error}),
            "train_images": len(data.train),
            "val_images": len(data.val),
            "skipped_images": len(data.train.left_out) + len(data.val.left_out),
            "data_fingerprint": setup.identity["images or their split"],
            "images_seen": setup.images_seen,
            "image_size": data.train.image_size,
            "model": setup.identity["network"],
            **_of_weights(setup),
            "settings": {**config.flat(), **dict.fromkeys(setup.replaced)},
            "epochs_finished": len(history.rows),
            "steps_per_epoch": state.steps_per_epoch,
            "policy_steps": self.pace.policy_steps(config.epochs, len(history.rows), history.lengthened),
            **({"lengthened": history.lengthened} if history.lengthened else {}),
            "probes": probes_of(history.metrics),
            "train_loss": last["train_loss"],
            "train_error_percent": last["train_error_percent"],
            "val_loss": finite_or_none(last["val_loss"]),
            "val_error_percent": last["val_error_percent"],
            "wall_seconds": round(history.seconds, 1),
            **environment(state.device),
            **({"n_processes": size()} if size() > 1 else {}),
        }


def _of_weights(setup: SearchContext) -> dict[str, Any]:
    """What the network began with, and what its images were standardised by where that is the network's own."""
    if PRETRAINED not in setup.identity:
        return {}
    mean, std = setup.config.colors_of_network() or (None, None)
    return {"pretrained": {"sha256": setup.identity[PRETRAINED], "mean": mean, "std": std}}
