"""auto.json: the plan and the decisions of a run of `hba auto`, as one record that is saved atomically."""

import json
from pathlib import Path
from typing import Any, Self

import pydantic

from hba.errors import RunError
from hba.report.run import AUTO_NAME
from hba.utils.files import read_text, reason_of, write_text


class AutoRecord(pydantic.BaseModel):
    """Everything that a run needs to resume, and that its report shows.

    data: a path or a name. n_images: for training and validation. counts: number of images of each class. settings: of
    the search. of_test: settings for the test only. n_jobs: trainings at a time. extent: (rows, seeds, seeds of the
    test). training_seconds: of one training, as planned and later as measured. spent: seconds of all calls so far.
    test_seeds: their number, once it is decided. plan: a sentence for each choice. rows: the table of the contest.
    chosen: the name of the chosen row. notes: sentences for the user. command: repeats the run. ended: phases that will
    not continue. stopped: phases that Ctrl-C or an error has ended.
    """

    model_config = pydantic.ConfigDict(frozen=True)

    version: int = 1
    data: str
    n_images: int
    counts: dict[str, int]
    settings: dict[str, Any]
    of_test: dict[str, Any]
    budget_seconds: float
    n_jobs: int
    extent: tuple[int, int, int]
    training_seconds: float
    plan: tuple[str, ...]
    command: str
    spent: float = 0.0
    test_seeds: int | None = None
    rows: tuple[dict[str, Any], ...] = ()
    chosen: str | None = None
    answer: str = ""
    notes: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()
    stopped: tuple[str, ...] = ()

    def save(self, folder: Path) -> None:
        write_text(folder / AUTO_NAME, self.model_dump_json(indent=2) + "\n")

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the record in a folder. Raises RunError if the folder contains no run of `hba auto`, or a broken one."""
        path = folder / AUTO_NAME
        try:
            return cls.model_validate(json.loads(read_text(path)))
        except Exception as error:
            raise RunError(f"{path} is not the record of a run of hba auto: {reason_of(error)}") from None
