"""The training loop of all searches: steps, and records, measurements and saves after
epochs.
"""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn

from hba.algorithms import SearchProblem, SearchState
from hba.algorithms.state import HyperModel, InnerModel
from hba.errors import DivergedError
from hba.policy.space import SearchSpace
from hba.policy_search.callbacks import SearchCallback, SearchResult
from hba.policy_search.checkpoint import RunFolder
from hba.policy_search.context import Metrics, SearchContext
from hba.schedule.schedule import Schedule
from hba.utils.devices import environment
from hba.utils.graphs import StepGraphs
from hba.utils.seeding import default_generator_state, restore_default_generators
from hba.utils.snapshot import restore, snapshot

SAVE_EVERY_SECONDS = 5.0
VALUE_DIGITS = 6


@dataclass
class History:
    """The records of all finished epochs: values, a spread and metrics of each."""

    rows: list[list[float]] = field(default_factory=list)
    """Values (n,) of each epoch, in natural units."""
    spreads: list[float | list[float]] = field(default_factory=list)
    """Spread of each epoch in logits; a list (n,) if learnt."""
    metrics: list[Metrics] = field(default_factory=list)
    """Metrics of each epoch."""
    seconds: float = 0.0
    """Computing time of all runs."""

    def note(
        self,
        row: list[float],
        spread: float | list[float],
        metrics: Metrics,
        space: SearchSpace,
    ) -> None:
        """Add a finished epoch.

        Values are rounded to six decimals, or to more for a value whose range is
        narrower than 0.1. A regularizer keeps six digits, because a weight decay of
        1e-6 has only one digit in six decimals.
        """
        spreads = [
            round(number, VALUE_DIGITS)
            for number in (spread if isinstance(spread, list) else [spread])
        ]
        self.spreads.append(spreads if isinstance(spread, list) else spreads[0])
        self.metrics.append({**metrics, "seconds": self.seconds})
        rounded = []
        for column, (value, (low, high)) in enumerate(
            zip(row, space.ranges, strict=True)
        ):
            width = abs(high - low)
            decimals = VALUE_DIGITS + (
                max(0, -1 - math.floor(math.log10(width))) if width else 0
            )
            is_regularizer = column >= space.n_of_policy
            rounded.append(
                float(f"{value:.{VALUE_DIGITS}g}")
                if is_regularizer
                else float(np.round(value, decimals))
            )
        # Rounding must not move a value beyond the end of its range.
        self.rows.append(np.clip(rounded, *np.sort(space.ranges).T).tolist())


def graphs_for(state: SearchState[InnerModel], problem: SearchProblem) -> StepGraphs:
    """What runs the steps of a search, as CUDA graphs if its device, networks and
    functions allow it.
    """
    networks = [
        value for value in vars(state.learner).values() if isinstance(value, nn.Module)
    ]
    parts = problem.config.algorithm, *networks, *problem.space.functions
    return StepGraphs.of(
        parts, state.learner.optimizer, state.generator, state, wanted=problem.graph
    )


