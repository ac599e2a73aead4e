"""The card of a shipped schedule: what it was found on, by which commands, and what an evaluation said of it."""

import json
from collections.abc import Mapping
from typing import Any

import pydantic

from hba.errors import ScheduleError
from hba.report.results import Results
from hba.schedule.library import files_of, policy_names
from hba.utils.provenance import LARGEST_COUNT, count_of, number_of
from hba.utils.text import counted, did_you_mean, duration, listed


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


def costs(name: str) -> tuple[str, str]:
    """What the search of a shipped schedule took, as its provenance has it, and the trainings of the evaluation on its
    card: time and hardware, a line each.
    """
    provenance = json.loads(files_of(name)[0].read_text("utf-8"))["provenance"]
    results = read_card(name).results
    trained = results.model_dump()
    trainings, each = counted(results.n_trainings, "training"), ""
    if results.jobs is not None and results.jobs > 1:
        trainings, each = f"{trainings}, {results.jobs} at a time", " each"
    return (
        f"Search: {_time(provenance)}; {_machine(provenance)}.",
        f"Evaluation: {trainings}, {_time(trained)}; {_machine(trained)}{each}.",
    )


def _time(found: Mapping[str, Any]) -> str:
    seconds = number_of(found.get("wall_seconds"), 0, LARGEST_COUNT)
    return "time not kept" if seconds is None else duration(seconds)


def _machine(found: Mapping[str, Any]) -> str:
    n_threads = count_of(found.get("n_threads"))
    threads = "" if n_threads is None else f", {counted(n_threads, 'thread')}"
    return f"{found.get('device')}, {found.get('device_name')}{threads}"
