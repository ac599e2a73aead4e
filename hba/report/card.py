"""The card of a shipped schedule: what it was found on, by which commands, and what an evaluation found."""

import pydantic

from hba.errors import ScheduleError
from hba.report.results import EvaluationResult
from hba.schedule.library import files_of, policy_names
from hba.utils.text import did_you_mean, listed


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
