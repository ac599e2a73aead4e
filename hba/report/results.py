"""results.json, as a report and a resumed evaluation read it."""

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import pydantic

from hba.errors import RunError
from hba.training.metrics import Confusion, Counts
from hba.utils.files import read_text, reason_of
from hba.utils.settings import first_problem

RESULTS_NAME = "results.json"
"""The file of an evaluation's results in its folder."""

Percent = Annotated[float, pydantic.Field(ge=0, le=100, allow_inf_nan=False)]


Nats = Annotated[float, pydantic.Field(allow_inf_nan=False)]


class Difference(pydantic.BaseModel):
    """What the schedule has minus what a row has, in percentage points or in nats, with its 95 % interval."""

    n_pairs: int
    mean: float
    interval: tuple[float, float] | None


class Summary(pydantic.BaseModel):
    """What a row has of a number for each seed. schedule_minus_row: over the seeds that both have it of."""

    mean: float | None
    std: float | None
    schedule_minus_row: Difference | None = None


class BalancedAccuracy(Summary):
    """The mean recall over classes, in per cent, one for each seed; None where it was not kept."""

    percent: tuple[Percent | None, ...]


class Loss(Summary):
    """The mean loss on the test split in nats, one for each seed; None where it was not kept, or not finite."""

    nats: tuple[Nats | None, ...]


class Row(Summary):
    """A row, as far as its trainings have ended; errors in per cent, one for each seed."""

    name: str
    definition: str
    seeds: tuple[int, ...]
    test_error_percent: tuple[Percent, ...]
    test_loss: Loss | None = None
    balanced_accuracy: BalancedAccuracy | None = None
    confusion: tuple[Counts | None, ...] = ()

    @pydantic.model_validator(mode="after")
    def _one_error_per_seed(self) -> "Row":
        if len(self.seeds) != len(self.test_error_percent):
            raise ValueError(f"row {self.name} must have one test error for each seed")
        if len(set(self.seeds)) != len(self.seeds):
            raise ValueError(f"row {self.name} must have each seed once")
        if len(self.confusion) not in (0, len(self.seeds)):
            raise ValueError(f"row {self.name} must have one confusion matrix for each seed")
        if self.test_loss is not None and len(self.test_loss.nats) != len(self.seeds):
            raise ValueError(f"row {self.name} must have one test loss for each seed")
        return self

    def losses(self) -> tuple[float | None, ...]:
        """Test losses in nats, one for each seed; None where an older version did not keep it."""
        return (None,) * len(self.seeds) if self.test_loss is None else self.test_loss.nats

    def confusions(self, n_classes: int) -> tuple[Confusion | None, ...]:
        """One for each seed; None where an older version did not keep it. ValueError for labels that are no class."""
        found = self.confusion or (None,) * len(self.seeds)
        return tuple(None if counts is None else Confusion.from_counts(n_classes, counts) for counts in found)


class SearchedRow(pydantic.BaseModel):
    """What is read of a row's search: how many test images it has seen, None where nothing tells."""

    test_images_seen: int | None = None


TEXT_EVALUATION = "hba-text-evaluation"
"""The format of what hba evaluate-text writes, in a file of the same name."""


class Results(pydantic.BaseModel):
    """What is shown, and what is needed to resume. Older versions wrote fewer fields."""

    settings: Mapping[str, Any]
    rows: tuple[Row, ...] = pydantic.Field(min_length=1)
    verdict: str | None
    verdict_details: Mapping[str, Any] | None = None
    searched: tuple[SearchedRow, ...] = ()
    class_names: tuple[str, ...] | None = None
    own_network: str | None = None
    error: str | None = None
    pretrained: str | None = None
    train_images: int
    test_images: int
    skipped_images: int
    fingerprints: Mapping[str, str]
    device: str
    device_name: str
    n_threads: int
    jobs: int | None = None
    n_processes: int | None = None
    machines: int | None = None
    python: str
    packages: Mapping[str, str | None]
    wall_seconds: float | None = None

    @pydantic.model_validator(mode="after")
    def _labels_are_of_classes(self) -> "Results":
        for row in self.rows:
            row.confusions(0 if self.class_names is None else len(self.class_names))
        return self

    @property
    def environment(self) -> dict[str, Any]:
        """What made the numbers."""
        kept = {"device", "device_name", "n_threads", "n_processes", "machines", "python", "packages"}
        return self.model_dump(include=kept, exclude_none=True)

    @property
    def n_trainings(self) -> int:
        return sum(len(row.seeds) for row in self.rows)

    def holds(self, names: Sequence[str], wanted: Collection[int]) -> bool:
        """Whether the trainings of all these rows have ended, for all wanted seeds."""
        seeds = {row.name: set(row.seeds) for row in self.rows}
        return all(set(wanted) <= seeds.get(name, set()) for name in names)


def read_results(path: Path, must: str = "is not what an evaluation writes", remedy: str = "") -> Results:
    """RunError for a file that cannot be read or breaks its format. must, remedy: what it says then."""
    try:
        text = read_text(path)
        if _format_of(text) == TEXT_EVALUATION:
            raise RunError(
                f"{path} is of language models: hba evaluate-text POLICY --out {path.parent} --resume shows it{remedy}"
            )
        return Results.model_validate_json(text)
    except pydantic.ValidationError as error:
        raise RunError(f"{path} {must}: {first_problem(error)}{remedy}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise RunError(f"{path} cannot be read: {reason_of(error)}{remedy}") from None


def _format_of(text: str) -> Any:
    """What a file of JSON says of its format; None where it says nothing, or is none."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return content.get("format") if isinstance(content, dict) else None
