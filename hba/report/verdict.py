"""The verdict on a schedule in sentences, from the paired differences of test errors."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from hba.report.statistics import PairedDifference, Resolution

FEW_SEEDS = 5
MOST_SEEDS = 100
"""The largest number of seeds that is suggested."""
LARGE_ERROR = 0.5
"""A standard error in points above which the test images are too few to show a difference of one point."""

Kind = Literal["better", "no difference shown", "worse"]


@dataclass(frozen=True)
class BestOther:
    """The row that the schedule is compared with, picked from n_compared rows; left_out: names of the others."""

    name: str
    difference: PairedDifference
    n_compared: int
    left_out: tuple[str, ...]

    @property
    def kind(self) -> Kind:
        """`worse` only if being picked as the best of the rows does not explain it (Bonferroni)."""
        if self.difference.interval is not None and self.difference.interval[1] < 0:
            return "better"
        return "worse" if self.difference.is_above_zero(self.n_compared) else "no difference shown"


def best_other(differences: Mapping[str, PairedDifference | None]) -> BestOther | None:
    """The row with the lowest mean error, of those that share most seeds with the schedule.

    differences: by row, the schedule's error minus the row's. None where there is nothing to compare yet.
    """
    present = {name: difference for name, difference in differences.items() if difference is not None}
    if not present:
        return None
    most = max(difference.n_pairs for difference in present.values())
    paired = {name: difference for name, difference in present.items() if difference.n_pairs == most}
    best = max(paired, key=lambda name: paired[name].mean)
    return BestOther(best, paired[best], len(paired), tuple(name for name in differences if name not in paired))


@dataclass(frozen=True)
class Verdict:
    """The schedule against the best other row.

    kind: `no difference shown` also where nothing can be said, as with one seed. against: the name of that row.
    difference: the schedule's mean test error minus the row's, in percentage points: below 0, the schedule is better.
    interval: of the difference, at 95 % confidence; None without a spread. seeds: how many both have. sentence: all
    this in words; str() returns it too.
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
    """Compare the schedule with the best of the other rows; None where there is nothing to compare yet.

    A second sentence names rows that are not compared.
    """
    best = best_other(differences)
    if best is None:
        return None
    other = best.name if len(differences) == 1 else f"the best other, {best.name}"
    and_not = f" Not compared, because they have fewer seeds: {', '.join(best.left_out)}." if best.left_out else ""
    found, sentence = best.difference, f"Verdict: {_sentence(best, other)}.{and_not}"
    return Verdict(best.kind, best.name, found.mean, found.interval, found.n_pairs, sentence)


def what_it_can_tell(best: BestOther, resolution: Resolution, fresh: int) -> str:
    """Sentences after the verdict: what the interval covers, and without a clear verdict, how small a difference these
    numbers can show and what to try.

    fresh: the lowest unused seed. A new evaluation has other seeds, chosen before their numbers are seen.
    """
    difference, sentences, to_try = best.difference, [], []
    anew = f"evaluate anew with --seeds {{}} --first-seed {fresh}"
    if difference.interval is not None:
        sentences.append("The interval is over training seeds, for one schedule, one split and one test set.")
    if best.kind != "no difference shown":
        if difference.n_pairs < FEW_SEEDS:
            spread = f"{difference.n_pairs} seeds show their spread only roughly: to be sure, "
            sentences.append(f"{spread}{anew.format(2 * FEW_SEEDS)}.")
        return " ".join(sentences)
    if resolution.half_width is not None:
        sentences.append(
            f"With {resolution.n_pairs} paired seeds it reaches {resolution.half_width:.2f} points to either side; "
            f"about {resolution.seeds_for_one_point} would show a difference of one point (four times in five)"
            f"{', a rough number from so few seeds' if resolution.n_pairs < FEW_SEEDS else ''}."
        )
    if resolution.standard_error is not None:
        sentences.append(
            f"One of {resolution.test_images} test images is {resolution.one_image:.2f} points, and the standard error "
            f"of a test error of {resolution.test_error_percent:.2f} % on so many is {resolution.standard_error:.2f} "
            "points."
        )
        if resolution.standard_error > LARGE_ERROR:
            to_try.append("get more test images")
    if resolution.n_pairs < (seeds := resolution.seeds_for_one_point or 2 * FEW_SEEDS) <= MOST_SEEDS:
        to_try.insert(0, anew.format(seeds))
    return " ".join([*sentences, *([f"To try: {'; or '.join(to_try)}."] if to_try else [])])


def _sentence(best: BestOther, other: str) -> str:
    difference, n = best.difference, best.difference.n_pairs
    size = f"{abs(difference.mean):.2f} points {'lower' if difference.mean < 0 else 'higher'} test error"
    if difference.equal_pairs and difference.mean == 0:
        return f"no difference to {other}: the same test error with each of {n} seeds"
    if difference.equal_pairs:
        return f"no verdict: all {n} seeds have exactly {size} than {other}, so there is no interval"
    if difference.interval is None:
        size = f"{size} than" if difference.mean else "the same test error as"
        return f"no verdict from one seed, because a spread needs two: {size} {other}"
    low, high = difference.interval
    if low <= 0 <= high:
        interval = f"{abs(low):.2f} lower to {high:.2f} higher"
    else:
        interval = " to ".join(f"{bound:.2f}" for bound in sorted((abs(low), abs(high))))
    start = f"{best.kind} {'to' if best.kind == 'no difference shown' else 'than'} {other}"
    if best.kind == "no difference shown" and low > 0:
        start += f", which is the best of {best.n_compared} by the same numbers"
    return f"{start}: {size} (95 % interval {interval}, {n} paired seeds)"
