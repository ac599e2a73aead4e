"""What an evaluation tells while it runs: its plan, a progress bar, and TensorBoard events."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from hba.config.evaluation import EvaluationConfig
from hba.policy_evaluation.leakage import LeakageReport
from hba.training.metrics import Measured
from hba.utils.progress import ShowsBar
from hba.utils.tensorboard import EventFiles

WARM_UP_SECONDS = 2.0
"""Of the first steps, which an estimate leaves out: memory is claimed, kernels are chosen, processes start."""
COUNTED_SECONDS = 3.0


@dataclass(frozen=True)
class EvaluationPlan:
    """Known once the training images are read, before the first training.

    model: the network's name, or the class of the user's own. device: such as cuda:0. test_images: None where only
    reading them, after the first training, will tell. left_out: number of files that are not used, as far as is known.
    rows: names, the schedule's first. n_trainings: those still to do; n_kept: those that are done already.
    steps_per_training: batches. jobs: trainings at a time. folder: of results.json. inherited: settings taken from the
    search, where that was on the other data named by inherited_from. searched: one report for each row that is a
    schedule. notes: sentences to read before the numbers.
    """

    config: EvaluationConfig
    model: str
    device: str
    class_names: tuple[str, ...]
    train_images: int
    test_images: int | None
    left_out: int
    rows: tuple[str, ...]
    n_trainings: int
    n_kept: int
    steps_per_training: int
    jobs: int
    folder: Path | None
    inherited: Mapping[str, Any]
    inherited_from: str
    searched: tuple[LeakageReport, ...]
    notes: tuple[str, ...]


class EvaluationCallback:
    """Override the methods that you need; the defaults do nothing."""

    def images_read(self, done: int, total: int) -> None:
        """Called while images are read."""

    def planned(self, plan: EvaluationPlan) -> None:
        """Called when the training images are read and everything is checked; the first training follows."""

    def step_done(self) -> None:
        """Called after a training step."""

    def estimated(self, seconds: float) -> None:
        """Called once, after the first steps, with the time that all planned trainings will take, if they last."""

    def training_measured(self, name: str, seed: int, epochs: Sequence[Measured], test: Measured) -> None:
        """Called when a network was trained to its last epoch, before training_done.

        epochs: loss and error on the augmented images of each epoch, during training. test: after the last epoch on the
        test split, with the confusion matrix.
        """

    def training_done(self, name: str, seed: int, test_error_percent: float) -> None:
        """Called when a network was trained to its last epoch and measured."""


class TimeEstimate:
    """Counts steps, and once calls `tell` with the seconds that all n_steps will take at the rate of the first ones.

    Steps that several processes do at the same time count together.
    """

    def __init__(
        self, n_steps: int, tell: Callable[[float], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._n_steps, self._tell, self._clock = n_steps, tell, clock
        self._done, self._has_told = 0, False
        self._first_at: float | None = None
        self._counted_from: tuple[int, float] | None = None

    def step_done(self) -> None:
        self._done += 1
        if self._has_told:
            return
        now = self._clock()
        if self._first_at is None:
            self._first_at = now
        elif self._counted_from is None:
            if now - self._first_at >= WARM_UP_SECONDS:
                self._counted_from = (self._done, now)
        elif now - self._counted_from[1] >= COUNTED_SECONDS:
            before, since = self._counted_from
            self._tell((now - since) / (self._done - before) * self._n_steps)
            self._has_told = True


class EvaluationProgress(ShowsBar, EvaluationCallback):
    """Shows a bar in a terminal or a notebook: reading images, then training steps with the last result."""

    def __init__(self) -> None:
        super().__init__()
        self.n_steps = self.n_done = self.n_trainings = 0

    def planned(self, plan: EvaluationPlan) -> None:
        for note in plan.notes:
            self.bar.say(note)
        self.begin(plan)

    def begin(self, plan: EvaluationPlan) -> None:
        """Show the bar of the planned trainings."""
        self.n_trainings = plan.n_trainings
        total = plan.n_trainings * plan.steps_per_training
        self.bar.begin(f"training 1/{plan.n_trainings}", 0, total, "images", per_step=plan.config.batch_size)

    def step_done(self) -> None:
        self.n_steps += 1
        self.bar.advance_to(self.n_steps)

    def training_done(self, name: str, seed: int, test_error_percent: float) -> None:
        self.n_done += 1
        current = min(self.n_done + 1, self.n_trainings)
        self.bar.describe(f"training {current}/{self.n_trainings} ({training_text(name, seed, test_error_percent)})")


def training_text(name: str, seed: int, test_error_percent: float) -> str:
    """`none, seed 0: test error 3.20 %`."""
    return f"{name}, seed {seed}: test error {test_error_percent:.2f} %"


class TensorBoardLogger(EvaluationCallback):
    """Writes the events of each training into a folder of its own, such as `none, seed 0`, when the training ends.

    TensorBoard then draws the trainings into one chart. Steps are epochs, counted from 1; the values of the test split
    stand at the last one. Resuming adds the trainings that it runs. If events cannot be written, a ReportWarning says
    so once, and the evaluation continues without them. Raises SettingsError where tensorboard is not installed.
    """

    def __init__(self, folder: str | Path) -> None:
        self._events = EventFiles(folder, "evaluation")

    def training_measured(self, name: str, seed: int, epochs: Sequence[Measured], test: Measured) -> None:
        # A name may be any text, and must stay a single folder.
        self._events.begin(f"{quote(name, safe=' ')}, seed {seed}")
        for epoch, trained in enumerate(epochs, start=1):
            self._events.scalars(_scalars("train", trained), epoch)
        self._events.scalars(_scalars("test", test), len(epochs))
        self._events.end()


def _scalars(part: str, measured: Measured) -> dict[str, float]:
    found = {"loss": measured.loss, "error_percent": measured.error_percent}
    if measured.confusion is not None:
        found["balanced_accuracy_percent"] = measured.confusion.balanced_accuracy_percent
    return {f"evaluation/{part}_{name}": value for name, value in found.items()}
