"""Callbacks of an evaluation: its plan, a progress bar, and TensorBoard events."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from hba.config.evaluation import EvaluationConfig
from hba.data.images import EvaluationData
from hba.results.evaluation import EvaluationResult
from hba.training.metrics import Measured
from hba.utils.progress import ProgressBar, event_writer_class


@dataclass(frozen=True)
class EvaluationPlan:
    """The plan of an evaluation, made after reading the training images and before the
    first training.
    """

    config: EvaluationConfig
    data: EvaluationData
    """The images, whose test split is not opened yet."""
    result: EvaluationResult
    """All rows, with finished trainings."""
    device: str
    """Such as cuda:0."""
    n_trainings: int
    """Number of trainings to run."""
    jobs: int
    """Trainings at a time."""
    folder: Path | None
    """Folder of results.json."""
    notes: tuple[str, ...]
    """Sentences to read before the numbers."""

    @property
    def steps_per_training(self) -> int:
        """Number of batches of one training."""
        n_images = len(self.data.train)
        return self.config.epochs * (n_images // min(self.config.batch_size, n_images))


class EvaluationCallback:
    """Override the methods that you need; the defaults do nothing."""

    def images_read(self, done: int, total: int) -> None:
        """Called while images are read."""

    def planned(self, plan: EvaluationPlan) -> None:
        """Called before the first training, after the training images are read and
        everything is checked.
        """

    def step_done(self) -> None:
        """Called after a training step."""

    def training_done(
        self, name: str, seed: int, test: Measured, epochs: Sequence[Measured]
    ) -> None:
        """Called after a network has been trained to its last epoch and measured.

        test: on the test split, with the confusion matrix. epochs: loss and error on
        augmented images, by epoch.
        """


class TrainingsBar(ProgressBar):
    """A progress bar, as a context manager: steps of all trainings, with the last
    result.
    """

    def __init__(self) -> None:
        super().__init__()
        self.n_steps = self.n_done = self.n_trainings = 0

    def begin(
        self, n_trainings: int, steps_per_training: int, unit: str, per_step: int
    ) -> None:
        """Called before the first training. per_step: number of units in a step."""
        self.n_trainings = n_trainings
        self.show_work(
            f"training 1/{n_trainings}",
            0,
            n_trainings * steps_per_training,
            unit,
            per_step=per_step,
        )

    def step_done(self) -> None:
        self.n_steps += 1
        self.advance_to(self.n_steps)

    def ended(self, text: str) -> None:
        """Called when a training has ended, with its result in words."""
        self.n_done += 1
        self.describe(
            f"training {min(self.n_done + 1, self.n_trainings)}/{self.n_trainings}"
            f" ({text})"
        )


class EvaluationProgress(TrainingsBar, EvaluationCallback):
    """A progress bar in a terminal or a notebook: for reading images, then for training
    steps with the last result.
    """

    def planned(self, plan: EvaluationPlan) -> None:
        for note in plan.notes:
            self.say(note)
        self.begin(
            plan.n_trainings, plan.steps_per_training, "images", plan.config.batch_size
        )

    def training_done(
        self, name: str, seed: int, test: Measured, epochs: Sequence[Measured]
    ) -> None:
        self.ended(f"{name}, seed {seed}: test error {test.error_percent:.2f} %")


class TensorBoardLogger(EvaluationCallback):
    """Writes the events of each training into a separate folder, such as `none, seed
    0`, when the training ends.

    TensorBoard then draws the trainings into one chart. Steps are epochs, counted from
    1; values of the test split are at the last epoch. A resumed evaluation adds the
    trainings that it runs. Raises SettingsError without tensorboard.
    """

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        self._writer_class = event_writer_class()

    def training_done(
        self, name: str, seed: int, test: Measured, epochs: Sequence[Measured]
    ) -> None:
        # A name may be any text, but must be a single folder.
        writer = self._writer_class(
            str(self._folder / f"{quote(name, safe=' ')}, seed {seed}")
        )
        of_epochs = [
            ("train", measured, epoch) for epoch, measured in enumerate(epochs, start=1)
        ]
        for phase, measured, epoch in (*of_epochs, ("test", test, len(epochs))):
            values = {"loss": measured.loss, "error_percent": measured.error_percent}
            if measured.confusion is not None:
                values["balanced_accuracy_percent"] = (
                    measured.confusion.balanced_accuracy_percent
                )
            for tag, value in values.items():
                writer.add_scalar(f"evaluation/{phase}_{tag}", value, epoch)
        writer.close()
