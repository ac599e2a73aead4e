"""The card of a shipped schedule: what it was found on, by which commands, and what an evaluation found."""

import json
from collections.abc import Mapping
from typing import Any

import pydantic

from hba.errors import ScheduleError
from hba.report.results import Results
from hba.schedule.library import files_of, policy_names
from hba.utils.text import counted, did_you_mean, duration, listed


class Card(pydantic.BaseModel):
    """text: what the schedule is for, in a sentence or two. search, evaluate: the commands that reproduce it, where DIR
    is a folder of your own. results: of the evaluation, as in its results.json.
    """

    text: str
    search: str
    evaluate: str
    results: Results


def read_card(name: str) -> Card:
    """The card of the schedule that ships under that name; ScheduleError where none does."""
    if name not in policy_names():
        meant = did_you_mean(name, policy_names())
        raise ScheduleError(f"no shipped schedule {name!r}{listed(meant, 'shipped ones', policy_names())}")
    return Card.model_validate_json(files_of(name)[1].read_text("utf-8"))


def costs(name: str) -> tuple[str, str]:
    """Time and hardware of the search of a shipped schedule, and of the trainings of its evaluation, a line each."""
    results = read_card(name).results
    trainings, jobs = counted(results.n_trainings, "training"), results.jobs or 1
    provenance = json.loads(files_of(name)[0].read_text("utf-8"))["provenance"]
    together = f", {jobs} at a time" if jobs > 1 else ""
    return f"Search: {_cost(provenance)}.", f"Evaluation: {trainings}{together}, {_cost(results.model_dump())}."


def _cost(found: Mapping[str, Any]) -> str:
    seconds, n_threads = found.get("wall_seconds"), found.get("n_threads")
    threads = "" if n_threads is None else f", {counted(n_threads, 'thread')}"
    time = "time not kept" if seconds is None else duration(seconds)
    return f"{time}; {found.get('device')}, {found.get('device_name')}{threads}"
