"""auto.json: the plan and the decisions of a run of `hba auto`, as one record that is
saved atomically.
"""

import json
import os
import shlex
from pathlib import Path
from typing import Any, Self

import pydantic

from hba.errors import RunError
from hba.models.timm_networks import frozen_in_words
from hba.policy_search.training_size import TrainingSize
from hba.results.run import AUTO_NAME
from hba.utils.files import read_text, reason_of, write_text

NETWORK = "network"
SEARCH = "search"
CONTEST = "contest"
TEST = "test"
PHASES = (NETWORK, SEARCH, CONTEST, TEST)
"""The phases of a run, in order."""
FAR_SHARE = 0.4
"""Share of the error of guessing that remains with features of networks that were
trained on other kinds of images.
"""


class Candidate(TrainingSize, frozen=True):
    """A network, image size and epochs to choose from.

    loss, error_percent: of a training with RandAugment on validation images,
    calibrated, in nats. took: its seconds.
    """

    loss: float | None = None
    error_percent: float | None = None
    took: float | None = None

    @property
    def name(self) -> str:
        """In words, such as `wrn-10-1 at 16 pixels (random weights)`."""
        how = (
            f"pretrained{frozen_in_words(self.settings)}"
            if self.settings.get("pretrained")
            else "random weights"
        )
        return (
            f"{self.settings['model']} at {self.settings['image_size']} pixels ({how})"
        )


class LinearResult(pydantic.BaseModel, frozen=True):
    """The error in per cent of a linear layer on frozen features: cross-validated, and
    of the test if it was measured.

    guess_percent: the error of guessing the most frequent class. balanced_percent: the
    mean test error over the classes. seconds: for features and layer.
    """

    model: str
    source: str
    side: int
    error_percent: float
    guess_percent: float
    seconds: float
    test_percent: float | None = None
    balanced_percent: float | None = None

    @property
    def is_far(self) -> bool:
        """Whether the features tell little, as for images unlike those that the network
        was trained on.
        """
        return self.error_percent > FAR_SHARE * self.guess_percent

    @property
    def name(self) -> str:
        return (
            f"a linear layer on frozen features of {self.model} at {self.side} pixels"
        )


class AutoRecord(pydantic.BaseModel, frozen=True):
    """Everything that a run needs to resume, and that its report shows.

    data: a path or a name. n_images: for training and validation. counts: number of
    images of each class. settings: of the search. has_given_epochs: whether the user
    has chosen the epochs, which otherwise may change during the run. of_test: settings
    for the test only. n_jobs: trainings at a time. extent: the fields of an Extent.
    candidates: the networks to choose from; none if there is one only, which settings
    then contain. linear: linear layers on frozen features. network: the number of the
    chosen candidate. training_seconds: of one training, as planned and later as
    measured. plan: a sentence for each choice. command: repeats the run. spent: seconds
    of all calls so far. test_seeds: their number, once it is decided. rows: the table
    of the contest. chosen: the name of the chosen row. image_ms: milliseconds in which
    the kept network predicts an image. answer: what to use, and how sure that is.
    notes: sentences for the user. ended: phases that will not continue. stopped: phases
    that Ctrl-C or an error has ended.
    """

    version: int = 1
    data: str
    n_images: int
    counts: dict[str, int]
    settings: dict[str, Any]
    has_given_epochs: bool
    of_test: dict[str, Any]
    budget_seconds: float
    n_jobs: int
    extent: tuple[int | float, ...]
    candidates: tuple[Candidate, ...] = ()
    linear: tuple[LinearResult, ...] = ()
    network: int | None = None
    training_seconds: float
    plan: tuple[str, ...]
    command: str
    spent: float = 0.0
    test_seeds: int | None = None
    rows: tuple[dict[str, Any], ...] = ()
    chosen: str | None = None
    image_ms: float | None = None
    notes: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()
    stopped: tuple[str, ...] = ()

    @property
    def is_ended(self) -> bool:
        """Whether all phases have ended, so that a resumed run trains nothing."""
        return {*PHASES} <= {*self.ended}

    def with_budget(self, seconds: float, sentence: str) -> Self:
        """The record with another budget, also in its plan and its command.

        sentence: the budget in words.
        """
        if seconds == self.budget_seconds:
            return self
        parts = shlex.split(self.command)
        place = parts.index("--budget") if "--budget" in parts else len(parts)
        parts[place : place + 2] = ["--budget", f"{seconds:g}s"]
        changes = {"command": shlex.join(parts), "plan": (sentence, *self.plan[1:])}
        return self.model_copy(update={**changes, "budget_seconds": seconds})

    def at_data(self, data: str) -> Self:
        """The record with another path of its data, also in its command."""
        if data == self.data:
            return self
        program, subcommand, *options = shlex.split(self.command)
        if options and not options[0].startswith("--"):
            options = options[1:]
        command = shlex.join([program, subcommand, data, *options])
        return self.model_copy(update={"data": data, "command": command})

    @property
    def best_linear(self) -> LinearResult | None:
        """The linear layer with the lowest cross-validated error."""
        return min(self.linear, key=lambda one: one.error_percent, default=None)

    def save(self, folder: Path) -> None:
        # Unlike pydantic, json also writes names that are no valid text.
        content = json.dumps(self.model_dump(), indent=2, default=os.fspath)
        write_text(folder / AUTO_NAME, content + "\n")

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the record in a folder. Raises RunError if the folder contains no run of
        `hba auto`, or a broken one.
        """
        path = folder / AUTO_NAME
        try:
            return cls.model_validate(json.loads(read_text(path)))
        except Exception as error:
            raise RunError(
                f"{path} is not the record of a run of hba auto: {reason_of(error)}"
            ) from None
