"""Callbacks of a search: the base class, a progress bar, and TensorBoard events."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hba.policy_search.result import SearchResult
from hba.utils.progress import ProgressBar, event_writer_class


class SearchCallback:
    """Override the methods that you need; the defaults do nothing. All are called in the thread that searches."""

    def images_read(self, done: int, total: int) -> None:
        """`done` of `total` images have been read."""

    def planned(self, plan: Any) -> None:
        """Called before anything is trained. plan: a SearchPlan, or a Plan for a search on text."""

    def started(self, step: int, total_steps: int, batch_size: int, n_epochs: int) -> None:
        """The first step follows. step is above 0 for a resumed search. batch_size: images, or words, of a step."""

    def step_done(self, step: int) -> None:
        """Training step `step`, counted from 1, and its policy steps are done."""

    def policy_noted(self, epoch: int, values: Mapping[str, float]) -> None:
        """An epoch, counted from 1, ended with these values in natural units, such as `Rotate.1.magnitude`."""

    def epoch_done(self, metrics: Mapping[str, float | None]) -> None:
        """An epoch ended. The keys are those of metrics.csv; None stands for what was not measured in this epoch."""

    def stop_requested(self) -> bool:
        """Return True to end the search before its next step, with everything saved."""
        return False

    def search_ended(self, result: SearchResult) -> None:
        """After the last step, or after the stop. Everything is saved, the report too."""


class SearchProgress(ProgressBar, SearchCallback):
    """A progress bar in a terminal or a notebook, as a context manager: images that are read, then training steps.

    `text` describes the last epoch.
    """

    unit = "images"

    def __init__(self) -> None:
        super().__init__()
        self.n_epochs, self.validation_error, self.text = 0, "-", ""

    def planned(self, plan: Any) -> None:
        for note in plan.notes:
            self.say(note)

    def started(self, step: int, total_steps: int, batch_size: int, n_epochs: int) -> None:
        self.n_epochs = n_epochs
        self.show_work("first epoch", step, total_steps, self.unit, per_step=batch_size)

    def step_done(self, step: int) -> None:
        self.advance_to(step)

    def epoch_done(self, metrics: Mapping[str, float | None]) -> None:
        self.text = f"epoch {metrics['epoch']:.0f}/{self.n_epochs}: {self.measured(metrics)}"
        self.describe(self.text)

    def measured(self, metrics: Mapping[str, float | None]) -> str:
        """Losses and errors in words; an error that was not measured stays the last one."""
        if (error := metrics["val_error_percent"]) is not None:
            self.validation_error = f"{error:.2f} % (epoch {metrics['epoch']:.0f})"
        return f"train loss {metrics['train_loss']:.3f}, validation error {self.validation_error}"


class TensorBoardLogger(SearchCallback):
    """Writes TensorBoard events into a folder: losses, errors and the policy, such as `Rotate/1/magnitude`.

    Steps are epochs, counted from 1. A resumed search replaces the events of the epochs that it repeats. Raises
    SettingsError if tensorboard is not installed.
    """

    def __init__(self, folder: str | Path) -> None:
        self._folder, self._writer_class = str(folder), event_writer_class()

    def planned(self, plan: Any) -> None:
        self._writer = self._writer_class(self._folder, purge_step=plan.epochs_done + 1)

    def policy_noted(self, epoch: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name.replace(".", "/"), value, epoch)

    def epoch_done(self, metrics: Mapping[str, float | None]) -> None:
        for name, value in metrics.items():
            if value is not None and name != "epoch":
                self._writer.add_scalar(f"search/{name}", value, int(metrics["epoch"] or 0))
        self._writer.flush()

    def search_ended(self, result: SearchResult) -> None:
        self._writer.close()
