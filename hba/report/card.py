"""The card of a shipped schedule: what it was found on, by which commands, and what an evaluation found."""

import json
from collections.abc import Mapping
from typing import Any

import pydantic

from hba.errors import ScheduleError
from hba.report.results import EvaluationResult
from hba.schedule.library import files_of, policy_names
from hba.utils.text import counted, did_you_mean, duration, listed


class Card(pydantic.BaseModel):
    """text: what the schedule is for, in a sentence or two. search, evaluate: the commands that reproduce it, where DIR
    is a folder of your own. results: of the evaluation, as in its results.json.
    """

    text: str
    search: str
    evaluate: str
    results: EvaluationResult


def read_card(name: str) -> Card:
    """The card of the schedule that ships under that name; ScheduleError where none does."""
    if name not in policy_names():
        meant = did_you_mean(name, policy_names())
        raise ScheduleError(f"no shipped schedule {name!r}{listed(meant, 'shipped ones', policy_names())}")
    return Card.model_validate_json(files_of(name)[1].read_text("utf-8"))


def costs(name: str) -> tuple[str, str]:
    """Time and hardware of the search of a shipped schedule, and of the trainings of its evaluation, a line each."""
    results, search = read_card(name).results, json.loads(files_of(name)[0].read_text("utf-8"))["provenance"]
    n_trainings = sum(len(row.seeds) for row in results.rows)
    trainings = f"{counted(n_trainings, 'training')}, {results.environment.get('jobs', 1)} at a time"
    made_by = {**results.environment, "wall_seconds": results.wall_seconds}
    return f"Search: {_cost(search)}.", f"Evaluation: {trainings}, {_cost(made_by)}."


def _cost(found: Mapping[str, Any]) -> str:
    return f"{duration(found['wall_seconds'])}; {found['device']}, {found['device_name']}"
