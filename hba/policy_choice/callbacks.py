"""Callbacks of a whole run: one progress bar for all phases, in planned seconds."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hba.policy_evaluation.callbacks import EvaluationCallback
from hba.policy_search.callbacks import SearchCallback
from hba.training.metrics import Measured
from hba.utils.progress import ProgressBar


class AutoCallback:
    """Override the methods that you need; the defaults do nothing."""

    def images_read(self, done: int, total: int) -> None:
        """Called when `done` of `total` images have been read."""

    def said(self, line: str) -> None:
        """Called with each choice of the plan, and each result of a phase, in words."""

    def advanced(self, phase: str, done: float, total: float) -> None:
        """Called when `done` of `total` planned seconds are over, in this phase."""


class AutoProgress(ProgressBar, AutoCallback):
    """A progress bar in a terminal or a notebook, with the remaining time of all phases."""

    def __init__(self) -> None:
        super().__init__()
        self._total = 0.0

    def said(self, line: str) -> None:
        self.say(line)

    def advanced(self, phase: str, done: float, total: float) -> None:
        if total != self._total:
            self._total = total
            self.show_work(phase, int(done), max(1, int(total)), "")
        self.describe(phase)
        self.advance_to(int(done))


class Phases:
    """Counts the planned seconds of phases. seconds: the planned ones, by phase; a later plan may change them."""

    def __init__(self, callback: AutoCallback, seconds: Mapping[str, float]) -> None:
        self.callback, self.seconds = callback, dict(seconds)

    def plan(self, phase: str, seconds: float) -> None:
        self.seconds[phase] = seconds

    def advance(self, phase: str, share: float) -> None:
        """Report that this share of the phase is done, and all phases before it."""
        names = [*self.seconds]
        before = sum(self.seconds[name] for name in names[: names.index(phase)])
        done = before + min(1.0, share) * self.seconds[phase]
        self.callback.advanced(phase, done, sum(self.seconds.values()))

    def stepper(self, phase: str, n_steps: int, first: float = 0.0, last: float = 1.0) -> Callable[[], None]:
        """Return a function to call after each of n_steps steps, which take the phase from share first to last."""
        done = 0

        def step_done() -> None:
            nonlocal done
            done += 1
            self.advance(phase, first + (last - first) * done / max(1, n_steps))

        return step_done


class SearchSteps(SearchCallback):
    """The callback of a run's search. is_over: whether its time is over; it then ends with its results so far."""

    def __init__(self, phases: Phases, phase: str, is_over: Callable[[], bool]) -> None:
        self.phases, self.phase, self.is_over, self.total = phases, phase, is_over, 1

    def images_read(self, done: int, total: int) -> None:
        self.phases.callback.images_read(done, total)

    def started(self, step: int, total_steps: int, batch_size: int, n_epochs: int) -> None:
        self.total = max(1, total_steps)

    def step_done(self, step: int) -> None:
        self.phases.advance(self.phase, step / self.total)

    def stop_requested(self) -> bool:
        return self.is_over()


class TimeOver(Exception):
    """The time of the test is over: no more trainings start, and the finished ones are stored."""


class EvaluationSteps(EvaluationCallback):
    """The callback of a run's test. is_over: whether the time of the run is over.

    It then raises TimeOver after a training, if all rows have a seed.
    """

    def __init__(self, phases: Phases, phase: str, is_over: Callable[[], bool]) -> None:
        self.phases, self.phase, self.is_over = phases, phase, is_over
        self._step: Callable[[], None] = lambda: None
        self._done: dict[str, int] = {}

    def images_read(self, done: int, total: int) -> None:
        self.phases.callback.images_read(done, total)

    def planned(self, plan: Any) -> None:
        self._done = {row.name: len(row.seeds) for row in plan.result.rows}
        self._step = self.phases.stepper(self.phase, plan.n_trainings * plan.steps_per_training)

    def step_done(self) -> None:
        self._step()

    def training_done(self, name: str, seed: int, test: Measured, epochs: Sequence[Measured]) -> None:
        self.phases.callback.said(f"Test, seed {seed}, {name}: {test.error_percent:.2f} % test error")
        self._done[name] += 1
        if min(self._done.values()) and self.is_over():
            raise TimeOver
