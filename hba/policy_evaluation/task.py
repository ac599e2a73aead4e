"""All that is known of an evaluation before it is decided what runs where, and what tells its trainings apart."""

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from hba.config.evaluation import EvaluationConfig
from hba.data.images import EvaluationData
from hba.distributed.collectives import check_alike
from hba.distributed.process_info import size
from hba.errors import SavesWarning
from hba.policy_evaluation.contenders import Contender
from hba.policy_evaluation.jobs import Job
from hba.policy_evaluation.searched import Searched
from hba.policy_evaluation.stored import FREE_SETTINGS
from hba.report.results import Results
from hba.schedule.schedule import Schedule
from hba.training.checkpoint import TRAININGS_NAME, TrainCheckpoint
from hba.utils.text import counted


@dataclass(frozen=True)
class Task:
    """data: where they were read. stored: the evaluation that is resumed."""

    schedule: Schedule
    config: EvaluationConfig
    data: EvaluationData
    everyone: tuple[Contender, ...]
    folder: Path | None
    stored: Results | None
    inherited: Mapping[str, Any]
    inherited_from: str
    searched: tuple[Searched, ...]
    notes: tuple[str, ...]

    @cached_property
    def own_network(self) -> str | None:
        """What tells the user's own network from others."""
        return definition_of(self.everyone)

    @property
    def n_trainings(self) -> int:
        """Of the whole evaluation, also those that have ended before."""
        return len(self.everyone) * self.config.seeds

    @property
    def is_whole(self) -> bool:
        """Whether all its trainings have ended before."""
        names = [one.name for one in self.everyone]
        return self.stored is not None and self.stored.holds(names, self.config.training_seeds)

    def saves_of(self, images: str, made_on: str, training: Job) -> TrainCheckpoint:
        """Where a training is saved on its way. What it is of must be the same when it goes on, to the same numbers.

        images: their fingerprint.
        """
        if self.folder is None:
            return TrainCheckpoint(None, "")
        told = (*self._told_of(training.contender), images, made_on, str(training.seed))
        # Processes on other machines begin in another folder.
        return TrainCheckpoint.in_folder(self.folder.absolute() / TRAININGS_NAME, told)

    def tell_of_other_saves(self, expected: Sequence[TrainCheckpoint]) -> None:
        """Warn of trainings that were saved, and that are not among those that are to be done now."""
        known = {saves.path for saves in expected}
        kept = [] if self.folder is None else (self.folder.absolute() / TRAININGS_NAME).glob("*.pt")
        found = [path for path in kept if path not in known]
        if found:
            warnings.warn(
                f"{counted(len(found), 'training')} saved in {self.folder} on the way cannot be gone on with: "
                "settings, images, rows or the number of threads are others now",
                SavesWarning,
                stacklevel=2,
            )

    def check_processes_alike(self) -> None:
        """SettingsError where the processes of one computation would do different trainings."""
        if size() > 1:
            rows = [self._told_of(contender) for contender in self.everyone]
            told = json.dumps([*rows, [*self.config.training_seeds]])
            check_alike({"training images": self.data.train.fingerprint(), "rows or settings": told})

    def _told_of(self, contender: Contender) -> tuple[str, ...]:
        """All that decides what a row finds but the images, and what it is made on."""
        weights = None if contender.start is None else contender.start.pretrained.sha256
        settings = contender.config.model_dump_json(exclude={*FREE_SETTINGS, "first_seed", "data", "device"})
        return settings, contender.name, contender.definition, str(self.own_network), str(weights)


def definition_of(everyone: Sequence[Contender]) -> str | None:
    """Of the user's own network, which all rows share."""
    own_network = everyone[0].own_network
    return None if own_network is None else own_network.definition
