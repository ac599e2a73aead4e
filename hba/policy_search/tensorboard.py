"""TensorBoard events of a search: losses, errors, the policy, and a grid of augmented images."""

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hba.errors import ReportWarning, SettingsError
from hba.policy_search.observer import SearchObserver
from hba.policy_search.plan import SearchPlan
from hba.policy_search.result import SearchResult
from hba.report.pictures import grid
from hba.report.samples import SAMPLES_NAME, Samples

FOLDER_NAME = "tensorboard"


class TensorBoardLogger(SearchObserver):
    """Writes events into a folder. Steps are epochs, counted from 1.

    A resumed search replaces the events of the epochs that it does again. What cannot be written is told once, by a
    ReportWarning, and ends the events, not the search. Raises SettingsError where tensorboard is not installed.
    """

    def __init__(self, folder: str | Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise SettingsError("tensorboard is not installed: pip install 'hba-augment[tensorboard]'") from None
        self._folder = Path(folder)
        self._open: Any = SummaryWriter
        self._writer: Any = None

    def planned(self, plan: SearchPlan) -> None:
        def open_it() -> None:
            self._writer = self._open(str(self._folder), purge_step=plan.epochs_done + 1)

        self._try(open_it)

    def policy_noted(self, epoch: int, values: Mapping[str, float]) -> None:
        # `Rotate.1.magnitude` as `magnitude/Rotate.1`: TensorBoard puts side by side what begins alike.
        self._scalars({"/".join(name.rsplit(".", 1)[::-1]): value for name, value in values.items()}, epoch)

    def epoch_done(self, metrics: Mapping[str, float | None]) -> None:
        measured = {f"search/{name}": value for name, value in metrics.items() if value is not None and name != "epoch"}
        self._scalars(measured, int(metrics["epoch"] or 0))

    def search_ended(self, result: SearchResult) -> None:
        """With the images that the run has kept for its report, where it has a folder."""
        samples = None if result.folder is None else result.folder / SAMPLES_NAME
        if result.schedule is not None and samples is not None and samples.exists():
            picture, epoch = grid(result.schedule, Samples.load(samples)), result.schedule.epochs
            self._try(lambda: self._writer.add_image("augmented", picture, epoch))
        self._try(lambda: self._writer.close())

    def _scalars(self, values: Mapping[str, float], epoch: int) -> None:
        def write() -> None:
            for name, value in values.items():
                self._writer.add_scalar(name, value, epoch)
            # An epoch that was told is there, whatever happens next.
            self._writer.flush()

        self._try(write)

    def _try(self, write: Callable[[], None]) -> None:
        if self._open is None:
            return
        try:
            write()
        except OSError as error:
            self._open = None
            warnings.warn(
                f"no more TensorBoard events are written into {self._folder}: {error.strerror or error}; the search "
                "goes on",
                ReportWarning,
                stacklevel=3,
            )
