"""The records of this suite that still count, in groups that are compared with each other."""

import json
from collections.abc import Iterable
from pathlib import Path

from common.records import Record, Run, newest, store_of
from common.settings import decisive

from hba.config.evaluation import EvaluationConfig
from quality.candidates import CANDIDATES, DEFAULT, FORMER, is_of
from quality.credit import REWARDS
from quality.plan import block_of, judged_by
from quality.policies import POLICIES
from quality.tasks import OF_DEFAULT, RANGE, ROWS, WITHOUT_SEARCH

NAMES = {
    "planted": CANDIDATES,
    "searches": CANDIDATES,
    "trainings": tuple(dict.fromkeys((*CANDIDATES, *WITHOUT_SEARCH, *RANGE))),
    "verdict": ROWS,
    "credit": (*POLICIES, REWARDS),
}
"""By question, in the order of the tables' rows."""

Images = tuple[str, int, int, int]
"""Dataset, epochs of the search, epochs of the training and number of its images, 0 where there is none."""


def records_of(results: Path, question: str) -> list[Record]:
    """By name, as far as they had the settings that the candidate has now, and its newest seeds.

    The searches of a verdict are not among those that things are chosen by.
    """
    kept = store_of(results, question).by_key().values()
    own = [
        record
        for name in NAMES[question]
        for record in kept
        if record.run.name == name
        and is_of(DEFAULT if name in OF_DEFAULT else name, record.run)
        and (question == "verdict" or block_of(record.run.seed) == 0)
    ]
    return newest(own, lambda run: (run.name, *images_of(run), block_of(run.seed), run.further.get("problem")))


def searches_of_verdicts(results: Path) -> list[list[Record]]:
    """The default's searches, and the former default's, by which the verdicts on the default were run; by images."""
    kept = store_of(results, "searches").by_key().values()
    own = [
        one
        for name in (DEFAULT, FORMER)
        for one in kept
        if one.run.name == name and is_of(name, one.run) and block_of(one.run.seed) and planned_for(one) == DEFAULT
    ]
    newest_blocks = {one.run.dataset: block_of(one.run.seed) for one in own if one.run.name == DEFAULT}
    counted = [one for one in own if newest_blocks.get(one.run.dataset) == block_of(one.run.seed)]
    return [[one for one in group if one.run.name == name] for group in grouped(counted) for name in (DEFAULT, FORMER)]


def planned_for(record: Record) -> str:
    """What the verdict was planned on that the record is part of."""
    return judged_by(record.made_by["plan"]["rows"]) if "plan" in record.made_by else DEFAULT


def images_of(run: Run) -> Images:
    further = run.further
    return run.dataset, run.settings["epochs"], further.get("training_epochs", 0), further.get("training_images", 0)


def grouped(records: Iterable[Record]) -> list[list[Record]]:
    """By images and lengths, in their order, then by block of seeds and by what all rows of a bed share: a bed that was
    changed is compared with nothing of before.
    """
    groups: dict[tuple[Images, int, str], list[Record]] = {}
    for record in records:
        run = record.run
        groups.setdefault((images_of(run), block_of(run.seed), _shared(run)), []).append(record)
    return [groups[key] for key in sorted(groups)]


def _shared(run: Run) -> str:
    """What the bed does to images, and its settings of trainings."""
    of_training = {
        name: value for name, value in decisive(run.settings).items() if name in EvaluationConfig.model_fields
    }
    return json.dumps([run.further.get("images"), of_training], sort_keys=True)
