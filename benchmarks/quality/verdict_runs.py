"""The verdict: fresh networks trained with what the default search found, and with everything it must beat.

Each training seed takes the schedule that the search of the same seed found, so that the spread has both in it. Only
here test splits are opened, after the last epoch, and nothing is chosen by what is measured.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reproduction.timing import training_seconds_per_step

from hba.config.evaluation import EvaluationConfig
from hba.config.search import SearchConfig
from hba.errors import SettingsError
from hba.policy_evaluation.contenders import RIVALS, Contender, contenders
from hba.policy_evaluation.trainings import Training, measured_error
from quality.beds import IMAGES
from quality.candidates import CANDIDATES, DEFAULT, PAPER
from quality.pool import Results
from quality.records import settings_of, training_settings_of
from quality.suite import STEPS_MEASURED, n_steps
from quality.whole_search import SearchTask, found_schedule

OTHERS = tuple(name for name in RIVALS if name != "middle")
"""The default search begins in the middle, so that `random` is that row."""

ROWS = (DEFAULT, *(name for name in CANDIDATES if name != DEFAULT), *OTHERS)
"""Of the table: the default search's schedule first, other candidates', and all that hba.evaluate knows by name."""

STANDARD_ROWS = (DEFAULT, PAPER, *OTHERS)
"""Without a choice of rows."""

OF_DEFAULT = ("shuffled", "static", "final")
"""Rivals that are made of what the default search found. The others stay as they are when the default is changed."""

TEST_ERROR = "test_error_percent"


@dataclass(frozen=True)
class VerdictTask:
    """A training by one row, which is its candidate. config: of the candidate's search; for a rival, of the default's.

    Training settings are the search's, on as many training images; work: the folder of run folders.
    """

    candidate: str
    config: SearchConfig
    work: Path

    @property
    def settings(self) -> Mapping[str, Any]:
        needs_search = self.candidate in CANDIDATES or self.candidate in OF_DEFAULT
        return settings_of(self.config) if needs_search else training_settings_of(self.config)

    @property
    def run(self) -> Mapping[str, Any]:
        return {"training_images": self.config.train_size, "seed": self.config.seed}

    @property
    def training_config(self) -> EvaluationConfig:
        """data is named, because the search may have been told it as a folder that has moved."""
        settings = {"data": self.config.data, "device": self.config.device, "train_size": self.config.train_size}
        return EvaluationConfig.like_search(self.config.model_dump(), settings)

    def estimated_seconds(self) -> float:
        """Without searches, and without the time of torchvision's policies."""
        config = self.training_config
        data = IMAGES.of_training(config, None)
        steps = n_steps(config.epochs, config.batch_size, len(data.train))
        return steps * training_seconds_per_step(config, data, STEPS_MEASURED)

    def contender(self) -> Contender:
        """The row, as hba.evaluate makes it of what the search of this seed found."""
        found = found_schedule(SearchTask(self.search, self.config, self.work))
        row = found if self.candidate in CANDIDATES else RIVALS[self.candidate]
        (contender,) = contenders({self.candidate: row}, found, self.training_config)
        return contender

    @property
    def search(self) -> str:
        """Name of the candidate whose search config has."""
        return self.candidate if self.candidate in CANDIDATES else DEFAULT


def rows_of(names: Sequence[str], config: EvaluationConfig) -> tuple[str, ...]:
    """The rows of these names, the default search first; without names the standard ones. Cutout is no other row where
    the baseline has it.
    """
    if unknown := set(names) - set(ROWS):
        raise SettingsError(f"unknown row {min(unknown)!r}; known: {', '.join(ROWS)}")
    rows = [row for row in ROWS if row in {*(names or STANDARD_ROWS), DEFAULT}]
    return tuple(row for row in rows if row != "cutout" or not config.baseline_augmentation().cutout_size)


def train_for_verdict(task: VerdictTask) -> Results:
    """Test error after the last epoch, and the training's seconds without those of the search."""
    contender = task.contender()
    data = IMAGES.of_training(task.training_config, None)
    began = time.monotonic()
    error_percent = measured_error(Training(contender, task.config.seed), data, lambda: None)
    return {TEST_ERROR: error_percent, "seconds": time.monotonic() - began}
