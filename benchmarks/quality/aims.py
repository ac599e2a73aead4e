"""What the default search was meant to reach, and whether the records show it."""

from collections.abc import Mapping, Sequence

import pandas as pd
from common.records import Record
from common.tables import NOTHING, rate_text

from hba.policy_evaluation.paired import PairedDifference
from quality.beds import DIGITS
from quality.candidates import DEFAULT
from quality.error_tables import Differences
from quality.planted_tables import planted_in, recovered

RECOVERY = 0.9
BETTER_THAN = ("random", "shuffled")
NOT_WORSE_THAN = ("randaugment", "trivialaugment", "autoaugment")

REACHED, NOT_REACHED, NOT_MEASURED = "reached", "not reached", "not measured"


def aim_table(planted: Sequence[Record], verdicts: Mapping[str, Differences]) -> pd.DataFrame:
    """A row for each aim and dataset. verdicts: by dataset."""
    rows = [
        (f"a planted operation among the first three in {RECOVERY:.0%} of searches", DIGITS, *_recovery(planted, 1)),
        (f"both operations of a planted pair there in {RECOVERY:.0%} of searches", DIGITS, *_recovery(planted, 2)),
    ]
    for dataset, differences in verdicts.items():
        rows += [(f"better than `{other}`", dataset, *_better(differences.get(other))) for other in BETTER_THAN]
        aim = f"not shown to be worse than the best of {', '.join(NOT_WORSE_THAN)}"
        rows.append((aim, dataset, *_not_worse(differences)))
    return pd.DataFrame(rows, columns=["aim", "data", "is it?", "figures"])


def recoveries(planted: Sequence[Record], candidate: str, n_operations: int) -> list[bool]:
    """Of a candidate's searches on digits with as many planted operations."""
    return [
        recovered(record)
        for record in planted
        if (record.run.name, record.run.dataset, len(planted_in(record))) == (candidate, DIGITS, n_operations)
    ]


def _recovery(planted: Sequence[Record], n_operations: int) -> tuple[str, str]:
    found = recoveries(planted, DEFAULT, n_operations)
    return _in_words(sum(found) >= RECOVERY * len(found) if found else None), rate_text(found)


def _better(difference: PairedDifference | None) -> tuple[str, str]:
    if difference is None or difference.interval is None:
        return NOT_MEASURED, NOTHING
    return _in_words(difference.interval[1] < 0), _shown(difference)


def _not_worse(differences: Differences) -> tuple[str, str]:
    """Not shown to be worse than any of them; figures of the one with the lowest mean."""
    present = [one for name in NOT_WORSE_THAN if (one := differences.get(name)) is not None and one.interval]
    if len(present) < len(NOT_WORSE_THAN):
        return NOT_MEASURED, NOTHING
    best = max(present, key=lambda one: one.mean)
    return _in_words(not any(one.is_above_zero(n_choices=1) for one in present)), _shown(best)


def _in_words(is_reached: bool | None) -> str:
    return NOT_MEASURED if is_reached is None else REACHED if is_reached else NOT_REACHED


def _shown(difference: PairedDifference) -> str:
    interval = difference.interval or (difference.mean, difference.mean)
    return f"{difference.mean:+.2f} points ({interval[0]:+.2f} to {interval[1]:+.2f})"
