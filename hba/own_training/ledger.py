"""trainings.json: the trainings of a contest so far, as one record that is saved
atomically.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Self

import numpy as np
import pydantic

from hba.errors import RunError
from hba.utils.files import read_text, reason_of, write_text

LEDGER_NAME = "trainings.json"
"""The file of the record in the folder of a contest."""
REFERENCES = ("none", "randaugment")
"""The policies that the chosen one is compared with."""
FIRST_TEST_SEED = 1000
"""The first seed of the test; those of the race begin with 0."""


class Training(pydantic.BaseModel, frozen=True):
    """A training that has ended."""

    policy: str
    """Name of the policy."""
    seed: int
    effort: float
    """In (0, 1]; 1 is a whole training."""
    scores: tuple[float, ...]
    """Of each validation example; a single one for a whole validation set. Higher is
    better.
    """
    seconds: float
    """How long it took."""


class Ledger(pydantic.BaseModel, frozen=True):
    """The trainings of a contest."""

    definitions: dict[str, str]
    """By name of a policy, a string that is equal for policies that do the same."""
    budget_seconds: float
    trainings: tuple[Training, ...] = ()
    spent: float = 0.0
    """Seconds of all calls so far."""
    n_policies: int | None = None
    """How many policies are in the race, once it is decided."""
    chosen: str | None = None
    """Name of the chosen policy, once it is decided."""
    is_tested: bool = False
    """Whether the test has ended, so that no seeds may be added to it."""

    def find(self, policy: str, seed: int, effort: float) -> Training | None:
        """The training with these, if it has ended."""
        wanted = policy, seed, effort
        return next(
            (
                training
                for training in self.trainings
                if (training.policy, training.seed, training.effort) == wanted
            ),
            None,
        )

    def has_all(self, policies: Iterable[str], seed: int) -> bool:
        """Whether whole trainings of these policies and this seed have all ended."""
        return all(self.find(policy, seed, 1.0) for policy in policies)

    def scores(self, policy: str, seeds: Iterable[int], effort: float) -> np.ndarray:
        """Scores (seeds, examples) of the seeds whose trainings have ended."""
        trainings = (self.find(policy, seed, effort) for seed in seeds)
        ended = [training.scores for training in trainings if training is not None]
        return np.array(ended, dtype=np.float64)

    @property
    def seeds_of_test(self) -> list[int]:
        """Seeds of the test whose trainings have all ended."""
        names = self.tested
        seeds = {training.seed for training in self.trainings}
        return [
            seed
            for seed in sorted(seeds)
            if seed >= FIRST_TEST_SEED and self.has_all(names, seed)
        ]

    @property
    def seeds_of_race(self) -> list[int]:
        """Seeds of the race so far."""
        seeds = {training.seed for training in self.trainings}
        return sorted(seed for seed in seeds if seed < FIRST_TEST_SEED)

    @property
    def tested(self) -> list[str]:
        """The policies of the test: the chosen one, and the references."""
        chosen = [] if self.chosen is None else [self.chosen]
        return [*dict.fromkeys([*chosen, *REFERENCES])]

    @property
    def seconds_of_training(self) -> float:
        """Seconds of a whole training: the mean of those with the largest effort so
        far, in proportion to the effort. The first training of all does not count,
        because it loads and compiles what the others use.
        """
        counted = self.trainings[1:] or self.trainings
        most = max((training.effort for training in counted), default=1.0)
        seconds = [training.seconds for training in counted if training.effort == most]
        return float(np.mean(seconds)) / most if seconds else 0.0

    def save(self, folder: Path) -> None:
        write_text(folder / LEDGER_NAME, json.dumps(self.model_dump(), indent=1) + "\n")

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the record in a folder.

        Raises:
            RunError: If there is none, or a broken one.
        """
        path = folder / LEDGER_NAME
        try:
            return cls.model_validate(json.loads(read_text(path)))
        except Exception as error:
            raise RunError(
                f"{path} is not the record of a contest: {reason_of(error)}"
            ) from None
