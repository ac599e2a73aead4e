"""The second phase of a run: the search for a policy, with the chosen network."""

from hba.algorithms.race_findings import RaceFindings
from hba.errors import DivergedError
from hba.policy_choice.callbacks import SearchSteps
from hba.policy_choice.extent import Extent
from hba.policy_choice.run import AutoRun
from hba.policy_choice.settings import settings_of_new_search
from hba.policy_search.callbacks import SearchResult
from hba.policy_search.search import search
from hba.results.run import CONFIG_NAME, SEARCH_FOLDER

NAME = "search"
LARGEST_SEARCH = 0.5
"""Largest share of the time up to the end of a search."""


def trainings_of_search(extent: Extent, n_jobs: int) -> float:
    """The time of the phase, in trainings."""
    return extent.search


def search_policy(run: AutoRun) -> None:
    """Search for a policy, or resume the search.

    Without a policy, such as if the training diverges, the contest compares recipes.
    """
    try:
        result = _search(run)
    except DivergedError as error:
        run.note_sentence(f"The search stopped, so only recipes were compared: {error}")
        return
    if not result.finished:
        run.note_sentence(
            "The search took longer than planned, and ended before its last epoch"
        )
    race = None
    if result.schedule is not None:
        race = RaceFindings.of(result.schedule.provenance)
    finding = race.takes if race else "a policy was found"
    run.callback.said(f"Search: {finding} ({run.clock()})")


def _search(run: AutoRun) -> SearchResult:
    record = run.record
    folder = run.folder / SEARCH_FOLDER
    is_begun = (folder / CONFIG_NAME).exists()
    least_left = (1 - LARGEST_SEARCH) * record.budget_seconds
    settings = {} if is_begun else settings_of_new_search(run)
    return search(
        record.data if run.datasets is None else run.datasets[0],
        out=folder,
        resume=is_begun,
        jobs=None if run.cluster else record.n_jobs,
        cluster=run.cluster,
        callback=SearchSteps(run.progress, NAME, lambda: run.seconds_left < least_left),
        **run.components,
        **settings,
    )
