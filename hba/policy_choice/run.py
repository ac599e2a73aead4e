"""A run of `hba auto` in its folder: its record, its time and its phases."""

import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from hba.data.load import AnyDataset
from hba.errors import HbaError, RunError
from hba.policy.space import SearchSpace
from hba.policy_choice.callbacks import AutoCallback, PhaseProgress
from hba.policy_choice.extent import Extent
from hba.policy_choice.images import RunImages
from hba.policy_choice.record import AutoRecord
from hba.policy_search.timing import (
    FEWEST_EPOCHS,
    Pace,
    fewer_epochs,
    is_late,
    share_that_fits,
)
from hba.policy_search.trainer import SAVE_EVERY_SECONDS
from hba.results.evaluation import RESULTS_NAME, EvaluationResult, read_results
from hba.results.run import SEARCH_FOLDER, TEST_FOLDER
from hba.schedule.library import POLICY_NAME
from hba.schedule.schedule import Schedule
from hba.training.custom_network import CustomNetwork
from hba.training.onnx_file import can_write_onnx
from hba.utils.text import counted, duration

RESERVE = 0.96
"""Share of the time to plan with during a run; the rest is for the report."""
SECONDS_OF_PHASE = 4.0
"""Seconds for the start of a phase's processes."""
ONNX_SECONDS = 20.0
"""Seconds that network.onnx takes on an idle core, almost all of them in PyTorch's
exporter.
"""
LEAST_SECONDS_FOR_ONNX = 300.0
"""The shortest budget of a run that writes network.onnx."""


@dataclass(frozen=True)
class Phase:
    """A phase of a run. It can stop at any time, and resumes at the same point."""

    name: str
    """Its name in the record, and in the progress."""
    trainings: Callable[[Extent, int], float]
    """Maps the extent of a run, and how many trainings run at a time, to the time of
    the phase in multiples of one of several parallel trainings.
    """
    do: Callable[["AutoRun"], None]
    """Does what is still to do of it. It stores its results in the record, and in files
    of the run.
    """
    can_continue: bool = False
    """Whether a resumed run continues it after Ctrl-C or an error, which no earlier
    phase can because later ones use what it had reached. An error then ends the run
    with an answer from the phases before it.
    """


