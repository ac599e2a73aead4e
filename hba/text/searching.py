"""A search on text: the loop of all its algorithms, and what it keeps."""

import hashlib
import json
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np

from hba.algorithms.hypergradient import HyperGradientState
from hba.distributed.process_info import check_single_process
from hba.errors import DivergedError, SettingsError
from hba.policy_search.extend_epochs import note_longer
from hba.policy_search.history import History, finite_or_none, is_finite, row_of
from hba.schedule.file import space_entry
from hba.schedule.schedule import Schedule
from hba.text.callbacks import TextObserver, TextPlan, TextProgress
from hba.text.config import TextSearchConfig, resolved
from hba.text.corpus import Corpus
from hba.text.folder import TextRunFolder
from hba.text.lstm import LstmLanguageModel
from hba.text.measure import measured_loss, perplexity
from hba.text.result import TextSearchResult
from hba.text.task import TextTask
from hba.utils.devices import explained_memory_errors, find_device
from hba.utils.files import run_lock
from hba.utils.progress import shows_progress
from hba.utils.provenance import environment
from hba.utils.seeding import default_generator_state, default_generators, derived_seed, restore_default_generators
from hba.utils.snapshot import restore, snapshot

SAVE_EVERY_SECONDS = 5.0
SEARCHED = ("train", "valid")
"""Texts that a search reads. The test text stays unopened."""


@shows_progress(TextProgress)
@explained_memory_errors()
def search(
    data: str | Path | None = None,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    callback: TextObserver | None = None,
    progress: bool = False,
    **settings: Any,
) -> TextSearchResult:
    """Search a schedule of regularisation for a language model on a folder of text, in one training.

    data: the folder, with train.txt and valid.txt. out: a folder for policy.json, config.json, metrics.csv and the
    checkpoint. resume: go on with the run in `out`; data may be elsewhere now, and epochs more. progress: show a bar in
    a terminal or a notebook. settings: those of hba.text.TextSearchConfig, and of its algorithm.

    Raises HbaError for what cannot work, DivergedError for a loss that is not finite; what was found until then is
    saved in `out`.
    """
    check_single_process("a search on text")
    if resume and out is None:
        raise SettingsError("resume needs out, the folder of the run to resume")
    given = resolved({**settings, **({} if data is None else {"data": data})})
    folder = None if out is None else TextRunFolder(Path(out))
    with run_lock(None if folder is None else folder.path):
        if resume and folder is not None:
            config = folder.resumed(given)
        else:
            config = TextSearchConfig.make(given)
            if folder is not None:
                folder.check_free()
        device = find_device(config.device)
        corpus = Corpus.read(config.data, config.vocabulary_size, SEARCHED)
        with default_generators(device, derived_seed(config.seed, "default generators")):
            run = _Run.begun(config, corpus, TextTask.of(config, corpus, device), folder)
            return run.to_the_end(callback or TextObserver())


