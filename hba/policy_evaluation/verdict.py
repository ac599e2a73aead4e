"""The verdict on a schedule in sentences, from the paired differences of test errors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from hba.policy_evaluation.statistics import PairedDifference, Resolution

FEW_SEEDS = 5
MOST_SEEDS = 100
"""The largest number of seeds that is suggested."""
LARGE_ERROR = 0.5
"""A standard error in points above which the test images are too few to show a difference of one point."""
WITHOUT_A_SEARCH = ("randaugment", "trivialaugment", "autoaugment")
SIMPLER = ("none", "random", "random-point", "static", "final", "only-augmentation", "only-regularization")
"""Rows that are simpler than the schedule, beside those without a search."""
NOTHING_FOUND = ("none", "cutout", "random", "random-point", "middle", "shuffled")
"""Rows that contain nothing that the search has found."""


@dataclass(frozen=True)
class BestOther:
    """The row that the schedule is compared with, picked from n_compared rows; left_out: names of the others."""

    name: str
    difference: PairedDifference
    n_compared: int
    left_out: tuple[str, ...]


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
    left_out = tuple(name for name in differences if name not in paired)
    return BestOther(best, paired[best], len(paired), left_out)


Kind = Literal["better", "no difference shown", "worse"]


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
    """Compare the schedule with the best of the other rows, which is picked by the same numbers.

    The best of several rows is low by chance too, so `worse` needs a difference that this does not explain
    (Bonferroni). A second sentence names rows that are not compared. None where there is nothing to compare yet.
    """
    best = best_other(differences)
    if best is None:
        return None
    other = best.name if len(differences) == 1 else f"the best other, {best.name}"
    and_not = f" Not compared, because they have fewer seeds: {', '.join(best.left_out)}." if best.left_out else ""
    difference = best.difference
    return Verdict(
        kind=_kind(difference, best.n_compared),
        against=best.name,
        difference=difference.mean,
        interval=difference.interval,
        seeds=difference.n_pairs,
        sentence=f"Verdict: {_sentence(difference, other, best.n_compared)}.{and_not}",
    )


def _kind(difference: PairedDifference, n_others: int) -> Kind:
    if difference.interval is not None and difference.interval[1] < 0:
        return "better"
    return "worse" if difference.is_above_zero(n_others) else "no difference shown"


def what_it_can_tell(best: BestOther, resolution: Resolution, rows: Sequence[str], fresh: int) -> str:
    """Sentences after the verdict: what the interval covers, and without a clear verdict, how small a difference these
    numbers can show and what to try. fresh: the lowest seed that is unused.
    """
    difference, sentences = best.difference, []
    if difference.interval is not None:
        sentences.append("The interval is over training seeds, for one schedule, one split and one test set.")
    if _kind(difference, best.n_compared) == "no difference shown":
        sentences += _of_seeds(resolution)
        sentences += [*_of_test_images(resolution), _to_try(resolution, best.name, rows, fresh)]
    elif difference.n_pairs < FEW_SEEDS:
        sentences.append(
            f"{difference.n_pairs} seeds show their spread only roughly: to be sure, evaluate anew with --seeds "
            f"{2 * FEW_SEEDS} --first-seed {fresh}."
        )
    return " ".join(sentences)


def _of_seeds(resolution: Resolution) -> list[str]:
    if resolution.n_pairs == 1:
        return []
    if resolution.half_width is None:
        return ["Without a spread, these numbers are too few to tell."]
    return [
        f"With {resolution.n_pairs} paired seeds it reaches {resolution.half_width:.2f} points to either side; about "
        f"{resolution.seeds_for_one_point} would show a difference of one point (four times in five)"
        f"{', a rough number from so few seeds' if resolution.n_pairs < FEW_SEEDS else ''}."
    ]


def _of_test_images(resolution: Resolution) -> list[str]:
    if resolution.test_images is None:
        return []
    return [
        f"One of {resolution.test_images} test images is {resolution.one_image:.2f} points, and the standard error of "
        f"a test error of {resolution.test_error_percent:.2f} % on so many is {resolution.standard_error:.2f} points."
    ]


def _to_try(resolution: Resolution, best: str, rows: Sequence[str], fresh: int) -> str:
    """Suggests a new evaluation of other seeds, not more seeds: they must be chosen before their numbers are seen."""
    sharper, ways = [], []
    seeds = resolution.seeds_for_one_point or 2 * FEW_SEEDS
    if resolution.n_pairs < seeds <= MOST_SEEDS:
        sharper.append(f"evaluate anew with --seeds {seeds} --first-seed {fresh}")
    if resolution.standard_error is not None and resolution.standard_error > LARGE_ERROR:
        sharper.append("get more test images")
    if best in NOTHING_FOUND:
        ways.append("search anew with more --epochs, if hba show says that the search was too short or did not overfit")
    if best in (*WITHOUT_A_SEARCH, "cutout", "middle"):
        ways.append(f"use {best}, which needs no search")
    elif best in SIMPLER:
        ways.append(f"use {best}, which is simpler")
    if not set(WITHOUT_A_SEARCH) & set(rows):
        ways.append("compare with --against randaugment, which needs no search")
    was_enough = resolution.seeds_for_one_point is not None and resolution.n_pairs >= resolution.seeds_for_one_point
    told = ["One point would probably have been shown."] if was_enough and not sharper else []
    return " ".join([*told, *([f"To try: {'; or '.join([*sharper, *ways])}."] if sharper or ways else [])])


def _sentence(difference: PairedDifference, other: str, n_others: int) -> str:
    n = difference.n_pairs
    if difference.equal_pairs and difference.mean == 0:
        return f"no difference to {other}: the same test error with each of {n} seeds"
    if difference.equal_pairs:
        size = _size(difference.mean)
        return f"no verdict: all {n} seeds have exactly {size} than {other}, so there is no interval"
    if difference.interval is None:
        size = f"{_size(difference.mean)} than" if difference.mean else "the same test error as"
        return f"no verdict from one seed, because a spread needs two: {size} {other}"
    low, high = difference.interval
    if low <= 0 <= high:
        interval = f"{abs(low):.2f} lower to {high:.2f} higher"
    else:
        interval = " to ".join(f"{bound:.2f}" for bound in sorted((abs(low), abs(high))))
    kind = _kind(difference, n_others)
    start = f"{kind} to {other}" if kind == "no difference shown" else f"{kind} than {other}"
    if kind == "no difference shown" and low > 0:
        start += f", which is the best of {n_others} by the same numbers"
    return f"{start}: {_size(difference.mean)} (95 % interval {interval}, {n} paired seeds)"


def _size(difference: float) -> str:
    return f"{abs(difference):.2f} points {'lower' if difference < 0 else 'higher'} test error"
