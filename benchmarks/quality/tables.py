"""The tables of docs/search-quality.md: verdicts and planted answers."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import pandas as pd
from common.records import Record
from common.tables import (
    NOTHING,
    difference,
    difference_text,
    frame_of,
    rate_text,
    spread_text,
)

from hba.results.statistics import PairedDifference
from hba.utils.text import as_markdown
from quality.candidates import DEFAULT, FORMER

ERROR = "val_error_percent"
TEST_ERROR = "test_error_percent"
PROBABILITY = "probability"
RISE = "rise"
RECOVERED_WITHIN = 3
"""A planted operation is recovered if its rank is at most this."""
SUMMARY_ROWS = {
    DEFAULT: "`hba search --space hba`",
    FORMER: "the same with whole validation batches",
    "none": "baseline augmentation alone",
    "random": "where the search begins, with its spread",
    "shuffled": "the same curves, assigned to other operations",
    "point": "its schedule without the spread",
    "randaugment": "RandAugment",
    "trivialaugment": "TrivialAugment",
    "autoaugment": "AutoAugment",
}
Differences = Mapping[str, PairedDifference | None]
"""By row, the test error of the default search minus the test error of the row."""
End = Mapping[str, Mapping[str, Any]]
"""By operation, the results of the search in its last epoch."""


def verdict_differences(records: Sequence[Record], of: str = DEFAULT) -> Differences:
    runs = frame_of(records)
    return {
        name: difference(runs, of, name, TEST_ERROR)
        for name in runs["name"].unique()
        if name != of
    }


def verdict_table(records: Sequence[Record], of: str = DEFAULT) -> pd.DataFrame:
    """One row per augmentation: its test error, and the search's test error minus it,
    paired by seed.
    """
    differences = verdict_differences(records, of)
    return pd.DataFrame(
        {
            "trained with": name,
            "runs": str(len(runs)),
            "test error (%)": spread_text(runs[TEST_ERROR]),
            f"{of} minus this": difference_text(differences.get(name)),
        }
        for name, runs in frame_of(records).groupby("name", sort=False)
    )


def summary_table(verdicts: Mapping[str, Sequence[Record]]) -> str:
    """Return the first Markdown table of the page: errors, and below each the
    difference of the default to it.

    Args:
        verdicts: Records by the heading of their column.
    """
    run = {record.run.name for records in verdicts.values() for record in records}
    rows = [row for row in SUMMARY_ROWS if row in run]
    headings = ["trained with"]
    columns = [[SUMMARY_ROWS[row] for row in rows]]
    for images, records in verdicts.items():
        runs = frame_of(records)
        differences = verdict_differences(records)
        errors = {name: row_runs[TEST_ERROR] for name, row_runs in runs.groupby("name")}
        headings.append(f"{images}; {len(errors[DEFAULT])} seeds")
        columns.append([_summary_cell(row, errors, differences) for row in rows])
    return as_markdown(headings, [list(row) for row in zip(*columns, strict=True)])


def _summary_cell(
    row: str, errors: Mapping[str, "pd.Series[float]"], differences: Differences
) -> str:
    if row not in errors:
        return NOTHING
    fewer = "" if len(errors[row]) == len(errors[DEFAULT]) else f" ({len(errors[row])})"
    below = f"<br>{difference_text(differences[row])}" if row in differences else ""
    return f"{spread_text(errors[row])} %{fewer}{below}"


def rank(end: End, operation: str, measure: str | None = None) -> int:
    """The rank of an operation among all, where 1 is the largest.

    Operations are ranked by the rise of their probability during the search, in logits.
    If a record has no rise, they are ranked by the probability at the end, which gives
    the same order if all began with the same probability. Equal values count as larger,
    so a search that moved nothing recovers nothing.
    """
    measure = measure or (RISE if RISE in end[operation] else PROBABILITY)
    return sum(other[measure] >= end[operation][measure] for other in end.values())


def planted_in(record: Record) -> list[str]:
    return [operation["operation"] for operation in record.run.further["planted"]]


def recovered(record: Record, measure: str | None = None) -> bool:
    """Whether every planted operation is among the first RECOVERED_WITHIN."""
    return all(
        rank(record.results["end"], operation, measure) <= RECOVERED_WITHIN
        for operation in planted_in(record)
    )


def rate_table(records: Sequence[Record]) -> pd.DataFrame:
    """One row per candidate: how often it recovered planted operations, by problem and
    in all, and means over runs.
    """
    records = [record for record in records if planted_in(record)]
    problems = dict.fromkeys(record.run.further["problem"] for record in records)
    rows = []
    for candidate in dict.fromkeys(record.run.name for record in records):
        candidate_records = [
            record for record in records if record.run.name == candidate
        ]
        hits = {
            problem: [
                recovered(record)
                for record in candidate_records
                if record.run.further["problem"] == problem
            ]
            for problem in problems
        }
        by_problem = {
            problem: f"{sum(problem_hits)}/{len(problem_hits)}"
            for problem, problem_hits in hits.items()
        }
        ranks = [
            rank(record.results["end"], operation)
            for record in candidate_records
            for operation in planted_in(record)
        ]
        val_errors = [record.results[ERROR] for record in candidate_records]
        means = {
            "all": rate_text(map(recovered, candidate_records)),
            "mean rank": f"{fmean(ranks):.1f}",
            "val error %": f"{fmean(val_errors):.1f}",
        }
        rows.append({"candidate": candidate, **by_problem, **means})
    return pd.DataFrame(rows)
