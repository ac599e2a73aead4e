"""A whole policy search: set up, all epochs with their measurements and saves, and the result."""

import contextlib
import hashlib
import json
import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from hba.algorithms.gradient_state import GradientState
from hba.algorithms.moves import Moves
from hba.algorithms.networks import equal_networks, named_networks
from hba.algorithms.problem import Problem
from hba.algorithms.registry import ALGORITHMS
from hba.algorithms.state import HyperState
from hba.config.presets import PAPER_ALGORITHMS
from hba.config.search import IDLE_SETTINGS, SearchConfig
from hba.data.config import DataConfig, resolved_data
from hba.data.identity import seen_by_search
from hba.data.left_out import save_left_out
from hba.data.load import SearchData, check_data, load_search_data
from hba.data.named import DATASET_NAMES
from hba.errors import DivergedError, SettingsError
from hba.hypernet import HyperNetwork
from hba.operations import check_known, fill_for
from hba.policy.space import SearchSpace
from hba.policy_search.cost import probes_within
from hba.policy_search.evidence import PROBED, is_probe_epoch, probe
from hba.policy_search.folder import RunFolder
from hba.policy_search.lengthen import lengthen
from hba.policy_search.observer import SearchObserver
from hba.policy_search.pace import Pace
from hba.policy_search.plan import SearchPlan
from hba.policy_search.probes import probes_of
from hba.policy_search.progress import SearchProgress
from hba.preprocessing.preprocessing import Preprocessing, network_input_size
from hba.runtime.devices import find_device
from hba.runtime.memory_errors import explained_memory_errors
from hba.runtime.progress import shows_progress
from hba.runtime.provenance import environment
from hba.runtime.seeding import derived_seed
from hba.runtime.validation import check_batch_size
from hba.schedule.file import space_entry
from hba.schedule.schedule import Schedule
from hba.training.measure import measure

SAVE_EVERY_SECONDS = 5.0
VALUE_DIGITS = 6


@dataclass(frozen=True)
class SearchResult:
    """What a search found.

    schedule: one row per finished epoch, None before the first. metrics: one mapping per finished epoch.
    finished: False when the observer stopped the search. lam (n,): where it stands, as logits. network: the trained
    network that belongs to lam. hypernetwork: gives the network of any other by hypernetwork.plain(lam); None for the
    algorithms that have none, `lookahead` and `population`.
    """

    schedule: Schedule | None
    metrics: tuple[Mapping[str, float | None], ...]
    finished: bool
    network: nn.Module
    hypernetwork: HyperNetwork | None
    lam: Tensor
    folder: Path | None

    def __repr__(self) -> str:
        """One line, without the numbers that it holds."""
        error = self.metrics[-1]["val_error_percent"] if self.metrics else None
        return (
            f"SearchResult(epochs={len(self.metrics)}, finished={self.finished}, "
            f"val_error_percent={None if error is None else round(error, 2)}, "
            f"network={type(self.network).__name__}, folder={None if self.folder is None else str(self.folder)!r})"
        )


@shows_progress(SearchProgress)
def search(
    data: str | Path | SearchData | None = None,
    *,
    preset: str | None = None,
    paper: bool = False,
    network: nn.Module | None = None,
    space: SearchSpace | str | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    observer: SearchObserver | None = None,
    progress: bool = False,
    **settings: Any,
) -> SearchResult:
    """Search an augmentation schedule in one training, by the setting `algorithm`.

    data: a dataset's name, a folder of images, or images in memory; None is the preset's, or digits. settings: fields
    of SearchConfig. paper: search as in the paper, where the defaults differ from it. network: a network of your own
    instead of the setting `model`; frozen parameters stay as they are, BatchNorm's running statistics follow its
    train(). space: a search space, or the name of one; operations of your own must be registered. out: a folder to
    keep the run in; resume goes on with the run there, with its settings, but the images may have moved, and `epochs`
    may be more (lengthen.py says what that finds). progress: show a bar in a terminal or a notebook. Raises
    HbaError for what cannot work, DivergedError for a loss that is not finite; what was found until then is saved in
    `out`.
    """
    _check_arguments(preset, paper, resume, out, settings)
    observer = observer or SearchObserver()
    check_data(data, SearchData, settings.get("data_root"))
    folder = RunFolder(Path(out)) if out is not None else None
    own_space = space if isinstance(space, SearchSpace) else None
    if data is not None:
        settings |= _settings_in_memory(data, settings, preset, paper)
    if space is not None:
        settings |= _settings_of_space(space, settings)
    if folder is not None and resume:
        config = folder.stored_config(resolved_data(settings))
    else:
        config = SearchConfig.from_preset(settings, preset, paper=paper).resolved()
        if folder is not None:
            folder.check_free()
    if not isinstance(data, SearchData):
        data = load_search_data(config, observer.images_read)
    check_batch_size(settings, len(data.train))
    data = data if network is not None else data.in_color()
    # So that the run goes on, and is evaluated, with the scale that was found.
    config = config.model_copy(update={"levels": data.levels})
    device = find_device(config.device)
    with (
        torch.random.fork_rng([] if device.type == "cpu" else [device]),
        explained_memory_errors(),
        contextlib.closing(data.to(device)) as placed,
    ):
        torch.manual_seed(derived_seed(config.seed, "default generators"))
        running = _Search(config, placed, network, own_space, folder, observer)
        if folder is not None:
            # Before the first save: a run that is killed in between is lengthened, or finds its images, when resumed.
            folder.write_config(config, data.left_out)
        return running.run()


