"""TensorBoard events of a search: losses, errors, the policy, and a grid of augmented images."""

from collections.abc import Mapping
from pathlib import Path

from hba.policy_search.observer import SearchObserver
from hba.policy_search.plan import SearchPlan
from hba.policy_search.result import SearchResult
from hba.report.pictures import grid
from hba.report.samples import SAMPLES_NAME, Samples
from hba.runtime.event_files import EventFiles


class TensorBoardLogger(SearchObserver):
    """Writes events into a folder. Steps are epochs, counted from 1.

    A resumed search replaces the events of the epochs that it does again. What cannot be written is told once, by a
    ReportWarning, and ends the events, not the search. Raises SettingsError where tensorboard is not installed.
    """

    def __init__(self, folder: str | Path) -> None:
        self._events = EventFiles(folder, "search")

    def planned(self, plan: SearchPlan) -> None:
        self._events.begin(purge_step=plan.epochs_done + 1)

    def policy_noted(self, epoch: int, values: Mapping[str, float]) -> None:
        # `Rotate.1.magnitude` as `magnitude/Rotate.1`: TensorBoard puts side by side what begins alike.
        self._events.scalars({"/".join(name.rsplit(".", 1)[::-1]): value for name, value in values.items()}, epoch)

    def epoch_done(self, metrics: Mapping[str, float | None]) -> None:
        measured = {f"search/{name}": value for name, value in metrics.items() if value is not None and name != "epoch"}
        self._events.scalars(measured, int(metrics["epoch"] or 0))

    def search_ended(self, result: SearchResult) -> None:
        """With the images that the run has kept for its report, where it has a folder."""
        samples = None if result.folder is None else result.folder / SAMPLES_NAME
        if result.schedule is not None and samples is not None and samples.exists():
            self._events.image("augmented", grid(result.schedule, Samples.load(samples)), result.schedule.epochs)
        self._events.end()
