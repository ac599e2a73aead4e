"""What an evaluation is about to do."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hba.config.evaluation import EvaluationConfig
from hba.policy_evaluation.searched import Searched


@dataclass(frozen=True)
class EvaluationPlan:
    """Known once the training images are read, before the first training.

    model: the network's name, by the settings, or the class of the user's own. device: such as cuda:0. test_images:
    None where only opening their file, after the training, will tell. left_out: files that are not used, as far as is
    known. rows: by name, the schedule's first. n_trainings: those still to do; n_kept: those that an earlier evaluation
    has done. steps_per_training: batches. jobs: trainings at a time. folder: of results.json. inherited: settings that
    come from the search, where that was on other data, which inherited_from names. searched: one for each row that is a
    schedule. notes: sentences that a user should read before the numbers.
    """

    config: EvaluationConfig
    model: str
    device: str
    class_names: tuple[str, ...]
    train_images: int
    test_images: int | None
    left_out: int
    rows: tuple[str, ...]
    n_trainings: int
    n_kept: int
    steps_per_training: int
    jobs: int
    folder: Path | None
    inherited: Mapping[str, Any]
    inherited_from: str
    searched: tuple[Searched, ...]
    notes: tuple[str, ...]
