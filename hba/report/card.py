"""The card of a shipped schedule: what it was found on, by which commands, and what an evaluation said of it."""

import pydantic

from hba.errors import ScheduleError
from hba.report.results import Results
from hba.runtime.unknown import did_you_mean, listed
from hba.schedule.shipped import files_of, policy_names


class Card(pydantic.BaseModel):
    """text: what the schedule is for, in a sentence or two. search, evaluate: the commands that make it again, where
    DIR is a folder of one's own. results: of the evaluation, as its results.json has them.
    """

    text: str
    search: str
    evaluate: str
    results: Results


def read_card(name: str) -> Card:
    """Of the schedule that ships under that name; ScheduleError where none does."""
    if name not in policy_names():
        meant = did_you_mean(name, policy_names())
        raise ScheduleError(f"no shipped schedule {name!r}{listed(meant, 'shipped ones', policy_names())}")
    return Card.model_validate_json(files_of(name)[1].read_text("utf-8"))
