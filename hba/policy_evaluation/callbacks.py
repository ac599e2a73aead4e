"""What an evaluation tells while it runs."""

from collections.abc import Sequence

from hba.policy_evaluation.plan import EvaluationPlan
from hba.training.metrics import Measured


class EvaluationCallback:
    """How an evaluation tells what it is doing. Override what you need; the defaults do nothing."""

    def images_read(self, done: int, total: int) -> None:
        """So many of the images have been read."""

    def planned(self, plan: EvaluationPlan) -> None:
        """The training images are read and all is checked; the first training follows."""

    def step_done(self) -> None:
        """A training step is done."""

    def estimated(self, seconds: float) -> None:
        """All trainings that were planned will take about so long, by the first steps; told once, if they last."""

    def training_measured(self, name: str, seed: int, epochs: Sequence[Measured], test: Measured) -> None:
        """One network was trained to its last epoch: what it did on the augmented images of each epoch, while it was
        trained on them, and after the last one on the test split, with its confusion matrix. training_done follows.
        """

    def training_done(self, name: str, seed: int, test_error_percent: float) -> None:
        """One network was trained to its last epoch and measured."""
