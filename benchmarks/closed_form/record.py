"""What is kept of a problem: how it was set, what is known exactly of it, and the curves of its runs. And its table."""

from collections.abc import Callable
from typing import Any

import torch

from closed_form.problems import Problem
from closed_form.ridge import jacobian_limits, rank_one_error
from closed_form.runs import as_columns, run
from hba.algorithms.responses import RESPONSES
from hba.runtime.provenance import environment

Record = dict[str, Any]
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
HEADINGS = (
    "problem",
    "response",
    "held: Jacobian's error",
    "limit",
    "search: Jacobian's error",
    "cosine",
    "distance of lambda",
    "excess of validation loss",
)


def record(problem: Problem, n_seeds: int, say: Callable[[str], None]) -> Record:
    """Run a problem with every response, lambda held and searched, at seeds from 0."""
    runs: dict[str, dict[str, list[Any]]] = {}
    for response in RESPONSES:
        say(f"{problem.title}: {response}")
        runs[response] = {
            kind: [as_columns(run(problem, response, seed, moves=kind == "search")) for seed in range(n_seeds)]
            for kind in ("held", "search")
        }
    return {
        "title": problem.title,
        "settings": {name: getattr(problem, name) for name in SETTINGS},
        "n_train": len(problem.ridge.train.targets),
        "n_validation": len(problem.ridge.validation.targets),
        "best_lambda": problem.ridge.best_lambda.tolist(),
        "limits": limits(problem),
        "environment": environment(torch.device("cpu")),
        "runs": runs,
    }


def limits(problem: Problem) -> dict[str, float | None]:
    """The error of the Jacobian that remains for ever where lambda is held; None where it is not known.

    With several lambdas, the least error of a hyper-layer of one output. In a deep linear network only the linearized
    response has the limit of linear regression.
    """
    ridge = problem.ridge
    lam = torch.full((ridge.n,), problem.held, dtype=torch.float64)
    true = ridge.best_response_jacobian(lam)
    if ridge.n > 1:
        return dict.fromkeys(RESPONSES, rank_one_error(true))
    errors = {
        name: float((limit - true).norm() / true.norm())
        for name, limit in jacobian_limits(ridge, lam, problem.sigma).items()
    }
    return {name: errors[name] if problem.depth == 1 or name == "linearized" else None for name in RESPONSES}


def table_rows(records: dict[str, Record]) -> list[list[str]]:
    """At the end of the runs: mean (least to most) over seeds that did not diverge; a row for each response."""
    rows = []
    for kept in records.values():
        for response, runs in kept["runs"].items():
            limit = kept["limits"][response]
            rows.append(
                [
                    kept["title"],
                    response,
                    _at_end(runs["held"], "error"),
                    "" if limit is None else f"{limit:.3f}",
                    *(_at_end(runs["search"], name) for name in ("error", "cosine", "distance", "excess")),
                ]
            )
    return rows


def n_diverged(curves: list[Any]) -> int:
    """How many runs ended in numbers that are not finite."""
    return sum(curve["error"][-1] is None for curve in curves)


def _at_end(curves: list[Any], name: str) -> str:
    values = [curve[name][-1] for curve in curves if curve[name][-1] is not None]
    shown = f"{sum(values) / len(values):.3f} ({min(values):.3f} to {max(values):.3f})" if values else ""
    return f"{shown} {n_diverged(curves)} of {len(curves)} diverged".strip() if n_diverged(curves) else shown
