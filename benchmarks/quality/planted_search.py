"""One search on a planted problem, and whether it found what was planted."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from reproduction.timing import without_data

import hba
from hba.config.search import SearchConfig
from quality.beds import IMAGES
from quality.ends import PROBABILITY, results_of
from quality.pool import Results
from quality.problems import Problem, find_problem, plant
from quality.records import settings_of
from quality.suite import seconds_of_search

RECOVERED_WITHIN = 3
"""A planted operation is recovered where its rank is at most this."""


@dataclass(frozen=True)
class PlantedTask:
    """A search by a candidate's settings on a problem by name."""

    candidate: str
    problem: str
    config: SearchConfig

    @property
    def settings(self) -> Mapping[str, Any]:
        return settings_of(self.config)

    @property
    def run(self) -> dict[str, Any]:
        """What tells the run from others of the same settings, as JSON values."""
        planted = [{**asdict(one), "magnitude": one.magnitude and list(one.magnitude)} for one in self.operations]
        return {"problem": self.problem, "planted": planted, "seed": self.config.seed}

    @property
    def operations(self) -> Problem:
        return find_problem(self.problem)

    def estimated_seconds(self) -> float:
        return seconds_of_search(self.config)


def search_planted(task: PlantedTask) -> Results:
    """What a search on the planted problem ended with."""
    data = plant(IMAGES.of_search(task.config, None), task.operations, task.config.seed)
    return results_of(hba.search(data, **without_data(task.config)))


def ranks(results: Results, planted: list[Mapping[str, Any]], measure: str = PROBABILITY) -> list[int]:
    """Of each planted operation among all operations by this measure at the end, 1 being the largest.

    An equal value counts as a larger one, so that a search that moved nothing recovers nothing. Probability is what
    decides: the summary's strength is the probability times how far the magnitude is from doing nothing, and at an
    equal probability this puts operations first whose range starts there at its strong end (Solarize, Posterize,
    the enhancers), and last those whose range starts at no effect (the geometric ones, Cutout), whatever was found.
    """
    end = results["end"]
    return [
        sum(other[measure] >= end[one["operation"]][measure] for other in end.values())
        for one in planted
    ]  # fmt: skip


def recovered(results: Results, planted: list[Mapping[str, Any]]) -> bool:
    """Whether every planted operation is among the first by probability."""
    return all(rank <= RECOVERED_WITHIN for rank in ranks(results, planted))


def others_probability(results: Results, planted: list[Mapping[str, Any]]) -> float:
    """Mean end probability of the operations that were not planted."""
    names = {one["operation"] for one in planted}
    rest = [end[PROBABILITY] for name, end in results["end"].items() if name not in names]
    return sum(rest) / len(rest)
