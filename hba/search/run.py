"""A whole policy search: set up, all epochs with their measurements and saves, and the result."""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from hba.config import SearchConfig, find_device
from hba.data.batches import Standardize
from hba.data.config import resolved_data
from hba.data.load import SearchData, load_search_data
from hba.errors import DivergedError
from hba.hypernet import HyperNetwork
from hba.measure import measure
from hba.models import build_model
from hba.provenance import environment
from hba.schedule import Schedule
from hba.search.folder import RunFolder
from hba.search.hba import Problem, search_step
from hba.search.observer import SearchObserver
from hba.search.state import initial_state
from hba.seeding import derived_seed
from hba.space import SearchSpace

SAVE_EVERY_SECONDS = 5.0
VALUE_DIGITS = 6


@dataclass(frozen=True)
class SearchResult:
    """What a search found.

    schedule: one row per finished epoch, None before the first. metrics: one mapping per finished epoch.
    finished: False when the observer stopped the search. hypernetwork and lam give any trained network by
    hypernetwork.plain(lam).
    """

    schedule: Schedule | None
    metrics: tuple[Mapping[str, float | None], ...]
    finished: bool
    hypernetwork: HyperNetwork
    lam: Tensor
    folder: Path | None


def search(
    data: str | Path | SearchData | None = None,
    *,
    preset: str | None = None,
    network: nn.Module | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    observer: SearchObserver | None = None,
    **settings: Any,
) -> SearchResult:
    """Search an augmentation schedule by Algorithm 2 of the paper, in one training.

    data: a dataset's name, a folder of images, or images in memory; None is the preset's, or digits. settings: fields
    of SearchConfig. network: a network of your own instead of the setting `model`. out: a folder to keep the run in;
    resume goes on with the run there. Raises HbaError for what cannot work, DivergedError for a loss that is not
    finite; what was found until then is saved in `out`.
    """
    observer = observer or SearchObserver()
    if data is not None:
        settings["data"] = data.name if isinstance(data, SearchData) else data
    folder = RunFolder(Path(out)) if out is not None else None
    if folder is not None and resume:
        config = folder.stored_config(resolved_data(settings))
    else:
        config = SearchConfig.from_preset(settings, preset)
    if not isinstance(data, SearchData):
        data = load_search_data(config, observer.images_read)
    if folder is not None and not resume:
        folder.start(config)
    devices = [] if find_device(config.device).type == "cpu" else [find_device(config.device)]
    with torch.random.fork_rng(devices):
        torch.manual_seed(derived_seed(config.seed, "default generators"))
        return _Search(config, data, network, folder, observer).run()


def finite_or_none(value: float | None) -> float | None:
    """JSON has no word for infinity and not-a-number."""
    return value if value is not None and math.isfinite(value) else None


