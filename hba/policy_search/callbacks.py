"""Callbacks of a search, and their arguments, a plan and a result; a progress bar, and
TensorBoard events.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from hba.hypernet import HyperNetwork
from hba.schedule.schedule import Schedule
from hba.utils.graphs import StepCounts
from hba.utils.progress import ProgressBar, event_writer_class


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The plan of a search before its first step."""

    model: str
    """Name of the network, or the class of your own."""
    n_parameters: int
    """Number of parameters of the network."""
    device: str
    """The device."""
    epochs: int
    """Epochs of the search."""
    epochs_done: int
    """Finished epochs of a resumed search."""
    steps_per_epoch: int
    """Training steps of an epoch."""
    batch_size: int
    """Images of a training step, or the examples of another task."""
    policy_steps: int
    """Policy steps of all epochs."""
    folder: Path | None
    """Folder of the run."""
    notes: tuple[str, ...]
    """Sentences to read before the search begins."""
    regularizers: Mapping[str, float]
    """The tuned regularizers, by name, with their current values in natural units."""
    legs: tuple[tuple[str, int], ...] = ()
    """Name and epochs of each part of a race."""

    @property
    def leg_by_epoch(self) -> list[str]:
        """The name of each epoch's leg; empty for a search without legs."""
        return [name for name, epochs in self.legs for _ in range(epochs)]


@dataclass(frozen=True, kw_only=True)
class SearchPlan(Plan):
    """The plan of a search on images."""

    data: str
    """Name of the data."""
    class_names: tuple[str, ...]
    """Names of the classes."""
    train_images: int
    """Number of training images."""
    val_images: int
    """Number of validation images."""
    test_images: int | None
    """How many images of the folder or data set are left for the test; 0 if the test
    images are separate, None if unknown (images in memory).
    """
    left_out: int
    """Number of files that are not used."""
    threads: int
    """Threads of PyTorch on a CPU."""
    image_size: int
    """Side of the network's input in pixels."""
    operations: tuple[str, ...]
    """Names of the operations."""


@dataclass(frozen=True)
class SearchResult:
    """The result of a search."""

    schedule: Schedule | None = field(repr=False)
    """A policy for each finished epoch; None before the first."""
    metrics: tuple[Mapping[str, float | None], ...] = field(repr=False)
    """One mapping for each finished epoch."""
    finished: bool
    """False if a callback stopped the search."""
    network: nn.Module = field(repr=False)
    """The trained network for `lam`."""
    hypernetwork: HyperNetwork | None = field(repr=False)
    """hypernetwork.to_module(lam) returns the network for any other lam; None for
    algorithms without one, such as `lookahead` and `population`.
    """
    lam: Tensor = field(repr=False)
    """The final hyperparameters (n,), as logits."""
    folder: Path | None
    """Folder of the run."""
    notes: tuple[str, ...] = field(default=(), repr=False)
    """The sentences of SearchPlan.notes."""
    report: Path | None = None
    """The page in the folder; None without a folder or a finished epoch, and if it
    failed.
    """
    steps: StepCounts | None = field(default=None, repr=False)
    """On a GPU, how the steps ran."""


class SearchCallback:
    """Override the methods that you need; the defaults do nothing. All are called in
    the thread of the search.
    """

    def images_read(self, done: int, total: int) -> None:
        """Called when `done` of `total` images have been read."""

    def planned(self, plan: Any) -> None:
        """Called before the training. plan: a Plan, for images a SearchPlan."""

    def started(
        self, step: int, total_steps: int, batch_size: int, n_epochs: int
    ) -> None:
        """Called before the first step.

        Args:
            step: The number of steps done, above 0 for a resumed search.
            total_steps: Steps of the whole search.
            batch_size: Images of a step, or the examples of another task.
            n_epochs: Epochs of the whole search.
        """

    def step_done(self, step: int) -> None:
        """Called after training step `step`, counted from 1, and its policy steps."""

    def policy_noted(self, epoch: int, values: Mapping[str, float]) -> None:
        """Called after an epoch.

        Args:
            epoch: The epoch, counted from 1.
            values: Values in natural units by name, such as `Rotate.1.magnitude`.
        """

    def epoch_done(self, metrics: Mapping[str, float | None]) -> None:
        """Called after an epoch.

        Args:
            metrics: Metrics with the keys of metrics.csv; None if this epoch did not
                measure a value.
        """

    def stop_requested(self) -> bool:
        """Return True to end the search before its next step, with everything saved."""
        return False

    def search_ended(self, result: SearchResult) -> None:
        """Called after the last step or a stop. All is saved, including the report."""


class SearchProgress(ProgressBar, SearchCallback):
    """A progress bar in a terminal or a notebook, as a context manager: for reading
    images, then for training steps.

    `text` describes the last epoch.
    """

    unit = "images"

    def __init__(self) -> None:
        super().__init__()
        self.n_epochs = 0
        self.text = ""
        self.legs: list[str] = []

    def planned(self, plan: Any) -> None:
        self.legs = plan.leg_by_epoch
        for note in plan.notes:
            self.say(note)

    def started(
        self, step: int, total_steps: int, batch_size: int, n_epochs: int
    ) -> None:
        self.n_epochs = n_epochs
        self.show_work("first epoch", step, total_steps, self.unit, per_step=batch_size)

    def step_done(self, step: int) -> None:
        self.advance_to(step)

    def epoch_done(self, metrics: Mapping[str, float | None]) -> None:
        epoch = int(metrics["epoch"] or 0)
        leg = f" ({self.legs[epoch - 1]})" if self.legs else ""
        self.text = f"epoch {epoch}/{self.n_epochs}{leg}: {self.measured(metrics)}"
        self.describe(self.text)

    def measured(self, metrics: Mapping[str, float | None]) -> str:
        """Losses and errors of this epoch in words."""
        error = metrics["val_error_percent"]
        of_validation = "" if error is None else f", validation error {error:.2f} %"
        return f"train loss {metrics['train_loss']:.3f}{of_validation}"


class TensorBoardLogger(SearchCallback):
    """Writes TensorBoard events into a folder: losses, errors and the policy, such as
    `Rotate/1/magnitude`.

    Steps are epochs from 1. A resumed search replaces epochs that it repeats. Raises
    SettingsError without tensorboard.
    """

    def __init__(self, folder: str | Path) -> None:
        self._folder = str(folder)
        self._writer_class = event_writer_class()

    def planned(self, plan: Any) -> None:
        self._writer = self._writer_class(self._folder, purge_step=plan.epochs_done + 1)

    def policy_noted(self, epoch: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name.replace(".", "/"), value, epoch)

    def epoch_done(self, metrics: Mapping[str, float | None]) -> None:
        for name, value in metrics.items():
            if value is not None and name != "epoch":
                self._writer.add_scalar(
                    f"search/{name}", value, int(metrics["epoch"] or 0)
                )
        self._writer.flush()

    def search_ended(self, result: SearchResult) -> None:
        self._writer.close()
