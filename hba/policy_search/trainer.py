"""The training loop of all searches, on images and on text: step, and note, measure and save after every epoch."""

import math
from dataclasses import dataclass

from hba.algorithms import SearchState
from hba.algorithms.state import HyperModel, InnerModel
from hba.algorithms.update_schedule import UpdateSchedule, overfitting_note_in
from hba.distributed.collectives import Agreement
from hba.policy_search.callbacks import SearchCallback
from hba.policy_search.checkpoint import Checkpointer, RunFolder
from hba.policy_search.context import SearchContext
from hba.policy_search.history import History, Metrics, extend_epochs, row_of
from hba.policy_search.result import SearchResult


@dataclass(frozen=True)
class SearchTrainer:
    """One search in progress. extended: a sentence about a run that now has more epochs. is_new: it was not resumed."""

    context: SearchContext
    state: SearchState[InnerModel]
    history: History
    updates: UpdateSchedule
    checkpointer: Checkpointer
    extended: str | None
    is_new: bool

    @staticmethod
    def begun(context: SearchContext, folder: RunFolder | None) -> "SearchTrainer":
        """At the first step, or where the run in the folder was stopped."""
        algorithm = context.config.algorithm
        state = algorithm.begin(context.task, context.networks)
        history, updates = History(context.config.epochs), algorithm.update_schedule.at(state.steps_per_epoch)
        checkpointer = Checkpointer(context, state, history, updates, folder)
        was_saved = checkpointer.restore()
        if folder is not None:
            # A state that cannot be saved is refused before anything is trained.
            checkpointer.snapshot()
        extended = extend_epochs(context.task, state, history) if was_saved else None
        return SearchTrainer(context, state, history, updates, checkpointer, extended, not was_saved)

    def run(self, callback: SearchCallback) -> SearchResult:
        """Train until the last epoch ends, or the callback requests a stop."""
        context, state = self.context, self.state
        if (self.is_new and context.replaced) or self.extended:
            # The settings alone do not identify this run.
            self.checkpointer.save()
        folder = None if self.checkpointer.folder is None else self.checkpointer.folder.path
        plan = context.plan(state, self.history, self.updates, folder, (self.checkpointer.note, self.extended))
        callback.planned(plan)
        epochs = context.config.epochs
        total_steps = epochs * state.steps_per_epoch
        callback.started(state.step, total_steps, context.inputs_per_step(state), epochs)
        stop = Agreement(callback.stop_requested)
        while state.step < total_steps and not stop.reached():
            context.config.algorithm.step(context.task, state)
            if state.step % state.steps_per_epoch == 0:
                self.close_epoch()
                row = dict(zip(context.task.space.names, self.history.rows[-1], strict=True))
                callback.policy_noted(len(self.history.rows), row)
                callback.epoch_done(self.history.metrics[-1])
                self.checkpointer.save_now_and_then()
            callback.step_done(state.step)
        state.totals.share()
        self.checkpointer.save()
        result = self._result(plan.notes, finished=state.step == total_steps)
        callback.search_ended(result)
        return result

    def close_epoch(self) -> None:
        """Note the row and the metrics of an epoch that ended; DivergedError if row or loss is not finite."""
        context, state, history = self.context, self.state, self.history
        epoch, space = len(history.rows) + 1, context.task.space
        train_loss, train_error_percent, lambda_loss = state.totals.means()
        row = row_of(space, state.lam)
        if not all(map(math.isfinite, (train_loss, *row))):
            raise self.checkpointer.diverged(epoch)
        metrics: Metrics = {"epoch": epoch, "train_loss": train_loss, "lambda_loss": lambda_loss}
        metrics |= context.measure(state, epoch, train_loss, train_error_percent)
        if (val_loss := metrics["val_loss"]) is not None:
            if context.needs_finite_validation and not math.isfinite(val_loss):
                raise self.checkpointer.diverged(epoch)
            state.learner.observe(val_loss)
        state.totals.reset()
        metrics = {**metrics, "learning_rate": metrics.get("learning_rate", state.learner.learning_rate)}
        self.checkpointer.count_seconds()
        history.note(row, context.config.algorithm.spread_now(context.task, state), metrics, space)

    def _result(self, notes: tuple[str, ...], *, finished: bool) -> SearchResult:
        state, schedule, folder = self.state, self.checkpointer.schedule(), self.checkpointer.folder
        overfitting = None if schedule is None else overfitting_note_in(schedule.provenance)
        return SearchResult(
            schedule=schedule,
            metrics=tuple(self.history.metrics),
            finished=finished,
            network=state.to_module(),
            hypernetwork=state.learner.hypernetwork if isinstance(state.learner, HyperModel) else None,
            lam=state.lam.detach(),
            folder=None if folder is None else folder.path,
            notes=notes if overfitting is None else (*notes, overfitting),
            report=None if schedule is None or folder is None else self.context.report(folder.path),
        )
