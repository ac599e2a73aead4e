"""results.json, as a report and a resumed evaluation read it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import pydantic

from hba.errors import RunError
from hba.runtime.files import read_text, reason_of
from hba.runtime.validation import first_problem

RESULTS_NAME = "results.json"

Percent = Annotated[float, pydantic.Field(ge=0, le=100, allow_inf_nan=False)]


class Difference(pydantic.BaseModel):
    """The schedule's test error minus a row's, in percentage points, with its 95 % interval."""

    n_pairs: int
    mean: float
    interval: tuple[float, float] | None


class Row(pydantic.BaseModel):
    """A row, as far as its trainings have ended; errors in per cent, one for each seed."""

    name: str
    definition: str
    seeds: tuple[int, ...]
    test_error_percent: tuple[Percent, ...]
    mean: float | None
    std: float | None
    schedule_minus_row: Difference | None = None

    @pydantic.model_validator(mode="after")
    def _one_error_per_seed(self) -> "Row":
        if len(self.seeds) != len(self.test_error_percent):
            raise ValueError(f"row {self.name} must have one test error for each seed")
        if len(set(self.seeds)) != len(self.seeds):
            raise ValueError(f"row {self.name} must have each seed once")
        return self


class Results(pydantic.BaseModel):
    """What is shown, and what is needed to resume. Older versions wrote fewer fields."""

    settings: Mapping[str, Any]
    rows: tuple[Row, ...] = pydantic.Field(min_length=1)
    verdict: str | None
    verdict_details: Mapping[str, Any] | None = None
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
    python: str
    packages: Mapping[str, str | None]
    wall_seconds: float | None = None

    @property
    def n_trainings(self) -> int:
        return sum(len(row.seeds) for row in self.rows)

    def holds(self, names: Sequence[str], n_seeds: int) -> bool:
        """Whether the trainings of all these rows have ended, for the first so many seeds."""
        seeds = {row.name: set(row.seeds) for row in self.rows}
        return all(set(range(n_seeds)) <= seeds.get(name, set()) for name in names)


def read_results(path: Path, must: str = "is not what an evaluation writes", remedy: str = "") -> Results:
    """RunError for a file that cannot be read or breaks its format. must, remedy: what it says then."""
    try:
        return Results.model_validate_json(read_text(path))
    except pydantic.ValidationError as error:
        raise RunError(f"{path} {must}: {first_problem(error)}{remedy}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise RunError(f"{path} cannot be read: {reason_of(error)}{remedy}") from None
