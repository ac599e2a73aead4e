"""Convert records to a data frame, numbers to text, and a data frame to a Markdown
table.
"""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd
from scipy.stats import binomtest

from common.records import Record
from hba.results.statistics import PairedDifference
from hba.utils.text import as_markdown

NOTHING = "-"


def frame_of(records: Iterable[Record]) -> pd.DataFrame:
    """A data frame with one row per record: name, dataset, seed, epochs, further
    entries and results.
    """
    return pd.DataFrame(
        {
            "name": record.run.name,
            "dataset": record.run.dataset,
            "seed": record.run.seed,
            "epochs": record.run.settings.get("epochs"),
            **record.run.further,
            **record.results,
        }
        for record in records
    )


def markdown(table: pd.DataFrame) -> str:
    """A Markdown table of a frame whose cells are text."""
    return as_markdown(list(table.columns), table.values.tolist())


def spread_text(values: Iterable[float], digits: int = 2) -> str:
    """Mean ± standard deviation; a single value has no deviation."""
    values = list(values)
    spread = "" if len(values) < 2 else f" ± {statistics.stdev(values):.{digits}f}"
    return f"{statistics.fmean(values):.{digits}f}{spread}"


def ratio_text(numerators: Sequence[float], denominators: Sequence[float]) -> str:
    """Mean ± standard deviation of the ratios, paired by round."""
    return spread_text(
        numerator / other
        for numerator, other in zip(numerators, denominators, strict=True)
    )


def rate_text(hits: Iterable[bool]) -> str:
    """`4/5 (38-96 %)`: hits, trials, and the rate's 95 % interval (Wilson 1927)."""
    hits = list(hits)
    if not hits:
        return NOTHING
    interval = binomtest(sum(hits), len(hits)).proportion_ci(method="wilson")
    return (
        f"{sum(hits)}/{len(hits)}"
        f" ({100 * interval.low:.0f}-{100 * interval.high:.0f} %)"
    )


def difference(
    table: pd.DataFrame, name: str, minus: str, measure: str
) -> PairedDifference | None:
    """The measure of one name minus the measure of another, paired by seed; None
    without common seeds.

    The frame has runs of one dataset and length.
    """
    ours, theirs = (
        table[table["name"] == row].set_index("seed")[measure].to_dict()
        for row in (name, minus)
    )
    return PairedDifference.of(ours, minus=theirs)


def sign_of(paired: PairedDifference | None) -> int:
    """-1 or 1 if the interval lies below or above zero; 0 if no difference is shown."""
    if paired is None or paired.interval is None:
        return 0
    return int(paired.interval[0] > 0) - int(paired.interval[1] < 0)


def difference_text(paired: PairedDifference | None, digits: int = 2) -> str:
    """`-0.66 (-1.12 to -0.19)`: the mean and its 95 % t-interval."""
    if paired is None:
        return NOTHING
    interval = (
        ""
        if paired.interval is None
        else " ({:+.{digits}f} to {:+.{digits}f})".format(
            *paired.interval, digits=digits
        )
    )
    return f"{paired.mean:+.{digits}f}{interval}"


def hardware_of(made_by: Mapping[str, Any]) -> str:
    threads = (
        f", {made_by['n_threads']} thread(s)" if made_by["device"] == "cpu" else ""
    )
    return f"{made_by['device_name']}{threads}, PyTorch {made_by['packages']['torch']}"


def origin(records: Iterable[Record]) -> str:
    """The hardware and commits of the records, in words."""
    made_by = [record.made_by for record in records]
    hardware = "; ".join(sorted(set(map(hardware_of, made_by))))
    commits = ", ".join(
        sorted({f"`{machine['commit']}`" for machine in made_by if "commit" in machine})
    )
    return f"Hardware: {hardware}." + (f" Commit: {commits}." if commits else "")
