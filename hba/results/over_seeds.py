"""Statistics of searches that differ only in their seed: means over seeds, and how much
the searches agree.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hba.algorithms.race_findings import RaceFindings, has_ended
from hba.errors import RunError
from hba.results.provenance import network_measured
from hba.schedule.library import POLICY_NAME, PREFIX, seed_folders
from hba.schedule.schedule import Schedule
from hba.schedule.summary import changes, reach, summarize_regularizers
from hba.utils.text import counted, interval_of_mean


@dataclass(frozen=True)
class Over:
    """Numbers of one kind, one for each seed."""

    mean: float
    std: float
    interval: tuple[float, float]
    """Interval of the mean at 95 % confidence, by Student's t."""
    each: tuple[float, ...]
    """The numbers."""

    @staticmethod
    def of(values: Sequence[float]) -> "Over":
        """From at least two values."""
        return Over(
            statistics.fmean(values),
            statistics.stdev(values),
            interval_of_mean(values),
            tuple(values),
        )


@dataclass(frozen=True)
class OperationOverSeeds:
    """An operation in the last epoch, over all its copies."""

    name: str
    stage: str
    unit: str | None
    """Unit of the magnitude."""
    share: Over
    """Share of images that get it, in [0, 1]; of batches in the stage mixing."""
    probability: Over
    probability_moved: Over
    """Change of the probability since the search began."""
    magnitude: Over | None
    """Magnitude in `unit`; None without magnitude."""

    @property
    def moved_alike(self) -> bool:
        """Whether searches agree on the direction in which its probability moved."""
        low, high = self.probability_moved.interval
        return low > 0 or high < 0


@dataclass(frozen=True)
class OverSeeds:
    """Searches that differ only in their seed."""

    schedules: Mapping[int, Schedule]
    """The schedules by seed, at least two, of one search space."""
    operations: tuple[OperationOverSeeds, ...]
    """The operations, sorted by share of images, largest first."""
    regularizers: Mapping[str, Over]
    """Values of regularizers in the last epoch, by name."""
    val_error_percent: Over | None
    """Validation error of the search networks; None if any lacks it."""
    left_out: tuple[str, ...] = ()
    """Folders of searches that have not ended."""

    @staticmethod
    def read(folder: Path) -> "OverSeeds":
        """Read the searches in a folder that have ended. Raises RunError if there are
        fewer than two.
        """
        schedules = {}
        left_out = []
        for seed, path in sorted(seed_folders(folder).items()):
            file = path / POLICY_NAME
            schedule = Schedule.load(file) if file.exists() else None
            if schedule is not None and _has_ended(schedule):
                schedules[seed] = schedule
            else:
                left_out.append(f"{PREFIX}{seed}")
        if len(schedules) < 2:
            raise RunError(
                f"{folder} must hold two searches or more that have ended, but has"
                f" {len(schedules)}"
            )
        return OverSeeds.of(schedules, tuple(left_out))

    @staticmethod
    def of(
        schedules: Mapping[int, Schedule], left_out: tuple[str, ...] = ()
    ) -> "OverSeeds":
        """Combine schedules. Raises RunError unless they have the same search space and
        the same length.
        """
        of_seeds = list(schedules.values())
        if len({(each.space.names, each.epochs) for each in of_seeds}) > 1:
            raise RunError(
                "schedules that are combined must have the same search space and the"
                " same number of epochs"
            )
        errors = [
            error
            for schedule in of_seeds
            for error in network_measured(schedule.provenance).values()
        ]
        regularizers = {
            of_regularizer[0].hyperparameter.name: Over.of(
                [summary.values[-1] for summary in of_regularizer]
            )
            for of_regularizer in zip(
                *map(summarize_regularizers, of_seeds), strict=True
            )
        }
        error = Over.of(errors) if len(errors) == len(schedules) else None
        return OverSeeds(
            dict(schedules), _operations(of_seeds), regularizers, error, left_out
        )

    @property
    def agreement(self) -> float | None:
        """Spearman's correlation of how searches moved the probabilities of operations,
        as the mean of pairs of seeds: 1 is the same order, 0 is chance. None for fewer
        than three operations, or if a search moved none.
        """
        from scipy.stats import rankdata

        moves = [operation.probability_moved.each for operation in self.operations]
        if len(moves) < 3 or np.ptp(moves, axis=0).min() == 0:
            return None
        correlations = np.corrcoef(rankdata(moves, axis=0), rowvar=False)
        return float(correlations[np.triu_indices(len(correlations), 1)].mean())

    @property
    def sentences(self) -> tuple[str, ...]:
        sentences = []
        if self.left_out:
            left_out = ", ".join(self.left_out)
            sentences.append(f"Left out, because they have not ended: {left_out}.")
        races = {
            seed: RaceFindings.of(schedule.provenance)
            for seed, schedule in self.schedules.items()
        }
        sentences += [
            f"Seed {seed} {race.takes}."
            for seed, race in races.items()
            if race is not None
        ]
        if self.agreement is not None:
            sentences.append(
                f"{counted(len(self.schedules), 'search', 'searches')} agree by"
                f" {self.agreement:.2f} in how they moved the probabilities of"
                " operations (Spearman's correlation; 1 is the same order, 0 is"
                " chance)."
            )
        if self.operations and None in races.values():
            alike = ", ".join(
                operation.name for operation in self.operations if operation.moved_alike
            )
            sentences.append(
                "Probabilities that moved by more than seeds differ (separate 95 %"
                f" intervals): {alike or 'none'}; the changes of the others may be"
                " chance."
            )
        return tuple(sentences)


def _has_ended(schedule: Schedule) -> bool:
    origin = schedule.provenance
    if "legs" in origin:
        return has_ended(origin)
    settings = origin.get("settings") or {}
    return bool(settings.get("epochs", schedule.epochs) == schedule.epochs)


def _operations(schedules: Sequence[Schedule]) -> tuple[OperationOverSeeds, ...]:
    last = schedules[0].epochs - 1
    operations = []
    shares = [reach(schedule, last).shares for schedule in schedules]
    moves = [
        {change.operation.name: change for change in changes(schedule, last)}
        for schedule in schedules
    ]
    for operation in schedules[0].space.operations:
        name = operation.name
        each = [of_seed[name] for of_seed in moves]
        first = [change.probability[0] for change in each]
        probability = [change.probability[-1] for change in each]
        moved = [end - start for start, end in zip(first, probability, strict=True)]
        magnitudes = [
            change.magnitude[-1] for change in each if change.magnitude is not None
        ]
        operations.append(
            OperationOverSeeds(
                name,
                operation.stage,
                operation.unit,
                share=Over.of([of_seed[name] for of_seed in shares]),
                probability=Over.of(probability),
                probability_moved=Over.of(moved),
                magnitude=Over.of(magnitudes) if magnitudes else None,
            )
        )
    return tuple(sorted(operations, key=lambda operation: -operation.share.mean))
