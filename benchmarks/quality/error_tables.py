"""Errors of searches and trainings by candidate or row, with differences paired by seed."""

from collections.abc import Mapping, Sequence
from statistics import fmean

import pandas as pd
from common.records import Record
from common.settings import is_neutral
from common.tables import NOTHING, difference, difference_text, frame_of, spread_text

from hba.policy.spaces import as_markdown
from hba.policy_evaluation.paired import PairedDifference
from hba.policy_evaluation.verdict import verdict
from quality.candidates import CANDIDATES, DEFAULT, DRAWS, FORMER, PAPER, STRENGTH
from quality.planted_tables import PROBABILITY
from quality.tasks import LEFT_OUT, RANDOM, STANDARD_ROWS

ERROR, TEST_ERROR = "val_error_percent", "test_error_percent"

README_ROWS = {
    DEFAULT: "`hba search`",
    FORMER: "the default search of before, with whole validation batches",
    "none": "baseline augmentation alone",
    "random": "where the search begins, with its spread",
    "shuffled": "its own curves, handed to other operations, as strong",
    "randaugment": "RandAugment",
    "trivialaugment": "TrivialAugment",
    "autoaugment": "AutoAugment",
}
Differences = dict[str, PairedDifference | None]
"""By row, the default search's test error minus the row's."""


def candidate_table() -> pd.DataFrame:
    """All candidates, what they do and by which settings; without those that are as before there was such a setting."""
    return pd.DataFrame(
        {
            "name": name,
            "what it does": candidate.text,
            "settings": ", ".join(
                f"`{setting}={candidate.settings[setting]}`"
                for setting, value in candidate.changes.items()
                if not is_neutral(setting, value)
            )
            or NOTHING,
        }
        for name, candidate in CANDIDATES.items()
    )


def error_table(records: Sequence[Record]) -> pd.DataFrame:
    """A row for each candidate: validation error, mean ± standard deviation over seeds, and the mean difference to the
    paper's settings with the same seed, with its 95 % t-interval; where those were not run, to those of the first
    of the default before, the default, and the one before both.
    """
    runs = frame_of(records)
    names = set(runs["name"])
    reference = next((name for name in (PAPER, FORMER, DEFAULT, STRENGTH) if name in names), PAPER)
    return pd.DataFrame(
        {
            "candidate": name,
            "runs": str(len(own)),
            "validation error (%)": spread_text(own[ERROR]),
            f"minus {reference}": NOTHING
            if name == reference
            else difference_text(difference(runs, name, reference, ERROR)),
            "validation loss": spread_text(own["val_loss"], 3),
            "seconds": f"{fmean(own['seconds']):.0f}",
        }
        for name, own in runs.groupby("name", sort=False)
    )


def verdict_table(records: Sequence[Record], of: str = DEFAULT) -> pd.DataFrame:
    """A row for each augmentation: test error, and the difference of that of a search to it with the same seed."""
    differences = verdict_differences(records, of)
    return pd.DataFrame(
        {
            "trained with": name,
            "runs": str(len(own)),
            "test error (%)": spread_text(own[TEST_ERROR]),
            f"{of} minus this": difference_text(differences.get(name)),
        }
        for name, own in frame_of(records).groupby("name", sort=False)
    )


def verdict_differences(records: Sequence[Record], of: str = DEFAULT) -> Differences:
    runs = frame_of(records)
    return {name: difference(runs, of, name, TEST_ERROR) for name in runs["name"].unique() if name != of}


def verdict_sentence(records: Sequence[Record], of: str = DEFAULT) -> str:
    """What the command and the page say; other candidates than the paper's are no rivals."""
    compared = (of, *(row for row in STANDARD_ROWS if row != DEFAULT))
    found = verdict(verdict_differences([record for record in records if record.run.name in compared], of))
    missing = f"`{of}`" if all(record.run.name != of for record in records) else "what it has to beat"
    return str(found) if found else f"No verdict: {missing} has not been run."


def readme_table(verdicts: Mapping[str, Sequence[Record]]) -> str:
    """The results of the README in Markdown: errors, and below each the default's difference to it.

    verdicts: records by what a column calls their images; without any, a sentence.
    """
    if not verdicts:
        return "Not measured yet."
    run = {record.run.name for records in verdicts.values() for record in records}
    rows = [row for row in README_ROWS if row in run]
    headings, columns = ["trained with"], [[README_ROWS[row] for row in rows]]
    for images, records in verdicts.items():
        runs, differences = frame_of(records), verdict_differences(records)
        errors = {name: own[TEST_ERROR] for name, own in runs.groupby("name")}
        headings.append(f"{images}; {len(errors[DEFAULT])} seeds")
        columns.append([_readme_cell(row, errors, differences) for row in rows])
    return as_markdown(headings, [list(row) for row in zip(*columns, strict=True)])


def _readme_cell(row: str, errors: Mapping[str, "pd.Series[float]"], differences: Differences) -> str:
    if row not in errors:
        return NOTHING
    fewer = "" if len(errors[row]) == len(errors[DEFAULT]) else f" ({len(errors[row])})"
    below = f"<br>{difference_text(differences[row])}" if row in differences else ""
    return f"{spread_text(errors[row])} %{fewer}{below}"


def left_out_table(trainings: Sequence[Record], searches: Sequence[Record]) -> pd.DataFrame:
    """A row for each group of operations that was left out of a random policy; those that were not run are not there.

    trainings, searches: of one dataset and length. The difference is of validation errors with the same seed: above
    zero, the operations help.
    """
    runs = frame_of(trainings)
    ends = [record.results["end"] for record in searches if record.run.name == DRAWS]
    rows = []
    for name, operations in LEFT_OUT.items():
        if name in set(runs["name"]):
            found = [sum(end[one][PROBABILITY] for one in operations) / len(operations) for end in ends]
            rows.append(
                {
                    "operations": ", ".join(operations),
                    f"probability at the end of {DRAWS}": spread_text(found) if found else NOTHING,
                    "error without them minus that with them": difference_text(difference(runs, name, RANDOM, ERROR)),
                }
            )
    return pd.DataFrame(rows)
