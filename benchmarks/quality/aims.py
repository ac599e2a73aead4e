"""What the default search was meant to reach, and whether the records show it."""

from collections.abc import Mapping

from hba.policy_evaluation.paired import PairedDifference
from quality.beds import DIGITS
from quality.candidates import DEFAULT
from quality.planted_search import recovered
from quality.planted_tables import Records
from quality.rates import rate_text

RECOVERY = 0.9
BETTER_THAN = ("random", "shuffled")
NOT_WORSE_THAN = ("randaugment", "trivialaugment", "autoaugment")

REACHED, NOT_REACHED, NOT_MEASURED = "reached", "not reached", "not measured"

Differences = Mapping[str, PairedDifference | None]
"""By name of a row, the default search's test error minus the row's."""


def aim_rows(planted: Records, verdicts: Mapping[str, Differences]) -> list[list[str]]:
    """One row for each aim and dataset. verdicts: by dataset."""
    rows = [
        _recovery(f"a planted operation among the first three in {RECOVERY:.0%} of searches", planted, 1),
        _recovery(f"both operations of a planted pair there in {RECOVERY:.0%} of searches", planted, 2),
    ]
    for dataset, differences in verdicts.items():
        for other in BETTER_THAN:
            rows.append([f"better than `{other}`", dataset, *_better(differences.get(other))])
        aim = f"not shown to be worse than the best of {', '.join(NOT_WORSE_THAN)}"
        rows.append([aim, dataset, *_not_worse(differences)])
    return rows


def _recovery(aim: str, planted: Records, n_operations: int) -> list[str]:
    """The row of the default search on problems with as many planted operations."""
    of_default = [
        kept
        for name, kept in planted
        if name == DEFAULT and kept.shared["dataset"] == DIGITS and len(kept.run["planted"]) == n_operations
    ]
    found = [recovered(kept.results, kept.run["planted"]) for kept in of_default]
    return [aim, DIGITS, _in_words(sum(found) >= RECOVERY * len(found) if found else None), rate_text(found)]


def _better(difference: PairedDifference | None) -> tuple[str, str]:
    if difference is None or difference.interval is None:
        return NOT_MEASURED, "-"
    return _in_words(difference.interval[1] < 0), _shown(difference)


def _not_worse(differences: Differences) -> tuple[str, str]:
    """Not shown to be worse than any of them; figures of the one with the lowest mean."""
    present = [one for name in NOT_WORSE_THAN if (one := differences.get(name)) is not None and one.interval]
    if len(present) < len(NOT_WORSE_THAN):
        return NOT_MEASURED, "-"
    best = max(present, key=lambda one: one.mean)
    return _in_words(not any(one.is_above_zero(n_choices=1) for one in present)), _shown(best)


def _in_words(is_reached: bool | None) -> str:
    return NOT_MEASURED if is_reached is None else REACHED if is_reached else NOT_REACHED


def _shown(difference: PairedDifference) -> str:
    interval = difference.interval or (difference.mean, difference.mean)
    return f"{difference.mean:+.2f} points ({interval[0]:+.2f} to {interval[1]:+.2f})"
