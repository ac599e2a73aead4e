"""The records of this suite that still count, in groups that are compared with each other."""

from collections.abc import Iterable
from pathlib import Path

from common.records import Record, Run, newest, store_of

from quality.candidates import CANDIDATES, DEFAULT, is_of
from quality.tasks import OF_DEFAULT, ROWS, WITHOUT_SEARCH

NAMES = {"planted": CANDIDATES, "searches": CANDIDATES, "trainings": (*CANDIDATES, *WITHOUT_SEARCH), "verdict": ROWS}
"""By question, in the order of the tables' rows."""

Images = tuple[str, int, int, int]
"""Dataset, epochs of the search, epochs of the training and number of its images, 0 where there is none."""


def records_of(results: Path, question: str) -> list[Record]:
    """By name, as far as they had the settings that the candidate has now, and its newest seeds."""
    kept = store_of(results, question).by_key().values()
    own = [
        record
        for name in NAMES[question]
        for record in kept
        if record.run.name == name and is_of(DEFAULT if name in OF_DEFAULT else name, record.run)
    ]
    return newest(own, lambda run: (run.name, *images_of(run), run.further.get("problem")))


def images_of(run: Run) -> Images:
    further = run.further
    return run.dataset, run.settings["epochs"], further.get("training_epochs", 0), further.get("training_images", 0)


def grouped(records: Iterable[Record]) -> list[list[Record]]:
    """By images and lengths, in their order."""
    groups: dict[Images, list[Record]] = {}
    for record in records:
        groups.setdefault(images_of(record.run), []).append(record)
    return [groups[images] for images in sorted(groups)]
