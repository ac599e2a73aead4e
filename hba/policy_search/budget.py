"""A search that ends within a time: its pieces are measured, and as many epochs are chosen as fit.

What is measured is a copy of the search, made of the same seeds and then thrown away. So the search itself draws what
it would draw without, and the number of epochs alone repeats it.
"""

import contextlib
import math
import statistics
import tempfile
import time
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Union

import torch

from hba.algorithms import ImageTask, LambdaSteps, SearchState
from hba.algorithms.update_schedule import UpdateSchedule
from hba.errors import SettingsError
from hba.policy_search.checkpointer import SAVE_EVERY_SECONDS, Checkpointer
from hba.policy_search.config import SearchConfig
from hba.policy_search.context import SearchContext
from hba.policy_search.cost import LARGEST_SHARE
from hba.policy_search.folder import RunFolder
from hba.policy_search.history import History
from hba.training.metrics import measure
from hba.utils.seeding import default_generators
from hba.utils.text import counted

MANY_EPOCHS = 1_000_000
"""Of a search whose number is not chosen yet."""
PLANNED_SHARE = 0.85
"""Of what is left of a budget, what is planned: no machine keeps its speed."""
MEASURED_SHARE, MOST_MEASURED_SECONDS = 0.05, 10.0
"""Of a budget, and at most, that steps are measured for; twice that where there is a warm-up, measured apart."""
REPORT_SECONDS = 3.0
"""For the report at the end, whatever there are of images and epochs."""

Clock = Callable[[], float]


@dataclass(frozen=True)
class Budget:
    """So many seconds from `began` on, which is a time of time.monotonic, until a search has ended."""

    seconds: float
    began: float

    @staticmethod
    def of(given: Union["Budget", float]) -> "Budget":
        """A number of seconds counts from now. SettingsError for anything but a number above 0."""
        if isinstance(given, Budget):
            return given
        is_number = isinstance(given, int | float) and not isinstance(given, bool)
        if not is_number or not math.isfinite(given) or given <= 0:
            raise SettingsError(f"budget_seconds must be a number of seconds above 0, got {given!r}")
        return Budget(float(given), time.monotonic())

    @property
    def end(self) -> float:
        return self.began + self.seconds


@dataclass(frozen=True)
class Pieces:
    """Seconds of what a search is made of. warm_up_step: a training step before the policy moves; step: one after, with
    its share of the policy steps. validation: a pass over all validation images. save: everything, into the folder.
    report: at the end. probes: their share of the training, at most.
    """

    warm_up_step: float
    step: float
    validation: float
    save: float = 0.0
    report: float = 0.0
    probes: float = 0.0

    def of_epochs(self, epochs: int, pace: UpdateSchedule, validate_every: int) -> float:
        """Of a search from its first step on."""
        steps = epochs * pace.steps_per_epoch
        warm_up_steps = min(steps, pace.warm_up_of(epochs) * pace.steps_per_epoch)
        training = (1 + self.probes) * (warm_up_steps * self.warm_up_step + (steps - warm_up_steps) * self.step)
        # After the first and the last epoch too.
        validations = epochs // validate_every + 2
        saves = 1 + min(epochs, training / SAVE_EVERY_SECONDS)
        return training + validations * self.validation + saves * self.save + self.report

    def epochs_within(self, seconds: float, pace: UpdateSchedule, validate_every: int) -> int:
        """The most that take no longer; 0 where one does."""
        quickest = pace.steps_per_epoch * min(self.warm_up_step, self.step)
        most = min(MANY_EPOCHS, int(max(0.0, seconds) / quickest)) if quickest else MANY_EPOCHS
        return bisect_right(
            range(1, most + 1), seconds, key=lambda epochs: self.of_epochs(epochs, pace, validate_every)
        )


