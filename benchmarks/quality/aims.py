"""The aims of the default search, and whether the records show that they are reached."""

from collections.abc import Mapping, Sequence
from statistics import fmean

import pandas as pd
from common.records import Record
from common.tables import NOTHING, difference_text, rate_text

from hba.report.statistics import PairedDifference
from quality.beds import DIGITS
from quality.candidates import DEFAULT, FORMER
from quality.tables import Differences, recoveries

RECOVERY = 0.9
PLANTED = {1: "a planted operation among the first three", 2: "both operations of a planted pair there"}
"""What is to be recovered, by the number of planted operations."""
BASELINES = ("none", "random", "shuffled", "randaugment", "trivialaugment", "autoaugment")
MOST = 0.5
"""Points of test error by which the default may be above the former default, mean over the beds."""
Row = tuple[str, str, bool | None, str]
"""Aim, dataset, whether it is reached (None: not measured), figures."""


def aim_table(planted: Sequence[Record], verdicts: Mapping[str, Differences]) -> pd.DataFrame:
    """One row per aim and dataset. verdicts: by dataset."""
    rows: list[Row] = []
    for n_operations, what in PLANTED.items():
        for epochs, found in recoveries(planted, DEFAULT, n_operations).items():
            aim = f"{what} in {RECOVERY:.0%} of searches, {epochs} epochs"
            rows.append((aim, DIGITS, sum(found) >= RECOVERY * len(found), rate_text(found)))
    rows += [_better(dataset, differences) for dataset, differences in verdicts.items()]
    rows += [_no_loss(dataset, differences.get(FORMER)) for dataset, differences in verdicts.items()]
    rows += [_mean_loss([differences.get(FORMER) for differences in verdicts.values()])]
    words = {True: "reached", False: "not reached", None: "not measured"}
    columns = ["aim", "data", "is it?", "figures"]
    return pd.DataFrame([(*row[:2], words[row[2]], row[3]) for row in rows], columns=columns)


def is_below_zero(difference: PairedDifference | None) -> bool:
    """Whether the interval lies below zero: the default is shown to be better."""
    return difference is not None and difference.interval is not None and difference.interval[1] < 0


def is_above_zero(difference: PairedDifference | None) -> bool:
    return difference is not None and difference.interval is not None and difference.interval[0] > 0


def _better(dataset: str, differences: Differences) -> Row:
    """The figures are those of the baselines that the default is not shown to be better than."""
    aim = f"better than each of {', '.join(BASELINES)}: an interval below zero"
    present = {
        name: one for name in BASELINES if (one := differences.get(name)) is not None and one.interval is not None
    }
    if len(present) < len(BASELINES):
        return aim, dataset, None, NOTHING
    others = [f"{name} {difference_text(one)}" for name, one in present.items() if not is_below_zero(one)]
    return aim, dataset, not others, ("not than " + ", ".join(others)) if others else "all"


def _no_loss(dataset: str, difference: PairedDifference | None) -> Row:
    reached = None if difference is None or difference.interval is None else not is_above_zero(difference)
    return f"no loss beside `{FORMER}`: no interval above zero", dataset, reached, difference_text(difference)


def _mean_loss(differences: Sequence[PairedDifference | None]) -> Row:
    """The mean over the beds, each with the same weight."""
    aim = f"no loss beside `{FORMER}`: a mean difference of at most {MOST} points"
    means = [one.mean for one in differences if one is not None]
    if not means or len(means) < len(differences):
        return aim, "all of them", None, NOTHING
    return aim, "all of them", fmean(means) <= MOST, f"{fmean(means):+.2f}"
