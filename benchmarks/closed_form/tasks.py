"""A run on a problem that can be solved exactly, as a task that is kept."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from common.records import Results, Run
from exact.problems import PROBLEMS, Problem
from exact.ridge import relative_limits
from exact.runs import as_columns, run

from hba.algorithms.responses import RESPONSES

HELD, SEARCHED = "held", "search"
STEPS_MEASURED = 100
"""For an estimate."""
SETTINGS = (
    "depth",
    "start",
    "held",
    "sigma",
    "learning_rate",
    "lambda_learning_rate",
    "copies",
    "train_steps",
    "warm_up",
    "n_steps",
)


@dataclass(frozen=True)
class ClosedFormTask:
    """A response's run on a problem by name; kind: whether lambda is held or searched."""

    problem: str
    response: str
    kind: str
    seed: int

    @property
    def run(self) -> Run:
        problem = PROBLEMS[self.problem]
        sizes = {"n_train": len(problem.ridge.train.targets), "n_validation": len(problem.ridge.validation.targets)}
        settings = {**{name: getattr(problem, name) for name in SETTINGS}, **sizes}
        return Run(self.problem, "diabetes", settings, self.seed, {"response": self.response, "kind": self.kind})

    def do(self) -> Results:
        """The curves, the best lambda, and the error of the Jacobian that remains for ever where lambda is held."""
        problem = PROBLEMS[self.problem]
        curves = as_columns(run(problem, self.response, self.seed, moves=self.kind == SEARCHED))
        return {**curves, "best_lambda": problem.ridge.best_lambda.tolist(), "limit": limit(problem, self.response)}

    def estimated_seconds(self) -> float:
        """The points of the curves cost the same however many steps lie between them."""
        short, longer = (self._seconds(times * STEPS_MEASURED) for times in (1, 2))
        return short + (longer - short) * (PROBLEMS[self.problem].n_steps / STEPS_MEASURED - 1)

    def _seconds(self, n_steps: int) -> float:
        began = time.monotonic()
        short = replace(PROBLEMS[self.problem], n_steps=n_steps)
        run(short, self.response, self.seed, moves=self.kind == SEARCHED)
        return time.monotonic() - began


def all_tasks(problems: Iterable[str], n_seeds: int) -> Iterator[ClosedFormTask]:
    for problem in problems:
        for response in RESPONSES:
            for kind in (HELD, SEARCHED):
                yield from (ClosedFormTask(problem, response, kind, seed) for seed in range(n_seeds))


def limit(problem: Problem, response: str) -> Any:
    return relative_limits(problem.ridge, problem.held, problem.sigma, problem.depth)[response]
