"""Validation errors of searches or trainings by candidate, and paired differences to the paper's settings."""

import statistics
from collections.abc import Sequence
from typing import Any

from hba.evaluation.paired import PairedDifference
from quality.candidates import PAPER
from quality.planted_tables import Records

ERROR = "val_error_percent"
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
        cells = [_spread_text(list(errors[name].values())), _difference_text(difference), _spread_text(losses, 3)]
        rows.append([name, str(len(runs)), *cells, f"{statistics.mean(seconds):.0f}"])
    return rows


def _difference_text(difference: PairedDifference | None) -> str:
    if difference is None:
        return "-"
    interval = difference.interval
    return f"{difference.mean:+.2f}" + ("" if interval is None else " ({:+.2f} to {:+.2f})".format(*interval))


def _spread_text(values: Sequence[float], digits: int = 2) -> str:
    spread = "" if len(values) < 2 else f" ± {statistics.stdev(values):.{digits}f}"
    return f"{statistics.mean(values):.{digits}f}{spread}"
