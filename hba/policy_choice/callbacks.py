"""Callbacks of a whole run: one progress bar for all phases, in planned seconds."""

from collections.abc import Callable, Mapping, Sequence

from hba.policy_evaluation.callbacks import EvaluationCallback, EvaluationPlan
from hba.policy_search.callbacks import SearchCallback
from hba.policy_search.timing import Pace
from hba.training.metrics import Measured
from hba.training.trained_network import is_kept
from hba.utils.progress import ProgressBar


class AutoCallback:
    """Override the methods that you need; the defaults do nothing."""

    def images_read(self, done: int, total: int) -> None:
        """Called when `done` of `total` images have been read."""

    def said(self, line: str) -> None:
        """Called with each choice of the plan, and each result of a phase, in words."""

    def answered(self, answer: str) -> None:
        """Called with the answer, before the files of the run are written."""

    def advanced(self, phase: str, done: float, total: float) -> None:
        """Called when `done` of `total` planned seconds are over, in this phase."""


class AutoProgress(ProgressBar, AutoCallback):
    """A progress bar in a terminal or notebook, with the time left for all phases."""

    def __init__(self) -> None:
        super().__init__()
        self._total = 0.0

    def said(self, line: str) -> None:
        self.say(line)

    def answered(self, answer: str) -> None:
        self.said(f"\n{answer}\n")

    def advanced(self, phase: str, done: float, total: float) -> None:
        if total != self._total:
            self._total = total
            self.show_work(phase, int(done), max(1, int(total)), "")
        self.describe(phase)
        self.advance_to(int(done))


class PhaseProgress:
    """Counts the planned seconds of phases.

    Args:
        callback: Called with what is done.
        seconds: The planned seconds of each phase, in order.
    """

    def __init__(self, callback: AutoCallback, seconds: Mapping[str, float]) -> None:
        self.callback = callback
        self.seconds = dict(seconds)

    def plan(self, phase: str, seconds: float) -> None:
        """Change the planned seconds of a phase."""
        self.seconds[phase] = seconds

    def advance(self, phase: str, share: float) -> None:
        """Report that this share of the phase is done, and all phases before it."""
        names = [*self.seconds]
        before = sum(self.seconds[name] for name in names[: names.index(phase)])
        done = before + min(1.0, share) * self.seconds[phase]
        self.callback.advanced(phase, done, sum(self.seconds.values()))

    def stepper(
        self,
        phase: str,
        n_steps: int,
        first: float = 0.0,
        last: float = 1.0,
        pace: Pace | None = None,
    ) -> Callable[[], None]:
        """Return a function to call after each step.

        Args:
            phase: The phase.
            n_steps: Number of the steps.
            first: Share of the phase that is done before them.
            last: Share of the phase that is done after them.
            pace: Counts the steps too, and raises TooSlow.
        """
        done = 0

        def step_done() -> None:
            nonlocal done
            done += 1
            self.advance(phase, first + (last - first) * done / max(1, n_steps))
            if pace is not None:
                pace.step_done()

        return step_done


class SearchSteps(SearchCallback):
    """The callback of a run's search.

    Args:
        progress: Counts what is done.
        phase: Name of the phase.
        is_over: Returns whether the time of the search is over; it then ends with its
            results so far.
    """

    def __init__(
        self, progress: PhaseProgress, phase: str, is_over: Callable[[], bool]
    ) -> None:
        self.progress = progress
        self.phase = phase
        self.is_over = is_over
        self.total = 1

    def images_read(self, done: int, total: int) -> None:
        self.progress.callback.images_read(done, total)

    def started(
        self, step: int, total_steps: int, batch_size: int, n_epochs: int
    ) -> None:
        self.total = max(1, total_steps)

    def step_done(self, step: int) -> None:
        self.progress.advance(self.phase, step / self.total)

    def stop_requested(self) -> bool:
        return self.is_over()


class TimeOver(Exception):
    """The test's time is over: no training starts, and finished ones are stored."""


class EvaluationSteps(EvaluationCallback):
    """The callback of a run's test.

    It raises TimeOver when the time is over and all rows have their first seed, with
    which the network is kept. So rows always share a seed. It raises TooSlow, before
    the first training has ended, if the trainings are too slow.

    Args:
        progress: Counts what is done.
        phase: Name of the phase.
        is_over: Returns whether the time of the run is over.
        pace_of: Returns the pace of trainings with so many steps each; None if they
            cannot get fewer epochs.
    """

    def __init__(
        self,
        progress: PhaseProgress,
        phase: str,
        is_over: Callable[[], bool],
        pace_of: Callable[[int], Pace | None],
    ) -> None:
        self.progress = progress
        self.phase = phase
        self.is_over = is_over
        self.pace_of = pace_of
        self._step: Callable[[], None] = lambda: None
        self._first_seed = 0
        self._without_first_seed = set[str]()

    def images_read(self, done: int, total: int) -> None:
        self.progress.callback.images_read(done, total)

    def planned(self, plan: EvaluationPlan) -> None:
        self._first_seed = plan.config.first_seed
        self._without_first_seed = {
            row.name for row in plan.result.rows if self._first_seed not in row.seeds
        }
        if plan.folder is not None and not is_kept(plan.folder):
            # The training of the network, which its result alone does not replace.
            self._without_first_seed.add(plan.result.rows[0].name)
        is_new = not any(row.seeds for row in plan.result.rows)
        pace = self.pace_of(plan.steps_per_training) if is_new else None
        n_steps = plan.n_trainings * plan.steps_per_training
        self._step = self.progress.stepper(self.phase, n_steps, pace=pace)

    def step_done(self) -> None:
        self._step()
        self._check_time()

    def training_done(
        self, name: str, seed: int, test: Measured, epochs: Sequence[Measured]
    ) -> None:
        self.progress.callback.said(
            f"Test, seed {seed}, {name}: {test.error_percent:.2f} % test error"
        )
        if seed == self._first_seed:
            self._without_first_seed.discard(name)
        self._check_time()

    def _check_time(self) -> None:
        if not self._without_first_seed and self.is_over():
            raise TimeOver