class SearchTrainer:
    """A search at its first step, or at the point where the run in the folder stopped.

    Args:
        context: The search.
        folder: Folder of the run; None saves nothing.
    """

    def __init__(self, context: SearchContext, folder: RunFolder | None) -> None:
        self.context = context
        self.folder = folder
        algorithm = context.config.algorithm
        self.state: SearchState[InnerModel] = algorithm.begin(
            context.problem, context.networks
        )
        self.total_epochs = algorithm.total_epochs(
            context.config, context.problem.space
        )
        self.history = History()
        self.last_clock = self.last_save = time.monotonic()
        self.notes: tuple[str, ...] = ()
        saved = None if folder is None else folder.load_checkpoint(context.identity)
        if saved is not None:
            self.load(saved)
            restore(self.history, saved["history"])
        self.count_steps()
        self.state.graphs = graphs_for(self.state, context.problem)

    def run(self, callback: SearchCallback) -> SearchResult:
        """Train until the last epoch ends, or the callback requests a stop."""
        context = self.context
        state = self.state
        history = self.history
        config = self.context.config
        space = context.problem.space
        # Save before the training, so that a state that cannot be saved raises an error
        # at once.
        self.save()
        updates = config.algorithm.update_schedule
        planned = config.algorithm.plan_note(config, space, state.steps_per_epoch)
        notes = (
            *self.notes,
            planned,
            updates.advice(self.total_epochs, state.steps_per_epoch),
        )
        plan = context.plan(
            model=context.model,
            n_parameters=sum(
                parameter.numel() for parameter in state.to_module().parameters()
            ),
            device=str(state.device),
            epochs=self.total_epochs,
            epochs_done=len(history.rows),
            steps_per_epoch=state.steps_per_epoch,
            policy_steps=updates.policy_steps(self.total_epochs, state.steps_per_epoch),
            legs=config.algorithm.leg_epochs(config, space),
            folder=None if self.folder is None else self.folder.path,
            notes=tuple(filter(None, notes)),
            regularizers=dict(
                zip(
                    space.names[space.n_of_policy :],
                    self._row()[space.n_of_policy :],
                    strict=True,
                )
            ),
        )
        callback.planned(plan)
        total_steps = self.total_epochs * state.steps_per_epoch
        callback.started(self.n_steps, total_steps, plan.batch_size, self.total_epochs)
        first_step = self.n_steps
        while state.step < total_steps and not callback.stop_requested():
            self.advance(callback)
        if self.n_steps > first_step:
            self._count_seconds()
        self.save()
        result = self._result(plan.notes, finished=state.step == total_steps)
        callback.search_ended(result)
        return result

    def count_steps(self) -> None:
        """Set n_steps to the steps of all finished epochs, which may not be the first
        ones, and of the current one.
        """
        per_epoch = self.state.steps_per_epoch
        self.n_steps = len(self.history.rows) * per_epoch + self.state.step % per_epoch

    def advance(self, callback: SearchCallback) -> None:
        """Make one training step, and close the epoch at its end."""
        state = self.state
        context = self.context
        # The next step may belong to any epoch.
        epoch = 1 + state.step // state.steps_per_epoch
        context.config.algorithm.step(context.problem, state)
        if state.step % state.steps_per_epoch == 0:
            self.note(self._close_epoch(epoch), callback)
            if time.monotonic() - self.last_save > SAVE_EVERY_SECONDS:
                self.save()
        self.n_steps += 1
        callback.step_done(self.n_steps)

    def note(self, metrics: Metrics, callback: SearchCallback) -> None:
        """Add a finished epoch to the history, with the current hyperparameters."""
        self._count_seconds()
        history = self.history
        space = self.context.problem.space
        sigma = self.context.config.algorithm.sigma_now(self.state)
        spread = sigma.tolist() if isinstance(sigma, torch.Tensor) else sigma
        history.note(self._row(), spread, metrics, space)
        callback.policy_noted(
            len(history.rows), dict(zip(space.names, history.rows[-1], strict=True))
        )
        callback.epoch_done(history.metrics[-1])
        # If parts run at the same time, a later one may end first.
        history.metrics.sort(key=lambda epoch_metrics: epoch_metrics["epoch"] or 0)

    def _close_epoch(self, epoch: int) -> Metrics:
        """The metrics of a finished epoch.

        Raises:
            DivergedError: If hyperparameters or training loss are not finite.
        """
        context = self.context
        state = self.state
        train_loss, train_error_percent, lambda_loss = state.totals.means()
        metrics: Metrics = {
            "epoch": epoch,
            "train_loss": train_loss,
            "lambda_loss": lambda_loss,
        }
        if not all(map(math.isfinite, (train_loss, *self._row()))):
            self._save_found()
            folder = self.folder if epoch > 1 else None
            kept = (
                f"; the {epoch - 1} epochs before it are in {folder.policy}"
                if folder
                else ""
            )
            rate = context.config.learning_rate
            raise DivergedError(
                f"the loss of epoch {epoch} is not finite{kept}; try a learning rate"
                f" below {rate:g}"
            )
        metrics |= context.measure(state, epoch, train_loss, train_error_percent)
        if (val_loss := metrics["val_loss"]) is not None:
            state.learner.observe(val_loss)
        state.totals.reset()
        metrics.setdefault("learning_rate", state.learner.learning_rate)
        return metrics

    def _row(self) -> list[float]:
        """The current hyperparameters in natural units."""
        return self.context.problem.space.decode(
            self.state.lam.detach().cpu().double()
        ).tolist()

    def _count_seconds(self) -> None:
        now = time.monotonic()
        self.history.seconds += now - self.last_clock
        self.last_clock = now

    def save(self) -> None:
        """Write the results and a checkpoint.

        Raises:
            TypeError: If the state of your own algorithm cannot be saved.
        """
        if self.folder is None:
            return
        self._save_found()
        self.folder.save_checkpoint(
            {**self.saved(), "history": snapshot(self.history)}, self.context.identity
        )
        self.context.save_further(self.folder.path)
        self.last_save = time.monotonic()

    def saved(self) -> dict[str, Any]:
        """Everything that the search needs to continue; the inverse of load."""
        return {
            "search": snapshot(self.state),
            "default_generators": default_generator_state(self.state.device),
        }

    def load(self, saved: Mapping[str, Any]) -> None:
        restore(self.state, saved["search"])
        restore_default_generators(saved["default_generators"], self.state.device)

    def _save_found(self) -> None:
        """Write the schedule and the metrics of the finished epochs."""
        if self.folder is not None and (schedule := self.schedule()) is not None:
            schedule.save(self.folder.policy)
            self.folder.save_metrics(self.history.metrics)

    def schedule(self) -> Schedule | None:
        """The schedule of the finished epochs; None before the first ends."""
        if not self.history.rows:
            return None
        space = self.context.problem.space
        spreads = np.array(self.history.spreads)
        rows = np.array(self.history.rows)
        algorithm = self.context.config.algorithm
        columns = algorithm.spread_columns(space).numpy()
        spread = spreads.reshape(len(spreads), -1) * columns
        epochs = algorithm.epochs_of_schedule(rows, self.context.config, space)
        return Schedule(
            algorithm.space_of_schedule(self.context.problem, self.state),
            rows[epochs],
            self.context.fill,
            self._provenance(),
            spread=spread[epochs],
        )

    def _provenance(self) -> dict[str, Any]:
        """The origin of the schedule, as JSON values."""
        config = self.context.config
        history = self.history
        state = self.state
        n_done = len(history.rows)
        last = history.metrics[-1]
        legs = config.algorithm.leg_epochs(config, self.context.problem.space)
        measured = {
            name: value
            for name, value in last.items()
            if name.startswith(("train_", "val_"))
        }
        return {
            "algorithm": config.algorithm.name,
            "task": self.context.problem.task.name,
            **self.context.provenance(),
            **config.algorithm.findings(self.context.problem, state),
            **({"legs": [list(leg) for leg in legs]} if legs else {}),
            "epochs_finished": n_done,
            "steps_per_epoch": state.steps_per_epoch,
            "policy_steps": config.algorithm.update_schedule.policy_steps(
                n_done, state.steps_per_epoch
            ),
            # JSON has no infinity and no NaN.
            **{
                name: value if value is not None and math.isfinite(value) else None
                for name, value in measured.items()
            },
            "wall_seconds": round(history.seconds, 1),
            **environment(state.device),
            **({"graphs": [*counts]} if (counts := state.graphs.counts) else {}),
        }

    def _result(self, notes: tuple[str, ...], *, finished: bool) -> SearchResult:
        state = self.state
        schedule = self.schedule()
        folder = self.folder
        return SearchResult(
            schedule=schedule,
            metrics=tuple(self.history.metrics),
            finished=finished,
            network=state.to_module(),
            hypernetwork=(
                state.learner.hypernetwork
                if isinstance(state.learner, HyperModel)
                else None
            ),
            lam=state.lam.detach(),
            folder=None if folder is None else folder.path,
            notes=notes,
            steps=state.graphs.counts,
            report=(
                None
                if schedule is None or folder is None
                else self.context.report(folder.path)
            ),
        )
