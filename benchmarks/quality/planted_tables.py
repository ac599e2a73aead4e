"""What searches made of planted operations: a frame of all runs, and candidates as a table."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

import pandas as pd
from common.records import Record
from common.tables import NOTHING, rate_text

RECOVERED_WITHIN = 3
"""A planted operation is recovered where its rank is at most this."""
PROBABILITY, STRENGTH, RISE = "probability", "strength", "rise"

End = Mapping[str, Mapping[str, Any]]
"""By operation, what the search left of it."""


def rank(end: End, operation: str, measure: str | None = None) -> int:
    """Of an operation among all by this measure at the end, 1 being the largest.

    An equal value counts as a larger one, so that a search that moved nothing recovers nothing. Probability is what
    decides, by how many logits it rose since the search began; where records do not tell the rise, all operations had
    begun at one probability, and the order is the same. The summary's strength is the probability times how far the
    magnitude is from doing nothing, and at an equal probability this puts operations first whose range starts there at
    its strong end (Solarize, Posterize, the enhancers), and last those whose range starts at no effect (the geometric
    ones, Cutout), whatever was found.
    """
    measure = measure or (RISE if RISE in end[operation] else PROBABILITY)
    return sum(other[measure] >= end[operation][measure] for other in end.values())


def planted_in(record: Record) -> list[str]:
    return [one["operation"] for one in record.run.further["planted"]]


def recovered(record: Record, measure: str | None = None) -> bool:
    """Whether every planted operation is among the first by this measure, or by the rise of its probability."""
    return all(rank(record.results["end"], one, measure) <= RECOVERED_WITHIN for one in planted_in(record))


def others_probability(record: Record) -> float:
    """Mean end probability of the operations that were not planted."""
    rest = [end[PROBABILITY] for name, end in record.results["end"].items() if name not in planted_in(record)]
    return sum(rest) / len(rest)


def run_frame(records: Iterable[Record]) -> pd.DataFrame:
    """A row for each run and planted operation; a run of the control has one row, without what is of an operation."""
    rows = []
    for record in records:
        run, results = record.run, record.results
        of_run = {"candidate": run.name, "problem": run.further["problem"], "seed": run.seed}
        last = {
            "others p": others_probability(record),
            "val error %": results["val_error_percent"],
            "s": results["seconds"],
        }
        own = [_of_operation(results["end"], operation) for operation in planted_in(record)]
        rows += [{**of_run, **of_operation, **last} for of_operation in own or [{"planted": None}]]
    return pd.DataFrame(rows)


def _of_operation(end: End, operation: str) -> dict[str, Any]:
    return {
        "planted": operation,
        "rank": rank(end, operation),
        "by strength": rank(end, operation, STRENGTH),
        "planted p": end[operation][PROBABILITY],
        "magnitude": end[operation]["magnitude"],
    }


def rate_table(records: Sequence[Record]) -> pd.DataFrame:
    """A row for each candidate: its recovery by problem and over all problems, then means over all runs."""
    planted = [record for record in records if planted_in(record)]
    problems = list(dict.fromkeys(record.run.further["problem"] for record in planted))
    operations = {operation for record in planted for operation in planted_in(record)}
    rows = []
    for candidate in dict.fromkeys(record.run.name for record in records):
        runs = [record for record in records if record.run.name == candidate]
        own = [record for record in planted if record.run.name == candidate]
        by_problem = {
            problem: rate_text(recovered(record) for record in own if record.run.further["problem"] == problem)
            for problem in problems
        }
        over_all = {
            "all": rate_text(map(recovered, own)),
            "by the end": rate_text(recovered(record, PROBABILITY) for record in own),
            "elsewhere": _elsewhere(runs, operations),
        }
        rows.append({"candidate": candidate, **by_problem, **over_all, **_means(run_frame(runs), runs)})
    return pd.DataFrame(rows)


def _elsewhere(records: Iterable[Record], operations: set[str]) -> str:
    """How often an operation that was planted in other problems is among the first."""
    first = [
        rank(record.results["end"], other) <= RECOVERED_WITHIN
        for record in records
        for other in operations - set(planted_in(record))
    ]
    return f"{100 * sum(first) / len(first):.0f} %" if first else NOTHING


def _means(by_operation: pd.DataFrame, runs: Sequence[Record]) -> dict[str, str]:
    """Of a candidate's runs; of the control only error and seconds count."""
    planted = by_operation.dropna(subset="planted")
    by_run = planted.drop_duplicates(["problem", "seed"])
    means = {
        "mean rank": (planted.get("rank"), 1),
        "by strength": (planted.get("by strength"), 1),
        "planted p": (planted.get("planted p"), 3),
        "others p": (by_run["others p"], 3),
    }
    results = pd.DataFrame([record.results for record in runs])
    return {
        **{name: NOTHING if planted.empty else f"{fmean(of):.{digits}f}" for name, (of, digits) in means.items()},
        "val error %": f"{fmean(results['val_error_percent']):.1f}",
        "s": f"{results['seconds'].median():.1f}",
    }
