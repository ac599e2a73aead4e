"""What the default search was meant to reach, and whether the records show it."""

import statistics
from collections.abc import Mapping, Sequence

import pandas as pd
from common.records import Record
from common.tables import NOTHING, rate_text, spread_text

from hba.policy_evaluation.paired import PairedDifference
from quality.beds import DIGITS
from quality.candidates import DEFAULT, FORMER, PAPER
from quality.error_tables import Differences
from quality.planted_tables import planted_in, recovered

RECOVERY = 0.9
PLANTED = {1: "a planted operation among the first three", 2: "both operations of a planted pair there"}
"""What is meant to be recovered, by how many operations were planted."""
RIVALS = ("none", "random", "shuffled", "randaugment", "trivialaugment", "autoaugment")
MOST = 0.5
"""By how many points of test error the default may be above the one before, mean over the beds."""
COST = 1.3
"""A training step of a search, with its share of the lambda steps, in those of the paper's search."""

REACHED, NOT_REACHED, NOT_MEASURED = "reached", "not reached", "not measured"


def aim_table(
    planted: Sequence[Record], verdicts: Mapping[str, Differences], costs: Mapping[str, Record]
) -> pd.DataFrame:
    """A row for each aim and dataset. verdicts, costs: by dataset."""
    rows = []
    for n_operations, what in PLANTED.items():
        aim = f"{what} in {RECOVERY:.0%} of searches"
        found = lengths(planted, DEFAULT, n_operations)
        rows += [(f"{aim}, {epochs} epochs", DIGITS, *_recovery(planted, n_operations, epochs)) for epochs in found]
        rows += [] if found else [(aim, DIGITS, NOT_MEASURED, NOTHING)]
    for dataset, differences in verdicts.items():
        aim = f"better than each of {', '.join(RIVALS)}: an interval below zero"
        rows.append((aim, dataset, *_better(differences)))
    for dataset, differences in verdicts.items():
        rows.append((f"no loss beside `{FORMER}`: no interval above zero", dataset, *_no_loss(differences.get(FORMER))))
    aim = f"no loss beside `{FORMER}`: a mean difference of at most {MOST} points"
    if verdicts:
        rows.append((aim, "all of them", *_mean_loss([one.get(FORMER) for one in verdicts.values()])))
    for dataset, record in costs.items():
        rows.append((f"a step at most {COST} times that of `{PAPER}`, mean over rounds", dataset, *_cheap(record)))
    return pd.DataFrame(rows, columns=["aim", "data", "is it?", "figures"])


def lengths(planted: Sequence[Record], candidate: str, n_operations: int) -> list[int]:
    """Epochs of a candidate's searches on digits with as many planted operations, the fewest first."""
    return sorted({record.run.settings["epochs"] for record in _with(planted, candidate, n_operations)})


def recoveries(planted: Sequence[Record], candidate: str, n_operations: int, epochs: int) -> list[bool]:
    """Of a candidate's searches on digits with as many planted operations, of one length."""
    found = _with(planted, candidate, n_operations)
    return [recovered(record) for record in found if record.run.settings["epochs"] == epochs]


def finds_planted(planted: Sequence[Record], n_operations: int, epochs: int) -> bool | None:
    """Whether the default's searches of that length recover what is meant to be recovered; None without any."""
    found = recoveries(planted, DEFAULT, n_operations, epochs)
    return sum(found) >= RECOVERY * len(found) if found else None


def _with(planted: Sequence[Record], candidate: str, n_operations: int) -> list[Record]:
    wanted = candidate, DIGITS, n_operations
    return [one for one in planted if (one.run.name, one.run.dataset, len(planted_in(one))) == wanted]


def _recovery(planted: Sequence[Record], n_operations: int, epochs: int) -> tuple[str, str]:
    found = recoveries(planted, DEFAULT, n_operations, epochs)
    return _in_words(finds_planted(planted, n_operations, epochs)), rate_text(found)


def _better(differences: Differences) -> tuple[str, str]:
    """Figures of those that it is not better than."""
    present = {name: one for name in RIVALS if (one := differences.get(name)) is not None and one.interval is not None}
    if len(present) < len(RIVALS):
        return NOT_MEASURED, NOTHING
    others = [f"{name} {_shown(one)}" for name, one in present.items() if not is_shown_to_be_better(one)]
    return _in_words(not others), ("not than " + ", ".join(others)) if others else "all"


def is_shown_to_be_better(difference: PairedDifference) -> bool:
    """Whether its interval lies below zero."""
    return difference.interval is not None and difference.interval[1] < 0


def is_shown_to_be_worse(difference: PairedDifference) -> bool:
    """Whether its interval lies above zero."""
    return difference.interval is not None and difference.interval[0] > 0


def _no_loss(difference: PairedDifference | None) -> tuple[str, str]:
    if difference is None or difference.interval is None:
        return NOT_MEASURED, NOTHING
    return _in_words(not is_shown_to_be_worse(difference)), _shown(difference)


def _mean_loss(differences: Sequence[PairedDifference | None]) -> tuple[str, str]:
    """Of the beds, each as much as any other."""
    means = [one.mean for one in differences if one is not None]
    if not means or len(means) < len(differences):
        return NOT_MEASURED, NOTHING
    return _in_words(statistics.fmean(means) <= MOST), f"{statistics.fmean(means):+.2f} points"


def _cheap(record: Record) -> tuple[str, str]:
    seconds = record.results["seconds_per_step"]
    if DEFAULT not in seconds:
        return NOT_MEASURED, NOTHING
    ratios = [own / paper for own, paper in zip(seconds[DEFAULT], seconds[PAPER], strict=True)]
    return _in_words(statistics.fmean(ratios) <= COST), spread_text(ratios)


def _in_words(is_reached: bool | None) -> str:
    return NOT_MEASURED if is_reached is None else REACHED if is_reached else NOT_REACHED


def _shown(difference: PairedDifference) -> str:
    interval = difference.interval or (difference.mean, difference.mean)
    return f"{difference.mean:+.2f} points ({interval[0]:+.2f} to {interval[1]:+.2f})"