class AutoRun:
    """A run in its folder.

    Args:
        folder: The folder.
        record: What is planned and done.
        callback: Called during the run.
        phases: All phases, in order.
        network: The user's own network, if any.
        space: The user's own search space, if any.
        cluster: The address of a Ray cluster, if any.
        datasets: Training and test data in memory; None for images in files.
    """

    def __init__(
        self,
        folder: Path,
        record: AutoRecord,
        callback: AutoCallback,
        phases: Sequence[Phase],
        *,
        network: nn.Module | None = None,
        space: SearchSpace | None = None,
        cluster: str | None = None,
        datasets: tuple[AnyDataset, AnyDataset] | None = None,
    ) -> None:
        self.folder = folder
        self.record = record
        self.callback = callback
        self.phases = phases
        self.network = network
        self.space = space
        self.cluster = cluster
        self.datasets = datasets
        self.images = RunImages(
            record.data,
            datasets,
            in_color=network is None,
            on_read=callback.images_read,
        )
        self._began = time.monotonic()
        self._spent_before = record.spent
        self._lock = threading.Lock()
        trainings = trainings_of_phases(phases, record.extent, record.n_jobs)
        self.progress = PhaseProgress(
            callback,
            {name: n * record.training_seconds for name, n in trainings.items()},
        )

    @property
    def custom_network(self) -> CustomNetwork | None:
        """The user's own network, as trainings take it."""
        return None if self.network is None else CustomNetwork(self.network)

    @property
    def components(self) -> dict[str, Any]:
        """The user's own network and search space, as hba.search takes them."""
        components = {"network": self.network, "space": self.space}
        return {
            name: component
            for name, component in components.items()
            if component is not None
        }

    def note(self, **changes: Any) -> None:
        """Change the record, and save it."""
        with self._lock:
            self.record = self.record.model_copy(
                update={**changes, "spent": round(self.seconds_spent(), 1)}
            )
            self.record.save(self.folder)

    def note_sentence(self, sentence: str) -> None:
        """Add a sentence for the user to the record."""
        self.note(notes=tuple(dict.fromkeys([*self.record.notes, sentence])))

    def save_time(self, is_over: threading.Event) -> None:
        """Save the spent time every few seconds until the event, in case of a kill."""
        while not is_over.wait(SAVE_EVERY_SECONDS):
            with contextlib.suppress(RunError):
                self.note()

    # Phases

    def do_phases(self) -> None:
        """Do all phases that have not ended. Ctrl-C ends the current phase, and the
        next one starts.
        """
        for phase in self.phases:
            if phase.name not in self.record.ended:
                self._do(phase)

    def _do(self, phase: Phase) -> None:
        self._forget_stop_of(phase)
        try:
            self.images.check_unchanged(self.record.settings, self.record.counts)
            phase.do(self)
            self.note(ended=(*self.record.ended, phase.name))
        except KeyboardInterrupt:
            self._stop(phase, "by Ctrl-C")
        except HbaError as error:
            if not phase.can_continue:
                raise
            self._stop(phase, f"by an error: {error}")

    def _forget_stop_of(self, phase: Phase) -> None:
        """An earlier stop of the phase is over."""
        self.note(
            stopped=tuple(name for name in self.record.stopped if name != phase.name),
            notes=tuple(
                note
                for note in self.record.notes
                if not note.startswith(_stop_of(phase))
            ),
        )

    def _stop(self, phase: Phase, reason: str) -> None:
        """End a phase early."""
        line = f"{_stop_of(phase)}{reason}; the answer uses the results so far"
        self.callback.said(line)
        ended = self.record.ended
        if not phase.can_continue:
            ended = (*ended, phase.name)
        # On a full disk, the answer is still given.
        with contextlib.suppress(RunError):
            self.note(
                ended=ended,
                stopped=(*self.record.stopped, phase.name),
                notes=(*self.record.notes, line),
            )

    # Time

    def seconds_spent(self) -> float:
        """Seconds of all calls so far."""
        return self._spent_before + time.monotonic() - self._began

    def clock(self) -> str:
        """The spent time in words, such as `40 s of 2 min`."""
        budget = duration(self.record.budget_seconds)
        return f"{duration(self.seconds_spent())} of {budget}"

    @property
    def seconds_left(self) -> float:
        """Seconds until the files of the run have to be written."""
        budget = self.record.budget_seconds
        return RESERVE * budget - seconds_for_onnx(budget) - self.seconds_spent()

    @property
    def seconds_for_trainings(self) -> float:
        """seconds_left without the time in which the linear layer is tested."""
        best = self.record.best_linear
        if best is None or best.test_percent is not None:
            return self.seconds_left
        return self.seconds_left - best.seconds

    def trainings_after(self, phase: str) -> float:
        """The time of all phases after this one, in trainings."""
        trainings = trainings_of_phases(
            self.phases, self.record.extent, self.record.n_jobs
        )
        names = [*trainings]
        return sum(trainings[name] for name in names[names.index(phase) + 1 :])

    def n_phases_after(self, phase: str) -> int:
        """How many phases come after this one."""
        names = [other.name for other in self.phases]
        return len(names) - names.index(phase) - 1

    def has_time_for(self, n_trainings: float) -> bool:
        """Whether so many trainings end in time."""
        return n_trainings * self.record.training_seconds < self.seconds_for_trainings

    def _may_shorten(self, epochs: int) -> bool:
        """Whether trainings of so many epochs may get fewer."""
        return not self.record.has_given_epochs and epochs > FEWEST_EPOCHS

    def pace(
        self, n_trainings: int, n_steps: int, epochs: int, following: float
    ) -> Pace | None:
        """The pace of trainings; None if they cannot get fewer epochs.

        Args:
            n_trainings: How many there are.
            n_steps: Steps of all of them.
            epochs: Epochs of the longest.
            following: The time of what follows, in multiples of one of them.
        """
        if not self._may_shorten(epochs):
            return None
        return Pace(
            n_trainings,
            n_steps,
            self.record.n_jobs,
            self.seconds_for_trainings,
            following,
        )

    def is_late(self, n_trainings: float) -> bool:
        """Whether so many trainings do not fit into the time that is left, but would
        with fewer epochs.
        """
        return self._may_shorten(self.record.settings["epochs"]) and is_late(
            n_trainings, self.record.training_seconds, self.seconds_for_trainings
        )

    def shorten(self, n_trainings: float) -> None:
        """Choose as many epochs as let so many trainings fit into the time that is
        left.
        """
        epochs = self.record.settings["epochs"]
        seconds = self.record.training_seconds
        fewer = fewer_epochs(
            epochs, share_that_fits(n_trainings, seconds, self.seconds_for_trainings)
        )
        self.note(
            settings={**self.record.settings, "epochs": fewer},
            training_seconds=max(seconds * fewer / epochs, 1e-3),
        )
        self.say_shortened(f"{counted(fewer, 'epoch')} instead of {epochs}")

    def say_shortened(self, epochs: str) -> None:
        """Tell the user that trainings have fewer epochs, which are given in words."""
        self.callback.said(
            f"Trainings take longer than planned, and now have {epochs}"
            f" ({self.clock()})"
        )

    # Results in files

    def read_found(self) -> Schedule | None:
        """Read the schedule of the search so far."""
        path = self.folder / SEARCH_FOLDER / POLICY_NAME
        return Schedule.load(path) if path.exists() else None

    def read_results(self) -> EvaluationResult | None:
        """Read the test so far; None before its first training has ended."""
        path = self.folder / TEST_FOLDER / RESULTS_NAME
        return read_results(path) if path.exists() else None


def _stop_of(phase: Phase) -> str:
    """The first words of the note on a stop."""
    return f"The {phase.name} was stopped "


def trainings_of_phases(
    phases: Sequence[Phase], extent: Extent, n_jobs: int
) -> Mapping[str, float]:
    """The time of each phase, in multiples of one of several parallel trainings.

    Args:
        phases: The phases, in order.
        extent: How much the run does.
        n_jobs: How many trainings run at a time.
    """
    return {phase.name: phase.trainings(extent, n_jobs) for phase in phases}


def seconds_for_onnx(budget: float) -> float:
    """Seconds of the budget that are kept for network.onnx; 0 if it is not written."""
    return (
        ONNX_SECONDS if budget >= LEAST_SECONDS_FOR_ONNX and can_write_onnx() else 0.0
    )
