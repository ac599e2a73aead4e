"""Validation errors of searches or trainings by candidate, and paired differences to the paper's settings."""

import statistics
from collections.abc import Sequence
from typing import Any

from hba.policy_evaluation.paired import PairedDifference
from quality.candidates import DEFAULT, PAPER
from quality.planted_tables import Records
from quality.verdict_runs import TEST_ERROR

ERROR = "val_error_percent"
VERDICT_HEADINGS = ("trained with", "runs", "test error (%)", f"{DEFAULT} minus this")
CONFIRMING_FROM = 10
"""The first seed of those that were run when their number, and what they should show, had been fixed."""
CONFIRMING_HEADINGS = ("trained with", "runs", f"{DEFAULT} minus this")
ERROR_HEADINGS = ("candidate", "runs", "validation error (%)", f"minus {PAPER}", "validation loss", "seconds")


def error_rows(records: Records) -> list[list[str]]:
    """One row for each candidate: mean ± standard deviation over seeds, and the mean difference to the paper's
    settings with the same seed, with its 95 % t-interval.
    """
    by_name: dict[str, dict[int, Any]] = {}
    for name, kept in records:
        by_name.setdefault(name, {})[kept.run["seed"]] = kept.results
    errors = {name: {seed: run[ERROR] for seed, run in runs.items()} for name, runs in by_name.items()}
    rows = []
    for name, runs in by_name.items():
        losses, seconds = ([run[quantity] for run in runs.values()] for quantity in ("val_loss", "seconds"))
        difference = None if name == PAPER else PairedDifference.of(errors[name], errors.get(PAPER, {}))
        cells = [spread_text(list(errors[name].values())), difference_text(difference), spread_text(losses, 3)]
        rows.append([name, str(len(runs)), *cells, f"{statistics.mean(seconds):.0f}"])
    return rows


def verdict_rows(records: Records) -> list[list[str]]:
    """One row for each augmentation: test error, mean ± standard deviation over seeds, and the mean difference of the
    default search's to it with the same seed, with its 95 % t-interval.
    """
    errors = _test_errors(records)
    differences = verdict_differences(records)
    return [
        [name, str(len(runs)), spread_text(list(runs.values())), difference_text(differences.get(name))]
        for name, runs in errors.items()
    ]


def confirming_rows(records: Records) -> list[list[str]]:
    """One row for each augmentation that has seeds from CONFIRMING_FROM on: how many, and the difference over these."""
    differences = verdict_differences([(name, kept) for name, kept in records if kept.run["seed"] >= CONFIRMING_FROM])
    return [
        [name, str(difference.n_pairs), difference_text(difference)]
        for name, difference in differences.items()
        if difference is not None
    ]


def verdict_differences(records: Records) -> dict[str, PairedDifference | None]:
    """By name of each other row: the test error with the default search's schedule minus the row's."""
    errors = _test_errors(records)
    own = errors.pop(DEFAULT, {})
    return {name: PairedDifference.of(own, minus=runs) for name, runs in errors.items()}


def _test_errors(records: Records) -> dict[str, dict[int, float]]:
    errors: dict[str, dict[int, float]] = {}
    for name, kept in records:
        errors.setdefault(name, {})[kept.run["seed"]] = kept.results[TEST_ERROR]
    return errors


def difference_text(difference: PairedDifference | None) -> str:
    if difference is None:
        return "-"
    interval = difference.interval
    return f"{difference.mean:+.2f}" + ("" if interval is None else " ({:+.2f} to {:+.2f})".format(*interval))


def spread_text(values: Sequence[float], digits: int = 2) -> str:
    spread = "" if len(values) < 2 else f" ± {statistics.stdev(values):.{digits}f}"
    return f"{statistics.mean(values):.{digits}f}{spread}"
