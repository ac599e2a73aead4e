"""TensorBoard events of a search: losses, errors, the policy, and a grid of augmented images."""

from collections.abc import Container, Mapping
from pathlib import Path

from hba.policy_search.callbacks import SearchCallback
from hba.policy_search.plan import SearchPlan
from hba.policy_search.result import SearchResult
from hba.report.samples import SAMPLES_NAME, Samples, grid
from hba.schedule.pictures import is_seen
from hba.utils.tensorboard import EventFiles


class TensorBoardLogger(SearchCallback):
    """Writes events into a folder. Steps are epochs, counted from 1.

    A resumed search replaces the events of the epochs that it does again. What cannot be written is told once, by a
    ReportWarning, and ends the events, not the search. Raises SettingsError where tensorboard is not installed.
    """

    def __init__(self, folder: str | Path) -> None:
        self._events = EventFiles(folder, "search")
        self._regularizers: Container[str] = ()

    def planned(self, plan: SearchPlan) -> None:
        self._regularizers = plan.regularizers
        self._events.begin(purge_step=plan.epochs_done + 1)

    def policy_noted(self, epoch: int, values: Mapping[str, float]) -> None:
        self._events.scalars({self._tag(name): value for name, value in values.items()}, epoch)

    def _tag(self, name: str) -> str:
        """`Rotate.1.magnitude` as `magnitude/Rotate.1`, `dropout.fc1` as `regularizer/dropout.fc1`: TensorBoard puts
        side by side what begins alike.
        """
        return f"regularizer/{name}" if name in self._regularizers else "/".join(name.rsplit(".", 1)[::-1])

    def epoch_done(self, metrics: Mapping[str, float | None]) -> None:
        measured = {f"search/{name}": value for name, value in metrics.items() if value is not None and name != "epoch"}
        self._events.scalars(measured, int(metrics["epoch"] or 0))

    def search_ended(self, result: SearchResult) -> None:
        """With the images that the run has kept for its report, where it has a folder."""
        samples = None if result.folder is None else result.folder / SAMPLES_NAME
        schedule = result.schedule
        if schedule is not None and is_seen(schedule.space) and samples is not None and samples.exists():
            self._events.image("augmented", grid(schedule, Samples.load(samples)), schedule.epochs)
        self._events.end()