def _check_arguments(
    preset: str | None, paper: bool, resume: bool, out: str | Path | None, settings: Mapping[str, Any]
) -> None:
    """SettingsError for arguments that contradict each other."""
    if resume and (paper or preset):
        raise SettingsError(f"a resumed run keeps its settings; leave {'paper' if paper else 'preset'} away")
    if resume and out is None:
        raise SettingsError("resume needs out, the folder of the search to go on with")
    if paper and settings.get("algorithm") not in (None, *PAPER_ALGORITHMS):
        raise SettingsError(
            f"algorithm must be the paper's (one of {', '.join(PAPER_ALGORITHMS)}) for a search as in the paper, "
            f"got {settings['algorithm']!r}"
        )


def _settings_in_memory(
    data: str | Path | SearchData, settings: Mapping[str, Any], preset: str | None, paper: bool
) -> dict[str, Any]:
    """What the data decide; images in memory leave nothing to choose about files and splits."""
    if not isinstance(data, SearchData):
        return {"data": data}
    idle = [name for name in settings if name in DataConfig.model_fields]
    if idle:
        raise SettingsError(f"{idle[0]} has no effect on images in memory; leave it away")
    baseline = SearchConfig.from_preset({**settings, "data": data.name}, preset, paper=paper).baseline_augmentation()
    return {"data": data.name, "image_size": network_input_size(data.train, baseline)}


