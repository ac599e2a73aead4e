"""The loop of all algorithms: step, and at the end of every epoch note, measure, probe and save."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from hba.algorithms import LambdaSteps, SearchState
from hba.algorithms.gradient_stats import GradientStats
from hba.algorithms.lambda_steps import GradientState
from hba.algorithms.state import HyperModel, InnerModel
from hba.algorithms.update_schedule import UpdateSchedule, overfitting_note_in
from hba.data.labels import error_note
from hba.data.load import notes_on_classes
from hba.distributed.collectives import Agreement
from hba.distributed.process_info import single_process, size
from hba.policy_search.callbacks import SearchCallback
from hba.policy_search.checkpointer import Checkpointer
from hba.policy_search.context import SearchContext
from hba.policy_search.cost import probes_within, round_cost, trained_share
from hba.policy_search.extend_epochs import extend_epochs
from hba.policy_search.folder import RunFolder
from hba.policy_search.history import History, Metrics, is_finite, row_of
from hba.policy_search.plan import SearchPlan
from hba.policy_search.probes import PROBED, is_probe_epoch, probe
from hba.policy_search.result import SearchResult
from hba.report.page import report_at_the_end
from hba.report.samples import Samples
from hba.training.metrics import measure

LEAST_VALIDATION_IMAGES = 10
"""Of a class, on average."""


@dataclass(frozen=True)
class SearchTrainer:
    """One search on its way. probes: how many there will be. round_cost: as SearchPlan has it. lengthened: what to know
    of a run with more epochs now.
    """

    setup: SearchContext
    state: SearchState[InnerModel]
    history: History
    pace: UpdateSchedule
    checkpointer: Checkpointer
    probes: int
    round_cost: float | None
    lengthened: str | None
    is_new: bool

    @staticmethod
    def begun(setup: SearchContext, folder: RunFolder | None) -> "SearchTrainer":
        """At the beginning, or where the run in the folder was."""
        config, task = setup.config, setup.task
        state = config.algorithm.begin(task, setup.networks)
        history, pace = History(config.epochs), config.algorithm.update_schedule.at(state.steps_per_epoch)
        checkpointer = Checkpointer(setup, state, history, pace, folder)
        was_saved = checkpointer.restore()
        if folder is not None:
            # What cannot be saved is told before anything is trained.
            checkpointer.snapshot()
        lengthened = extend_epochs(config, state, history) if was_saved else None
        with single_process():
            share = trained_share(state.to_module(), setup.input_shape)
        sizes = (state.train_stream.batch_size, len(task.val), share)
        probes = probes_within(config, config.algorithm, pace, *sizes)
        cost = round_cost(config, config.algorithm, *sizes)
        return SearchTrainer(setup, state, history, pace, checkpointer, probes, cost, lengthened, not was_saved)

    def run(self, callback: SearchCallback) -> SearchResult:
        """Until the last epoch ends, or the callback wants a stop."""
        setup, state = self.setup, self.state
        if (self.is_new and setup.replaced) or self.lengthened:
            # The settings alone do not tell what this run is made of.
            self.checkpointer.save()
        plan = self.plan()
        callback.planned(plan)
        epochs = setup.config.epochs
        total_steps = epochs * state.steps_per_epoch
        callback.started(state.step, total_steps, state.train_stream.batch_size, epochs)
        stop = Agreement(callback.stop_requested)
        while state.step < total_steps and not stop.reached():
            setup.config.algorithm.step(setup.task, state)
            if state.step % state.steps_per_epoch == 0:
                self.close_epoch()
                names, row = setup.task.space.names, self.history.rows[-1]
                callback.policy_noted(len(self.history.rows), dict(zip(names, row, strict=True)))
                callback.epoch_done(self.history.metrics[-1])
                self.checkpointer.save_now_and_then()
            callback.step_done(state.step)
        state.totals.share()
        self.checkpointer.save()
        result = self._result(plan, finished=state.step == total_steps)
        callback.search_ended(result)
        return result

    def _result(self, plan: SearchPlan, *, finished: bool) -> SearchResult:
        state, schedule = self.state, self.checkpointer.schedule()
        overfitting = None if schedule is None else overfitting_note_in(schedule.provenance)
        return SearchResult(
            schedule=schedule,
            metrics=tuple(self.history.metrics),
            finished=finished,
            network=state.to_module(),
            hypernetwork=state.learner.hypernetwork if isinstance(state.learner, HyperModel) else None,
            lam=state.lam.detach(),
            folder=plan.folder,
            notes=plan.notes if overfitting is None else (*plan.notes, overfitting),
            report=None if schedule is None else self._report(),
        )

    def _report(self) -> Path | None:
        if self.checkpointer.folder is None:
            return None
        data = self.setup.task.data
        with single_process():
            return report_at_the_end(self.checkpointer.folder.path, lambda: Samples.of(data.train, data.class_names))

    def close_epoch(self) -> None:
        """Note the epoch's row and metrics."""
        state, history, space = self.state, self.history, self.setup.task.space
        epoch = len(history.rows) + 1
        train_loss, train_error_percent, lambda_loss = state.totals.means()
        row = row_of(space, state.lam)
        if not is_finite(row, train_loss):
            raise self.checkpointer.diverged(epoch)
        state.totals.reset()
        validated = self._validated(epoch)
        for split in (self.setup.task.data.train, self.setup.task.data.val):
            split.share_left_out()
        if (val_loss := validated["val_loss"]) is not None:
            state.learner.observe(val_loss)
        metrics: Metrics = {
            "epoch": epoch,
            "train_loss": train_loss,
            "train_error_percent": train_error_percent,
            "lambda_loss": lambda_loss,
            **validated,
            **self._probed(epoch),
            "learning_rate": state.learner.learning_rate,
        }
        self.checkpointer.count_seconds()
        algorithm = self.setup.config.algorithm
        history.note(row, algorithm.spread_now(self.setup.task, state), metrics, space)

    def _validated(self, epoch: int) -> Metrics:
        """On the whole validation set, now and then."""
        config, task = self.setup.config, self.setup.task
        if epoch not in (1, config.epochs) and epoch % config.measured_every:
            return {"val_loss": None, "val_error_percent": None}
        network = self.state.to_module()
        measured = measure(network, task.val, task.preprocessing.measure)
        return {"val_loss": measured.loss, "val_error_percent": measured.error_percent}

    def _probed(self, epoch: int) -> Metrics:
        """Of the moves since the last probe, where one is due. Only an algorithm with lambda steps has such moves."""
        algorithm, state = self.setup.config.algorithm, self.state
        if not isinstance(algorithm, LambdaSteps) or not self._is_probe_epoch(epoch):
            return dict.fromkeys(PROBED)
        assert isinstance(state, GradientState)
        with single_process():
            # Everything drawn is the same in all processes.
            probed = probe(algorithm, self.setup.task, state, epoch)
        state.mover.moves = GradientStats.since(state.lam)
        return probed

    def _is_probe_epoch(self, epoch: int) -> bool:
        """Probes are evenly spread over the epochs with lambda steps; those that are left where a search was
        lengthened, over what was left of it.
        """
        history, warm_up = self.history, self.pace.warm_up_of(self.setup.config.epochs)
        begun = max(warm_up, history.lengthened[-1]["at_epoch"] if history.lengthened else 0)
        done = sum(metrics["saturated_percent"] is not None for metrics in history.metrics[:begun])
        left = max(0, self.probes - done)
        return epoch > begun and is_probe_epoch(epoch - begun, self.setup.config.epochs - begun, left)

    def plan(self) -> SearchPlan:
        setup, state = self.setup, self.state
        config, data = setup.config, setup.task.data
        return SearchPlan(
            data=data.name,
            class_names=tuple(data.class_names),
            train_images=len(data.train),
            val_images=len(data.val),
            test_images=data.test_images,
            left_out=len(data.left_out),
            model=setup.identity["network"],
            n_parameters=sum(parameter.numel() for parameter in state.to_module().parameters()),
            device=str(state.device),
            threads=torch.get_num_threads(),
            processes=size(),
            image_size=setup.task.preprocessing.image_size,
            epochs=config.epochs,
            epochs_done=len(self.history.rows),
            steps_per_epoch=state.steps_per_epoch,
            batch_size=state.train_stream.batch_size,
            policy_steps=self.pace.policy_steps(config.epochs, lengthened=self.history.lengthened),
            first_policy_step=self.pace.next_policy_step(state.step, config.epochs),
            train_steps=config.algorithm.train_steps,
            round_cost=self.round_cost,
            probes=self.probes,
            folder=None if self.checkpointer.folder is None else self.checkpointer.folder.path,
            notes=tuple(filter(None, self._notes())),
            operations=tuple(operation.name for operation in setup.task.space.operations),
            regularizers=self._regularizers(),
        )

    def _regularizers(self) -> dict[str, float]:
        """As they stand, by name."""
        space = self.setup.task.space
        values = dict(zip(space.names, row_of(space, self.state.lam), strict=True))
        return {one.name: values[one.name] for one in space.regularizers}

    def _notes(self) -> Iterator[str | None]:
        config = self.setup.config
        data = self.setup.task.data
        yield from data.facts
        yield from notes_on_classes(data)
        yield error_note(data.train.labels)
        yield from self.setup.notes
        yield config.baseline_note()
        yield self.checkpointer.note
        yield self.lengthened
        warm_up = self.pace.warm_up_of(config.epochs)
        if self.lengthened and len(self.history.rows) < warm_up:
            yield f"The policy stays as it is until epoch {warm_up} is over: in a search so long, it moves after that."
        steps = self.pace.policy_steps(config.epochs, lengthened=self.history.lengthened)
        yield self.pace.advice(config.epochs, steps)
        data = self.setup.task.data
        yield few_validation_images(len(data.val), len(data.class_names))


def few_validation_images(n_images: int, n_classes: int) -> str | None:
    """One sentence where they are so few that what moves the policy is mostly noise; None where they are not."""
    if n_images >= LEAST_VALIDATION_IMAGES * n_classes:
        return None
    return (
        f"{n_images} validation images of {n_classes} classes are too few to tell good augmentation from bad: give at "
        f"least {LEAST_VALIDATION_IMAGES} a class, by more images or a larger val_size."
    )