@dataclass
class _Run:
    """One search on its way."""

    config: TextSearchConfig
    corpus: Corpus
    task: TextTask
    state: HyperGradientState
    history: History
    folder: TextRunFolder | None
    last_clock: float = field(default_factory=time.monotonic)
    last_save: float = field(default_factory=time.monotonic)

    @staticmethod
    def begun(config: TextSearchConfig, corpus: Corpus, task: TextTask, folder: TextRunFolder | None) -> "_Run":
        """At the beginning, or where the run in the folder was."""
        state = config.algorithm.begin(task, lambda _: task.network)
        run = _Run(config, corpus, task, state, History(config.epochs), folder)
        found = None if folder is None else folder.load_checkpoint(run.identity())
        if found is not None:
            restore(state, found.state["search"])
            restore(run.history, found.state["history"])
            restore_default_generators(found.state["default_generators"], task.device)
            if config.epochs > run.history.epochs:
                note_longer(config.epochs, state.step, run.history)
        if folder is not None:
            folder.write_settings(config)
        return run

    def to_the_end(self, callback: TextObserver) -> TextSearchResult:
        """Until the last epoch ends, or the callback wants a stop."""
        config, state = self.config, self.state
        callback.planned(self.plan())
        total_steps = config.epochs * state.steps_per_epoch
        callback.started(state.step, total_steps, config.batch_size * config.sequence_length, config.epochs)
        while state.step < total_steps and not callback.stop_requested():
            config.algorithm.step(self.task, state)
            if state.step % state.steps_per_epoch == 0:
                self.close_epoch()
                row = dict(zip(self.task.space.names, self.history.rows[-1], strict=True))
                callback.epoch_done(self.history.metrics[-1], row)
                if time.monotonic() - self.last_save > SAVE_EVERY_SECONDS:
                    self.save()
            callback.step_done(state.step)
        self.save()
        result = TextSearchResult(
            schedule=self.schedule(),
            metrics=tuple(self.history.metrics),
            finished=state.step == total_steps,
            network=self.network(),
            hypernetwork=state.learner.hypernetwork,
            lam=state.lam.detach(),
            folder=None if self.folder is None else self.folder.path,
        )
        callback.search_ended(result)
        return result

    def network(self) -> LstmLanguageModel:
        return cast(LstmLanguageModel, self.state.to_module())

    def close_epoch(self) -> None:
        """Note the epoch's row and metrics."""
        state, config = self.state, self.config
        epoch = len(self.history.rows) + 1
        train_loss, _, lambda_loss = state.totals.means()
        row = row_of(self.task.space, state.lam)
        val_loss = measured_loss(self.network(), self.task.tokens["valid"], config.sequence_length)
        if not is_finite(row, train_loss) or not math.isfinite(val_loss):
            raise self.diverged(epoch)
        state.totals.reset()
        rate = state.learner.learning_rate
        state.learner.observe(val_loss)
        self.count_seconds()
        metrics: dict[str, float | None] = {
            "epoch": epoch,
            "train_loss": train_loss,
            "train_perplexity": perplexity(train_loss),
            "lambda_loss": lambda_loss,
            "val_loss": val_loss,
            "val_perplexity": perplexity(val_loss),
            "learning_rate": rate,
        }
        spread = config.algorithm.spread_now(self.task, state)
        self.history.note(row, spread, metrics, self.task.space)

    def diverged(self, epoch: int) -> DivergedError:
        """The error of an epoch whose loss is not finite. What was found before it is saved."""
        self.save_found()
        kept = f"; the {epoch - 1} epochs before it are in {self.folder.policy}" if epoch > 1 and self.folder else ""
        rate = self.config.learning_rate
        return DivergedError(f"the loss of epoch {epoch} is not finite{kept}; try a learning rate below {rate:g}")

    def count_seconds(self) -> None:
        now = time.monotonic()
        self.history.seconds += now - self.last_clock
        self.last_clock = now

    def save(self) -> None:
        """Write everything, from which the search can be resumed."""
        if self.folder is None:
            return
        self.count_seconds()
        generators = default_generator_state(self.task.device)
        found = {"search": snapshot(self.state), "history": snapshot(self.history), "default_generators": generators}
        self.folder.save_checkpoint(found, self.identity())
        self.save_found()
        self.last_save = time.monotonic()

    def save_found(self) -> None:
        """The schedule and the metrics of the finished epochs."""
        schedule = self.schedule()
        if self.folder is not None and schedule is not None:
            schedule.save(self.folder.policy)
            self.folder.save_metrics(self.history.metrics)

    def identity(self) -> Mapping[str, str]:
        """What must be the same when the run goes on."""
        space = json.dumps(space_entry(self.task.space))
        return {
            "text": ", ".join(text.sha256 for text in self.corpus.texts.values()),
            "kind of device": self.task.device.type,
            "search space": hashlib.sha256(space.encode()).hexdigest()[:16],
        }

    def schedule(self) -> Schedule | None:
        """Of the finished epochs; None before the first."""
        if not self.history.rows:
            return None
        return Schedule(self.task.space, np.array(self.history.rows), provenance=self.provenance())

    def provenance(self) -> dict[str, Any]:
        """How the schedule was made, as JSON values."""
        config, texts, last = self.config, self.corpus.texts, self.history.metrics[-1]
        return {
            "algorithm": config.algorithm.name,
            "dataset": self.corpus.path.name,
            "train_words": len(texts["train"]),
            "val_words": len(texts["valid"]),
            "vocabulary_size": len(self.corpus.vocabulary),
            "data_fingerprint": self.identity()["text"],
            "model": f"lstm-{config.layers}x{config.width}",
            "settings": config.flat(),
            "epochs_finished": len(self.history.rows),
            "steps_per_epoch": self.state.steps_per_epoch,
            "policy_steps": self.policy_steps(len(self.history.rows)),
            **({"lengthened": self.history.lengthened} if self.history.lengthened else {}),
            "train_loss": last["train_loss"],
            "val_loss": finite_or_none(last["val_loss"]),
            "val_perplexity": finite_or_none(last["val_perplexity"]),
            "wall_seconds": round(self.history.seconds, 1),
            **environment(self.task.device),
        }

    def policy_steps(self, epochs_done: int | None = None) -> int:
        """Steps of lambda in so many epochs, or in all."""
        pace = self.config.algorithm.update_schedule.at(self.state.steps_per_epoch)
        return pace.policy_steps(self.config.epochs, epochs_done, self.history.lengthened)

    def plan(self) -> TextPlan:
        texts, space = self.corpus.texts, self.task.space
        values = space.decode(self.state.lam.detach().double())
        return TextPlan(
            words={name: len(text) for name, text in texts.items()},
            unknown_percent={name: 100 * text.unknown / len(text) for name, text in texts.items()},
            vocabulary_size=len(self.corpus.vocabulary),
            n_parameters=sum(one.numel() for one in self.task.network.parameters()),
            device=str(self.task.device),
            epochs=self.config.epochs,
            epochs_done=len(self.history.rows),
            steps_per_epoch=self.state.steps_per_epoch,
            lambda_steps=self.policy_steps(),
            folder=None if self.folder is None else self.folder.path,
            regularizers=dict(space.named(values)),
        )