def _settings_of_space(space: SearchSpace | str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """A space by name is a setting; one of your own leaves nothing to choose about its operations."""
    if isinstance(space, str):
        return {"space": space}
    idle = [name for name in ("operations", "interpolation") if name in settings]
    if idle:
        raise SettingsError(f"{idle[0]} has no effect on a search space of your own; leave it away")
    for operation in space.operations:
        check_known(operation)
    return {}


def finite_or_none(value: float | None) -> float | None:
    """JSON has no word for infinity and not-a-number."""
    return value if value is not None and math.isfinite(value) else None


class _Search:
    """One search on its way: the outer loop of all algorithms, with the books that are kept beside it."""

    def __init__(
        self,
        config: SearchConfig,
        data: SearchData,
        network: nn.Module | None,
        own_space: SearchSpace | None,
        folder: RunFolder | None,
        observer: SearchObserver,
    ) -> None:
        device = data.train.device
        self.config, self.folder, self.observer, self.data = config, folder, observer, data
        # Of images in memory, nothing is known of a test split, whatever their name.
        is_named = config.data in DATASET_NAMES and data.test_images is not None
        self.images_seen = seen_by_search(data.listing, (data.train, data.val), is_named)
        self.fill = config.fill or data.train.mean_color()
        # What the user brought instead of settings.
        self.replaced = [
            *(["model"] if network is not None else []),
            *(["space", "operations", "interpolation"] if own_space is not None else []),
        ]
        space = own_space or config.search_space()
        self.identity = {
            "images or their split": data.train.fingerprint() + data.val.fingerprint(),
            "network": config.model if network is None else type(network).__name__,
            "kind of device": device.type,
            "search space": hashlib.sha256(json.dumps(space_entry(space)).encode()).hexdigest()[:16],
        }
        fill = fill_for(torch.empty(1, data.train.n_channels, 1, 1, device=device), self.fill)
        preprocessing = Preprocessing.of(data.train, config.baseline_augmentation())
        self.problem = Problem(config, space, preprocessing, fill, data.val)
        self.algorithm = ALGORITHMS[config.algorithm]
        networks = (
            named_networks(config.model, len(data.class_names), config.seed, preprocessing.image_size)
            if network is None
            else equal_networks(network)
        )
        self.state = self.algorithm.initial_state(config, space, networks, data)
        self.pace = Pace.of(config, self.state.steps_per_epoch)
        self.last_save = self.last_clock = time.monotonic()
        saved = folder.load_checkpoint(self.identity) if folder is not None else None
        self.is_new, self.lengthened = saved is None, None
        if saved is not None:
            self.state.load_state_dict(saved)
            self.lengthened = lengthen(config, self.state)
        self.probes = probes_within(config, self.pace, self.state.train_stream.batch_size, len(data.val))

    def run(self) -> SearchResult:
        if (self.is_new and self.replaced) or self.lengthened:
            # The settings alone do not tell what this run is made of.
            self._save()
        self.observer.planned(self._plan())
        state, total_steps = self.state, self.config.epochs * self.state.steps_per_epoch
        self.observer.started(state.step, total_steps, state.train_stream.batch_size, self.config.epochs)
        while state.step < total_steps and not self.observer.stop_requested():
            self.algorithm.search_step(self.problem, state)
            if state.step % state.steps_per_epoch == 0:
                self._close_epoch()
            self.observer.step_done(state.step)
        self._save()
        return SearchResult(
            schedule=self._schedule(),
            metrics=tuple(state.metrics),
            finished=state.step == total_steps,
            network=state.plain(),
            hypernetwork=state.hypernetwork if isinstance(state, HyperState) else None,
            lam=state.lam.detach(),
            folder=None if self.folder is None else self.folder.path,
        )

    def _plan(self) -> SearchPlan:
        data, config, state = self.data, self.config, self.state
        return SearchPlan(
            data=data.name,
            class_names=tuple(data.class_names),
            train_images=len(data.train),
            val_images=len(data.val),
            test_images=data.test_images,
            left_out=len(data.left_out),
            model=self.identity["network"],
            n_parameters=sum(parameter.numel() for parameter in state.plain().parameters()),
            device=str(state.device),
            threads=torch.get_num_threads(),
            image_size=self.problem.preprocessing.image_size,
            epochs=config.epochs,
            epochs_done=len(state.rows),
            steps_per_epoch=state.steps_per_epoch,
            batch_size=state.train_stream.batch_size,
            policy_steps=self.pace.policy_steps(config.epochs),
            first_policy_step=self.pace.next_policy_step(state.step),
            train_steps=config.train_steps,
            probes=self.probes,
            folder=None if self.folder is None else self.folder.path,
            notes=tuple(filter(None, self._notes())),
        )

    def _notes(self) -> Iterator[str | None]:
        yield from self.data.facts
        yield self.config.baseline_note()
        yield self.lengthened
        yield self.pace.advice(self.config.epochs)

    def _n_skipped(self) -> int:
        return len(self.data.train.skipped) + len(self.data.val.skipped)

    def _is_probe_epoch(self, epoch: int) -> bool:
        """Probes are evenly spread; those that are left where a search was lengthened, over what was left of it."""
        begun = self.state.lengthened[-1]["at_epoch"] if self.state.lengthened else 0
        done = sum(metrics["saturated_percent"] is not None for metrics in self.state.metrics[:begun])
        return is_probe_epoch(epoch - begun, self.config.epochs - begun, max(0, self.probes - done))

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
            **dict.fromkeys(PROBED),
            "learning_rate": state.learning_rate,
        }
        if epoch in (1, self.config.epochs) or epoch % self.config.validate_every == 0:
            network = state.plain()
            measured = measure(network, network, self.data.val, self.problem.preprocessing.measure)
            metrics |= {"val_loss": measured.loss, "val_error_percent": measured.error_percent}
        if isinstance(state, GradientState) and self._is_probe_epoch(epoch):
            metrics |= probe(self.problem, state, state.moves, self.data, epoch)
            state.moves = Moves.since(state.lam)
        self._count_seconds()
        state.metrics.append({**metrics, "seconds": state.seconds})
        # Rounding must not carry a value past the end of its range.
        state.rows.append(np.clip(np.round(row, VALUE_DIGITS), *np.sort(self.problem.space.ranges).T).tolist())
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
            self.folder.save_checkpoint(self.state.state_dict(), self.identity)
            self._save_found()
            save_left_out(self.folder.path, self.data.left_out)
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
        return Schedule(self.problem.space, self.state.rows, self.fill, self._provenance())  # type: ignore[arg-type]

    def _provenance(self) -> dict[str, Any]:
        last = self.state.metrics[-1]
        idle = IDLE_SETTINGS[self.config.algorithm]
        return {
            "algorithm": self.config.algorithm,
            "dataset": self.data.name,
            "class_names": list(self.data.class_names),
            "train_images": len(self.data.train),
            "val_images": len(self.data.val),
            "skipped_images": self._n_skipped(),
            "data_fingerprint": self.identity["images or their split"],
            "images_seen": self.images_seen,
            "image_size": self.data.train.image_size,
            "model": self.identity["network"],
            "settings": {**self.config.model_dump(mode="json"), **dict.fromkeys([*self.replaced, *idle])},
            "epochs_finished": len(self.state.rows),
            "steps_per_epoch": self.state.steps_per_epoch,
            "policy_steps": self.pace.policy_steps(len(self.state.rows)),
            **({"lengthened": self.state.lengthened} if self.state.lengthened else {}),
            "probes": probes_of(self.state.metrics),
            "val_loss": finite_or_none(last["val_loss"]),
            "val_error_percent": last["val_error_percent"],
            "wall_seconds": round(self.state.seconds, 1),
            **environment(self.state.device),
        }
