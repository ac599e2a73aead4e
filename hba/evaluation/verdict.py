"""What a table of test errors comes to, in one plain sentence."""

from collections.abc import Mapping

from hba.evaluation.paired import PairedDifference


def verdict(differences: Mapping[str, PairedDifference | None]) -> str | None:
    """The schedule against the best of the other rows. differences: by row, the schedule's error minus the row's.

    The best is the one with the lowest mean over the seeds that it shares with the schedule, of those that share most;
    a second sentence names the others. It is picked by the same numbers, which is hard on the schedule: `worse` takes a
    difference that this does not explain (Bonferroni). None where there is nothing to compare yet.
    """
    present = {name: difference for name, difference in differences.items() if difference is not None}
    if not present:
        return None
    most = max(difference.n_pairs for difference in present.values())
    paired = {name: difference for name, difference in present.items() if difference.n_pairs == most}
    best = max(paired, key=lambda name: paired[name].mean)
    other = best if len(differences) == 1 else f"the best other, {best}"
    left_out = [name for name in differences if name not in paired]
    and_not = f" Not compared, because they have fewer seeds: {', '.join(left_out)}." if left_out else ""
    return f"Verdict: {_sentence(paired[best], other, len(paired))}.{and_not}"


def _sentence(difference: PairedDifference, other: str, n_others: int) -> str:
    n = difference.n_pairs
    if difference.equal_pairs and difference.mean == 0:
        return f"no difference to {other}: the same test error with each of {n} seeds"
    if difference.equal_pairs:
        size = _size(difference.mean)
        return f"no verdict, for want of a spread: all {n} seeds have {size} than {other}, by the same number"
    if difference.interval is None:
        size = f"{_size(difference.mean)} than" if difference.mean else "the same test error as"
        return f"no verdict from one seed, because a spread needs two: {size} {other}"
    low, high = difference.interval
    if low <= 0 <= high:
        interval = f"{abs(low):.2f} lower to {high:.2f} higher"
    else:
        interval = " to ".join(f"{bound:.2f}" for bound in sorted((abs(low), abs(high))))
    if high < 0:
        start = f"better than {other}"
    elif difference.is_above_zero(n_others):
        start = f"worse than {other}"
    elif low > 0:
        start = f"no difference shown to {other}, which is the best of {n_others} by the same numbers"
    else:
        start = f"no difference shown to {other}"
    return f"{start}: {_size(difference.mean)} (95 % interval {interval}, {n} paired seeds)"


def _size(difference: float) -> str:
    return f"{abs(difference):.2f} points {'lower' if difference < 0 else 'higher'} test error"
