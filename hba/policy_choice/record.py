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
from hba.policy_choice.extent import Extent
from hba.policy_search.training_size import TrainingSize
from hba.results.run import AUTO_NAME
from hba.tasks import IMAGE_TASKS, ImageTask
from hba.tasks.task import ImageTaskName
from hba.utils.files import read_text, reason_of, write_text

FAR_SHARE = 0.4
"""Share of the error of guessing that remains with features of networks that were
trained on other kinds of images.
"""


class Candidate(TrainingSize, frozen=True):
    """A network, image size and epochs to choose from, and what a training with
    RandAugment has reached.
    """

    loss: float | None = None
    """Calibrated loss on validation images in nats; None before the training."""
    error_percent: float | None = None
    """Error on validation images in per cent."""
    took: float | None = None
    """Seconds of the training."""

    @property
    def name(self) -> str:
        """In words, such as `wrn-10-1 at 16 pixels (random weights)`."""
        weights = "random weights"
        if self.settings.get("pretrained"):
            weights = f"pretrained{frozen_in_words(self.settings)}"
        side = self.settings["image_size"]
        return f"{self.settings['model']} at {side} pixels ({weights})"


class LinearResult(pydantic.BaseModel, frozen=True):
    """The error of a linear layer on frozen features."""

    model: str
    """Name of the pretrained network."""
    source: str
    """Its weights, as the setting `pretrained`."""
    side: int
    """Side of images in pixels."""
    error_percent: float
    """Cross-validated error in per cent."""
    guess_percent: float
    """Error of guessing the most frequent class, in per cent."""
    seconds: float
    """Seconds for features and layer."""
    test_percent: float | None = None
    """Test error in per cent; None before the test."""
    balanced_percent: float | None = None
    """Mean test error over the classes in per cent, if an image has one class."""

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
    """Everything that a run needs to resume, and that its report shows."""

    version: int = 1
    data: str
    """A path or a name."""
    n_images: int
    """Number of images for training and validation."""
    counts: dict[str, int]
    """Number of images of each class, or of all if labels are masks; empty for data in
    memory.
    """
    task_name: ImageTaskName = "classification"
    """What labels mean."""
    settings: dict[str, Any]
    """Settings of the search."""
    has_given_epochs: bool
    """Whether the user has chosen the epochs, which otherwise may change during the
    run.
    """
    of_test: dict[str, Any]
    """Settings for the test only."""
    budget_seconds: float
    n_jobs: int
    """Trainings at a time."""
    extent: Extent
    """How much the run does."""
    candidates: tuple[Candidate, ...] = ()
    """The networks to choose from; none if there is one only, which settings then
    contain.
    """
    linear: tuple[LinearResult, ...] = ()
    """Linear layers on frozen features."""
    network: int | None = None
    """Number of the chosen candidate."""
    training_seconds: float
    """Seconds of one training, as planned and later as measured."""
    plan: tuple[str, ...]
    """A sentence for each choice."""
    command: str
    """Repeats the run."""
    spent: float = 0.0
    """Seconds of all calls so far."""
    test_seeds: int | None = None
    """Number of seeds of the test, once it is decided."""
    rows: tuple[dict[str, Any], ...] = ()
    """The table of the contest."""
    chosen: str | None = None
    """Name of the chosen row."""
    image_ms: float | None = None
    """Milliseconds in which the kept network predicts an image."""
    notes: tuple[str, ...] = ()
    """Sentences for the user."""
    ended: tuple[str, ...] = ()
    """Phases that will not continue."""
    stopped: tuple[str, ...] = ()
    """Phases that Ctrl-C or an error has ended."""

    def with_budget(self, seconds: float, sentence: str) -> Self:
        """The record with another budget, also in its plan and its command.

        Args:
            seconds: The budget.
            sentence: The budget in words.
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
    def task(self) -> ImageTask:
        """What labels mean."""
        return IMAGE_TASKS[self.task_name]

    @property
    def best_linear(self) -> LinearResult | None:
        """The linear layer with the lowest cross-validated error."""
        return min(self.linear, key=lambda layer: layer.error_percent, default=None)

    def save(self, folder: Path) -> None:
        # Unlike pydantic, json also writes names that are no valid text.
        content = json.dumps(self.model_dump(), indent=2, default=os.fspath)
        write_text(folder / AUTO_NAME, content + "\n")

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the record in a folder.

        Raises:
            RunError: If the folder contains no run of `hba auto`, or a broken one.
        """
        path = folder / AUTO_NAME
        try:
            return cls.model_validate(json.loads(read_text(path)))
        except Exception as error:
            raise RunError(
                f"{path} is not the record of a run of hba auto: {reason_of(error)}"
            ) from None