def with_many_epochs(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings of a search whose epochs are not chosen yet; SettingsError where they are given."""
    if "epochs" in settings:
        raise SettingsError("budget_seconds chooses the number of epochs; omit epochs, or budget_seconds")
    return {**settings, "epochs": MANY_EPOCHS}


def within(
    budget: Budget, setup: SearchContext, folder: RunFolder | None, clock: Clock = time.monotonic
) -> SearchContext:
    """The same search with the epochs that fit into what is left of the budget, and a note that says so.

    Raises SettingsError where not one epoch fits, and where the settings do not go with so few.
    """
    algorithm, every = setup.config.algorithm, setup.config.measured_every
    pace = algorithm.update_schedule.at(setup.task.train_stream().batches_per_pass)
    pieces = measured(setup, folder, budget, clock)
    left = PLANNED_SHARE * (budget.end - clock())
    epochs = pieces.epochs_within(left, pace, every)
    if epochs == 0:
        needed = clock() - budget.began + pieces.of_epochs(1, pace, every) / PLANNED_SHARE
        raise SettingsError(
            f"budget_seconds must be at least about {math.ceil(needed)} s, which a search of one epoch takes here, "
            f"got {budget.seconds:g} s"
        )
    note = f"{counted(epochs, 'epoch')} fit into the {budget.seconds:g} s."
    if pace.advice(epochs) is not None:
        advised = clock() - budget.began + pieces.of_epochs(pace.advised_epochs(), pace, every) / PLANNED_SHARE
        note = f"{note[:-1]}; about {pace.advised_epochs()} would take {math.ceil(advised)} s."
    config = _of_epochs(setup.config, epochs, budget)
    task = replace(setup.task, config=config)
    return replace(setup, config=config, task=task, notes=(*setup.notes, note))


def measured(setup: SearchContext, folder: RunFolder | None, budget: Budget, clock: Clock) -> Pieces:
    """The pieces of a copy of the search, which leaves no trace."""
    task, device = setup.task, setup.task.device
    algorithm = setup.config.algorithm
    seconds = min(MEASURED_SHARE * budget.seconds, MOST_MEASURED_SECONDS)
    every = algorithm.update_schedule.train_steps

    def step_seconds(config: SearchConfig, state: SearchState[Any]) -> float:
        timed = replace(task, config=config)
        return seconds_per_step(_step_of(config, timed, state), every, seconds, budget.end, clock)

    with default_generators(device), contextlib.closing(task.data):
        state = algorithm.begin(task, setup.networks)
        warm_up_step = None
        if isinstance(algorithm, LambdaSteps) and algorithm.warm_up_epochs != 0:
            warm_up_step = step_seconds(_with_warm_up(setup.config, MANY_EPOCHS), state)
            step = step_seconds(_with_warm_up(setup.config, 0), state)
        else:
            step = step_seconds(setup.config, state)
        begun = clock()
        measure(state.to_module(), task.val, task.preprocessing.measure)
        validation = clock() - begun
        return Pieces(
            warm_up_step=step if warm_up_step is None else warm_up_step,
            step=step,
            validation=validation,
            save=0.0 if folder is None else _save_seconds(setup, state, folder, clock),
            report=0.0 if folder is None else REPORT_SECONDS,
            probes=LARGEST_SHARE if isinstance(algorithm, LambdaSteps) and algorithm.probes else 0.0,
        )


def seconds_per_step(step: Callable[[], None], every: int, seconds: float, end: float, clock: Clock) -> float:
    """Of a training step with its share of what comes after `every` of them: the mean over rounds of that many.

    Rounds are measured for so many seconds. The first is slower, because everything is done for the first time; it
    counts only where `end`, a time of the clock, comes before another. At least one step is done.
    """
    rounds: list[float] = []
    while not rounds[1:] or every * sum(rounds[1:]) < seconds:
        begun, done = clock(), 0
        while done < every and (clock() < end or not (rounds or done)):
            step()
            done += 1
        if done:
            rounds.append((clock() - begun) / done)
        if clock() >= end:
            break
    return statistics.mean(rounds[1:] or rounds)


def _step_of(config: SearchConfig, task: ImageTask, state: SearchState[Any]) -> Callable[[], None]:
    def step() -> None:
        config.algorithm.step(task, state)
        if state.device.type == "cuda":
            torch.cuda.synchronize(state.device)

    return step


def _with_warm_up(config: SearchConfig, epochs: int) -> SearchConfig:
    return config.model_copy(update={"algorithm": config.algorithm.model_copy(update={"warm_up_epochs": epochs})})


def _save_seconds(setup: SearchContext, state: SearchState[Any], folder: RunFolder, clock: Clock) -> float:
    """On the same disk, but not in the place of the run's own files."""
    pace = setup.config.algorithm.update_schedule.at(state.steps_per_epoch)
    with tempfile.TemporaryDirectory(dir=folder.path) as place:
        checkpointer = Checkpointer(setup, state, History(setup.config.epochs), pace, RunFolder(Path(place)))
        begun = clock()
        checkpointer.save()
        return clock() - begun


def _of_epochs(config: SearchConfig, epochs: int, budget: Budget) -> SearchConfig:
    try:
        return SearchConfig.make({**dict(config), "epochs": epochs})
    except SettingsError as error:
        raise SettingsError(
            f"{counted(epochs, 'epoch')} fit into the {budget.seconds:g} s of the budget, but {error}"
        ) from None