class _Search:
    """One search on its way: Algorithm 2's outer loop, with the books that are kept beside it."""

    def __init__(
        self,
        config: SearchConfig,
        data: SearchData,
        network: nn.Module | None,
        folder: RunFolder | None,
        observer: SearchObserver,
    ) -> None:
        device = find_device(config.device)
        self.config, self.folder, self.observer = config, folder, observer
        self.data = SearchData(data.name, data.class_names, data.train.to(device), data.val.to(device))
        self.fingerprint = data.train.fingerprint() + data.val.fingerprint()
        space = SearchSpace()
        fill = torch.tensor(data.train.mean_color(), device=device)
        self.problem = Problem(config, space, Standardize.of(self.data.train), config.baseline(), fill)
        self.model_name = config.model if network is None else type(network).__name__
        network = network or build_model(config.model, len(data.class_names), derived_seed(config.seed, "weights"))
        self.state = initial_state(config, space, network, self.data)
        saved = folder.load_checkpoint(self.fingerprint, device) if folder is not None else None
        if saved is not None:
            self.state.load_state_dict(saved)
        self.last_save = self.last_clock = time.monotonic()

    def run(self) -> SearchResult:
        state, total_steps = self.state, self.config.epochs * self.state.steps_per_epoch
        self._save()
        self.observer.started(state.step, total_steps, state.train_stream.batch_size, self.config.epochs)
        while state.step < total_steps and not self.observer.stop_requested():
            search_step(self.problem, state)
            if state.step % state.steps_per_epoch == 0:
                self._close_epoch()
            self.observer.step_done(state.step)
        self._save()
        return SearchResult(
            schedule=self._schedule(),
            metrics=tuple(state.metrics),
            finished=state.step == total_steps,
            hypernetwork=state.hypernetwork,
            lam=state.lam.detach(),
            folder=None if self.folder is None else self.folder.path,
        )

    def _close_epoch(self) -> None:
        """Note the epoch's row and metrics; save now and then."""
        state = self.state
        epoch = len(state.rows) + 1
        train_loss, train_error_percent, lambda_loss = state.totals.means()
        row = self.problem.space.decode(state.lam.detach().double()).tolist()
        if not (math.isfinite(train_loss) and all(map(math.isfinite, row))):
            self._diverged(epoch)
        state.totals.sums.zero_()
        metrics: dict[str, float | None] = {
            "epoch": epoch,
            "train_loss": train_loss,
            "train_error_percent": train_error_percent,
            "lambda_loss": lambda_loss,
            "val_loss": None,
            "val_error_percent": None,
            "learning_rate": float(state.weight_schedule.get_last_lr()[0]),
        }
        if epoch in (1, self.config.epochs) or epoch % self.config.validate_every == 0:
            measured = measure(
                state.hypernetwork, lambda x: state.hypernetwork(x, state.lam), self.data.val, self.problem.standardize
            )
            metrics |= {"val_loss": measured.loss, "val_error_percent": measured.error_percent}
        self._count_seconds()
        state.metrics.append({**metrics, "seconds": state.seconds})
        state.rows.append([round(value, VALUE_DIGITS) for value in row])
        self.observer.epoch_done(state.metrics[-1])
        if time.monotonic() - self.last_save > SAVE_EVERY_SECONDS:
            self._save()

    def _diverged(self, epoch: int) -> None:
        if self.folder is not None:
            self._save_found()
        saved = f"; the {epoch - 1} epochs before it are in {self.folder.policy}" if self.folder and epoch > 1 else ""
        raise DivergedError(
            f"the loss of epoch {epoch} is not finite{saved}; try a learning rate below {self.config.learning_rate:g}"
        )

    def _count_seconds(self) -> None:
        now = time.monotonic()
        self.state.seconds += now - self.last_clock
        self.last_clock = now

    def _save(self) -> None:
        if self.folder is not None:
            self._count_seconds()
            self.folder.save_checkpoint(self.state.state_dict(), self.fingerprint)
            self._save_found()
            self.last_save = time.monotonic()

    def _save_found(self) -> None:
        """The schedule and the metrics of the finished epochs."""
        schedule = self._schedule()
        if self.folder is not None and schedule is not None:
            schedule.save(self.folder.policy)
            self.folder.save_metrics(self.state.metrics)

    def _schedule(self) -> Schedule | None:
        if not self.state.rows:
            return None
        fill = self.data.train.mean_color()
        return Schedule(self.problem.space, self.state.rows, fill, self._provenance())  # type: ignore[arg-type]

    def _provenance(self) -> dict[str, Any]:
        last = self.state.metrics[-1]
        return {
            "algorithm": "hba",
            "dataset": self.data.name,
            "class_names": list(self.data.class_names),
            "train_images": len(self.data.train),
            "val_images": len(self.data.val),
            "skipped_images": len(self.data.train.skipped) + len(self.data.val.skipped),
            "data_fingerprint": self.fingerprint,
            "image_size": self.data.train.images.shape[-1],
            "model": self.model_name,
            "settings": self.config.model_dump(),
            "epochs_finished": len(self.state.rows),
            "val_loss": finite_or_none(last["val_loss"]),
            "val_error_percent": last["val_error_percent"],
            "wall_seconds": round(self.state.seconds, 1),
            **environment(self.state.device),
        }
