"""The answer of an evaluation: what to use and how sure that is, in the words of a colleague."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hba.report.statistics import CrossedDifference
from hba.report.verdict import Kind
from hba.schedule.recipes import RECIPES
from hba.utils.text import CONFIDENCE, counted, duration

ALMOST_SURELY, PROBABLY = 0.99, 0.9
UNEVEN = 2
"""Classes are uneven if the largest has at least this many times the test images of the smallest."""
MOST_TIMES, SEEDS_AFTER_ONE = 5, 5
"""A next step has at most so many times the seeds of the evaluation, and so many after a single one."""
NONE, RANDAUGMENT = "none", "randaugment"
WORDS: Mapping[str, str] = {
    **{"schedule": "the schedule", NONE: "no augmentation", RANDAUGMENT: "RandAugment"},
    **{"trivialaugment": "TrivialAugment", "autoaugment": "AutoAugment", "cutout": "Cutout"},
}
"""Of rows that a sentence does not call by their names."""


@dataclass(frozen=True)
class Answer:
    """What an evaluation says about its first row.

    sentence: advice; str() returns it. kind: the first row against the best other one, as in the verdict, but "no
    difference shown" also where the test images are too few. probabilities: by other row, that the first row's true
    error is lower, as CrossedDifference has it; rows without a spread are missing. next_step: a command and its time,
    where more seeds would help.
    """

    sentence: str
    kind: Kind
    probabilities: Mapping[str, float]
    next_step: str | None = None

    def __str__(self) -> str:
        return self.sentence


class _Row(NamedTuple):
    """balanced: the error as the mean over classes. how: the first row compared with it, empty for no difference."""

    words: str
    is_searched: bool
    error: float
    balanced: float | None
    how: str = ""

    @property
    def with_it(self) -> str:
        return "without augmentation" if self.words == WORDS[NONE] else f"with {self.words}"


def answer(
    results: Any, names: Mapping[str, str] | None = None, command: str = "the same command with"
) -> Answer | None:
    """Compare the first row with all others that have as many seeds, and say which one to use.

    results: an EvaluationResult. names: words for rows, such as {"policy": "the policy that the search found"}.
    command: to which the next step adds `--resume --seeds N`. None before the first training.

    "almost surely" stands for a probability of 0.99 or more where the paired t-test over seeds shows the difference
    too, "probably" for 0.9 or more. The best of n other rows was picked by the same numbers, so being worse than it is
    held against 1 - n (1 - probability). A single seed shows no difference.
    """
    first, verdict = results.rows[0], results.verdict
    if verdict is None:
        text = f"{first.mean or 0:.1f} % test error; nothing to compare with."
        return None if first.mean is None else Answer(text, "no difference shown", {})
    compared = {name: one for name, one in results.differences.items() if one and one.n_pairs == verdict.seeds}
    rows = {row.name: row for row in results.rows if row is first or row.name in compared}
    seeds = sorted(set.intersection(*(set(row.seeds) for row in rows.values())))
    found = {name: _crossed(results, first, rows[name], seeds) for name in compared}
    chances = {name: one.probability for name, one in found.items() if one.probability is not None}

    def worded(name: str) -> _Row:
        balanced = rows[name].by_seed("balanced_accuracy")
        words = (names or {}).get(name) or WORDS.get(name, name)
        error = float(np.mean([rows[name].by_seed()[seed] for seed in seeds]))
        mean = 100 - float(np.mean([balanced[seed] for seed in seeds])) if {*seeds} <= {*balanced} else None
        how = ""
        if name in chances and len(seeds) > 1:
            n_picked = len(compared) if name == verdict.against else 1
            how = _how(chances[name], 1 - n_picked * chances[name], compared[name].interval)
        return _Row(words, name == "schedule" or name not in {*RECIPES, *WORDS}, error, mean, how)

    this, others = worded(first.name), {name: worded(name) for name in compared}
    best, crossed, p = others[verdict.against], found[verdict.against], chances.get(verdict.against, 0.5)
    shown = [one for name, one in others.items() if one is best or name in (NONE, RANDAUGMENT)]
    images, is_sure = f"{results.test_images:,} test images", best.how.startswith("almost")
    sentences = [_advice(this, best, shown, len(others), counted(len(seeds), "seed"), images)]
    sentences += _on_classes(first, this, best)
    needed = crossed.seeds_needed
    if needed == math.inf and not is_sure and crossed.from_images > crossed.from_seeds:
        sentences.append("More seeds would not tell them apart, but more test images might.")
    sentences += ["One seed does not show how much is luck of the training."] if len(seeds) == 1 else []
    sentences += [] if results.error is None else [f"Test error: {results.error}."]
    sentences += [f"{warning}." for warning in results.warnings]
    tail = (1 - CONFIDENCE) / 2
    holds = 1 - p <= tail if verdict.kind == "better" else len(compared) * p <= tail
    step = None if is_sure else _next_step(results, needed, len(seeds), command)
    return Answer(" ".join(sentences), verdict.kind if holds else "no difference shown", chances, step)


def _crossed(results: Any, first: Any, other: Any, seeds: Sequence[int]) -> CrossedDifference:
    n_images = results.test_images if results.error is None and results.test_images > 1 else None
    wrong = [row.mistakes(n_images or 0) if n_images else {} for row in (first, other)]
    mine, others = (np.array([1.0 * one[seed] for seed in seeds if seed in one]) for one in wrong)
    d = mine - others if len(mine) == len(others) == len(seeds) else None
    errors, other_errors = ([row.by_seed()[seed] for seed in seeds] for row in (first, other))
    return CrossedDifference.of(errors, other_errors, n_images, d)


def _how(better: float, worse: float, interval: tuple[float, float] | None) -> str:
    """The two probabilities in words; nothing where neither is large enough. interval: of the paired t-test."""
    is_shown = interval is not None and not interval[0] <= 0 <= interval[1]
    for chance, what in ((better, "better"), (worse, "worse")):
        if chance >= PROBABLY:
            return f"{'almost surely' if chance >= ALMOST_SURELY and is_shown else 'probably'} {what}"
    return ""


def _advice(this: _Row, best: _Row, shown: Sequence[_Row], n_others: int, seeds: str, images: str) -> str:
    """What to use, with the errors of the rows, and how sure that is."""
    parts, is_none = [f"{one.error:.1f} % {one.with_it}" for one in shown], this.words == WORDS[NONE]
    errors = f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else parts[0]
    each = [f"{one.how} than {one.words}" if one.how else f"no difference to {one.words} shown" for one in shown]
    if best.how.endswith("better"):
        is_same = len({one.how for one in shown}) == 1 and len(shown) == n_others
        of_all = best.how + {1: "", 2: " than both"}.get(n_others, f" than all {n_others}")
        why, how = ", because nothing helped" if is_none else "", of_all if is_same else ", ".join(each)
        return f"Use {this.words}{why}: {this.error:.1f} % test error, {errors}; {how} ({seeds}, {images})."
    if best.how and is_none:
        return (
            f"Use {best.words}: {best.error:.1f} % test error, {this.error:.1f} % without augmentation; "
            f"{best.how.replace('worse', 'better')} ({seeds}, {images})."
        )
    if best.how:
        how = best.how if len(shown) == 1 else f"{best.how} than {best.words}"
        return f"Do not use {this.words}: {this.error:.1f} % test error, {errors}; {how} ({seeds}, {images})."
    nothing = f"no difference that {seeds} on {images} can show"
    if is_none:
        return f"Use no augmentation, because nothing helped: {this.error:.1f} % test error, {errors}; {nothing}."
    rest = [f"{how} ({one.error:.1f} %)" for one, how in zip(shown, each, strict=True) if one is not best and one.how]
    more, no_search = (
        f"; {this.words} is {' and '.join(rest)}" if rest else "",
        this.is_searched and not best.is_searched,
    )
    mine, other = f"{this.error:.1f} %", f"{best.error:.1f} %"
    if this.error > best.error:
        simpler = f", and {best.words} needs no search" if no_search else ""
        return f"Use {best.words} ({other} test error): {this.words} has {mine}, {nothing}{simpler}{more}."
    simpler = ", which needs no search" if no_search else ""
    return f"Use {this.words} ({mine} test error) or {best.words} ({other}){simpler}: {nothing}{more}."


def _on_classes(first: Any, this: _Row, best: _Row) -> list[str]:
    """The error as the mean over the classes where these are uneven, and whether it says the opposite."""
    images = next((one.matrix().sum(1) for one in first.confusion if one is not None), np.ones(1))
    if this.balanced is None or best.balanced is None or images.max() < UNEVEN * images[images > 0].min():
        return []
    is_opposite = (this.error - best.error) * (this.balanced - best.balanced) < 0
    head = "But averaged over the uneven classes, it is the other way round" if is_opposite else "Averaged over classes"
    return [f"{head}: {this.balanced:.1f} % error {this.with_it}, {best.balanced:.1f} % {best.with_it}."]


def _next_step(results: Any, needed: float | None, n_seeds: int, command: str) -> str | None:
    """More seeds with their time; None where the evaluation would take too many times as long."""
    n = SEEDS_AFTER_ONE if needed is None else max(n_seeds + 2, math.ceil(min(needed, 1e9)))
    if n > MOST_TIMES * n_seeds:
        return None
    done = sum(len(row.seeds) for row in results.rows)
    seconds = results.wall_seconds / done * (n * len(results.rows) - done)
    return f"{command} --resume --seeds {n}" + (f": about {duration(seconds)}" if seconds > 0 else "")
