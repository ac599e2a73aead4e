"""The verdict on a schedule, as a sentence, from the paired differences of test errors."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from hba.results.statistics import PairedDifference
from hba.utils.text import CONFIDENCE, size_of, t_quantile

Kind = Literal["better", "no difference shown", "worse"]


@dataclass(frozen=True)
class Verdict:
    """The schedule compared with the best other row.

    kind: `worse` only if the choice of the best row does not explain it (Bonferroni);
    `no difference shown` also if nothing can be said, as with one seed. against: the
    name of the other row. difference: the schedule's mean test error minus the row's,
    in percentage points; below 0, the schedule is better. interval: of the difference,
    at 95 % confidence; None if nothing varies. seeds: how many both have. sentence: the
    verdict in words; str() returns it.
    """

    kind: Kind
    against: str
    difference: float
    interval: tuple[float, float] | None
    seeds: int
    sentence: str

    def __str__(self) -> str:
        return self.sentence


def verdict(differences: Mapping[str, PairedDifference | None]) -> Verdict | None:
    """Compare the schedule with the row of the lowest mean error among those that share
    most seeds with it.

    differences: by row, the schedule's error minus the row's. Returns None if there is
    nothing to compare yet. A second sentence names rows that are not compared.
    """
    most = max(
        (one.n_pairs for one in differences.values() if one is not None), default=0
    )
    compared = {
        name: one
        for name, one in differences.items()
        if one is not None and one.n_pairs == most
    }
    if not compared:
        return None
    against = max(compared, key=lambda name: compared[name].mean)
    found, kind = compared[against], _kind(compared[against], len(compared))
    other = against if len(differences) == 1 else f"the best other, {against}"
    if (
        kind == "no difference shown"
        and found.interval is not None
        and found.interval[0] > 0
    ):
        other += f", which is the best of {len(compared)} by the same numbers"
    sentence = (
        f"Verdict: {kind} {'to' if kind == 'no difference shown' else 'than'} {other}:"
        f" {_size(found)}."
    )
    if left_out := [name for name in differences if name not in compared]:
        sentence += (
            f" Not compared, because they have fewer seeds: {', '.join(left_out)}."
        )
    return Verdict(kind, against, found.mean, found.interval, most, sentence)


def _kind(found: PairedDifference, n_compared: int) -> Kind:
    if found.interval is None:
        return "no difference shown"
    standard_error = (found.interval[1] - found.mean) / t_quantile(
        found.n_pairs - 1, CONFIDENCE
    )
    # The row was chosen as the best of n_compared (Bonferroni).
    reach = standard_error * t_quantile(
        found.n_pairs - 1, 1 - (1 - CONFIDENCE) / n_compared
    )
    return (
        "better"
        if found.interval[1] < 0
        else "worse"
        if found.mean > reach
        else "no difference shown"
    )


def _size(found: PairedDifference) -> str:
    """`0.52 points lower test error (95 % interval 0.11 to 0.93, 5 paired seeds)`."""
    size = (
        f"{size_of(found.mean, 2)} points {'lower' if found.mean < 0 else 'higher'}"
        " test error"
    )
    size = size if found.mean else "the same mean test error"
    if found.interval is None:
        why = (
            f"the same with all {found.n_pairs} seeds"
            if found.n_pairs > 1
            else "from one seed, a spread needs two"
        )
        return f"{size} (no interval: {why})"
    return f"{size} (95 % interval {found.between(2)}, {found.n_pairs} paired seeds)"
