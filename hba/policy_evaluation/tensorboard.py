"""TensorBoard events of an evaluation: the loss and error of each training, epoch by epoch."""

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from hba.policy_evaluation.callbacks import EvaluationCallback
from hba.training.metrics import Measured
from hba.utils.tensorboard import EventFiles


class TensorBoardLogger(EvaluationCallback):
    """Writes the events of each training into a folder of its own, such as `none, seed 0`, when it has ended.

    TensorBoard then draws the trainings into one chart. Steps are epochs, counted from 1; what the test split gave
    stands at the last one. A resumed evaluation adds the trainings that it does. What cannot be written is told once,
    by a ReportWarning, and ends the events, not the evaluation. Raises SettingsError where tensorboard is not
    installed.
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
