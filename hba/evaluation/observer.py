"""What an evaluation tells while it runs."""

from hba.config import EvaluationConfig


class EvaluationObserver:
    """How an evaluation tells what it is doing. Override what you need; the defaults do nothing."""

    def images_read(self, done: int, total: int) -> None:
        """So many of the images have been read."""

    def data_ready(self, train_images: int, test_images: int | None, n_classes: int, skipped_images: int) -> None:
        """The training images are read; so many files could not be, and were left out.

        test_images: None where only opening their file, after the training, will tell.
        """

    def noted(self, sentence: str) -> None:
        """What a person should know of how the images were read, such as which folders were taken as which splits."""

    def resumed(self, n_kept: int) -> None:
        """An earlier evaluation goes on; so many of its trainings are kept."""

    def started(self, config: EvaluationConfig, n_trainings: int, steps_per_training: int) -> None:
        """The first of so many trainings follows."""

    def step_done(self) -> None:
        """A training step is done."""

    def training_done(self, name: str, seed: int, test_error_percent: float) -> None:
        """One network was trained to its last epoch and measured."""
