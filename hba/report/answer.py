"""The answer of an evaluation: what to use, and how sure that is, in plain words."""

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
MOST_TIMES, SEEDS_AFTER_ONE = 5, 5
"""Largest next step, as a multiple of the evaluation's seeds, and number of seeds to advise after a single one."""
WORDS = {
    **{"schedule": "the schedule", "search": "the policy that the search found", "none": "no augmentation"},
    **{"randaugment": "RandAugment", "trivialaugment": "TrivialAugment", "autoaugment": "AutoAugment"},
}
"""Words for rows that a sentence does not call by their names."""


@dataclass(frozen=True)
class Answer:
    """The answer of an evaluation about its first row.

    sentence: the advice; str() returns it. kind: the first row compared with the best other one, as in the verdict, but
    "no difference shown" also if there are too few test images. probabilities: for each other row, the probability that
    the first row's true error is lower (see CrossedDifference); rows in which nothing varies are missing. next_step: a
    command and its time, if more seeds would help.
    """

    sentence: str
    kind: Kind
    probabilities: Mapping[str, float]
    next_step: str | None = None

    def __str__(self) -> str:
        return self.sentence


class _Row(NamedTuple):
    """balanced: the mean error over classes. how: the first row compared with this row, empty for no difference."""

    words: str
    is_searched: bool
    error: float
    balanced: float | None
    how: str

    @property
    def with_it(self) -> str:
        return "without augmentation" if self.words == WORDS["none"] else f"with {self.words}"


def answer(results: Any, command: str = "the same command with") -> Answer | None:
    """Compare the first row with all others that have the same seeds, and say which one to use.

    results: an EvaluationResult. command: to run again with `--resume --seeds N`. Returns None before any training.

    "almost surely" stands for a probability of 0.99 or more, "probably" for 0.9 or more. The best of n other rows is
    chosen by the same numbers, so a probability p of being worse counts as 1 - n (1 - p). One seed shows no difference.
    """
    first, verdict = results.rows[0], results.verdict
    if verdict is None:
        text = f"{first.mean or 0:.1f} % test error; nothing to compare with."
        return None if first.mean is None else Answer(text, "no difference shown", {})
    rows = {row.name: row for row in results.rows}
    # Parallel trainings may end in any order, so rows with equally many seeds may have different ones.
    seeds = sorted({*first.seeds} & {*rows[verdict.against].seeds})
    same = [name for name, row in rows.items() if sorted({*first.seeds} & {*row.seeds}) == seeds]
    compared = [name for name, one in results.differences.items() if one and name in same]
    found = {name: _crossed(results, first, rows[name], seeds) for name in compared}
    chances = {name: one.probability for name, one in found.items() if one.probability is not None}

    def described(name: str) -> _Row:
        errors, balanced = (rows[name].by_seed(measure) for measure in ("test_error", "balanced_accuracy"))
        mean = 100 - float(np.mean([balanced[seed] for seed in seeds])) if {*seeds} <= {*balanced} else None
        p, n_picked = chances.get(name, 0.5) if len(seeds) > 1 else 0.5, len(compared) if name == verdict.against else 1
        how = _how(p, "better") or _how(1 - n_picked * p, "worse")
        words = WORDS.get(name, f"the recipe {name}" if name in RECIPES else name)
        is_searched, error = name not in {*RECIPES, "cutout"}, float(np.mean([errors[seed] for seed in seeds]))
        return _Row(words, is_searched, error, mean, how)

    this, others = described(first.name), {name: described(name) for name in compared}
    best, crossed, p = others[verdict.against], found[verdict.against], chances.get(verdict.against, 0.5)
    shown = [one for name, one in others.items() if one is best or name in ("none", "randaugment")]
    basis = (counted(len(seeds), "seed"), f"{results.test_images:,} test images")
    sentences = [_advice(this, best, shown, len(others), *basis), *_on_classes(first, this, best)]
    needed, is_sure = crossed.seeds_needed, best.how.startswith("almost")
    if len(seeds) == 1:
        needed = SEEDS_AFTER_ONE
        sentences.append("One seed does not show how much is luck of the training.")
    elif needed == math.inf and not is_sure and crossed.from_images > crossed.from_seeds:
        sentences.append("More test images would make this surer, not more seeds.")
    sentences += results.notes
    n, step = max(len(seeds) + 2, math.ceil(min(needed, 1e9)), results.settings.get("seeds", 0)), None
    if not is_sure and n <= MOST_TIMES * len(seeds):
        done = sum(len(row.seeds) for row in results.rows)
        seconds = results.wall_seconds / done * (n * len(results.rows) - done)
        step = f"{command} --resume --seeds {n}" + (f": about {duration(seconds)}" if seconds > 0 else "")
    tail = (1 - CONFIDENCE) / 2
    holds = 1 - p <= tail if verdict.kind == "better" else len(compared) * p <= tail
    return Answer(" ".join(sentences), verdict.kind if holds else "no difference shown", chances, step)


def _crossed(results: Any, first: Any, other: Any, seeds: Sequence[int]) -> CrossedDifference:
    n_images = results.test_images if results.error is None and results.test_images > 1 else None
    wrong = [row.mistakes(n_images or 0) if n_images else {} for row in (first, other)]
    mine, others = (np.array([1.0 * one[seed] for seed in seeds if seed in one]) for one in wrong)
    d = mine - others if len(mine) == len(others) == len(seeds) else None
    errors, other_errors = ([row.by_seed()[seed] for seed in seeds] for row in (first, other))
    return CrossedDifference.of(errors, other_errors, n_images, d)


def _how(p: float, what: str) -> str:
    """`almost surely better`, for example; empty if p is too small."""
    return "" if p < PROBABLY else f"{'almost surely' if p >= ALMOST_SURELY else 'probably'} {what}"


def _advice(this: _Row, best: _Row, shown: Sequence[_Row], n_others: int, seeds: str, images: str) -> str:
    parts, is_none = [f"{one.error:.1f} % {one.with_it}" for one in shown], this.words == WORDS["none"]
    errors = f"{this.error:.1f} % test error, {' and '.join(filter(None, [', '.join(parts[:-1]), parts[-1]]))}"
    each = [f"{one.how} than {one.words}" if one.how else f"no difference to {one.words} shown" for one in shown]
    reason = ", because nothing was shown to help" if this.error <= best.error else ", the simplest"
    basis, why = f"({seeds}, {images})", reason if is_none else ""
    if best.how.endswith("better"):
        is_same = len({one.how for one in shown}) == 1 and len(shown) == n_others
        of_all = best.how + {1: "", 2: " than both"}.get(n_others, f" than all {n_others}")
        return f"Use {this.words}{why}: {errors}; {of_all if is_same else ', '.join(each)} {basis}."
    mine, other = f"{this.error:.1f} %", f"{best.error:.1f} %"
    if best.how and is_none:
        how = best.how.replace("worse", "better")
        return f"Use {best.words}: {other} test error, {mine} without augmentation; {how} {basis}."
    if best.how:
        beside = "".join(f"; {one.error:.1f} % {one.with_it}" for one in shown if one is not best)
        return f"Use {best.words} ({other} test error), not {this.words} ({mine}), which is {best.how} {basis}{beside}."
    nothing, no_search = f"no difference that {seeds} on {images} can show", this.is_searched and not best.is_searched
    if is_none:
        return f"Use no augmentation{why}: {errors}; {nothing}."
    rest = [f"{how} ({one.error:.1f} %)" for one, how in zip(shown, each, strict=True) if one is not best and one.how]
    more = f"; {this.words} is {' and '.join(rest)}" if rest else ""
    if this.error > best.error:
        simpler = f", and {best.words} needs no search" if no_search else ""
        return f"Use {best.words} ({other} test error): {this.words} has {mine}, {nothing}{simpler}{more}."
    simpler = ", which needs no search" if no_search else ""
    return f"Use {this.words} ({mine} test error) or {best.words} ({other}){simpler}: {nothing}{more}."


def _on_classes(first: Any, this: _Row, best: _Row) -> list[str]:
    """A sentence on the mean error over classes if these are uneven, and whether it contradicts the error."""
    if this.balanced is None or best.balanced is None or not first.is_uneven:
        return []
    is_opposite = (this.error - best.error) * (this.balanced - best.balanced) < 0
    head = "But averaged over classes, it is the other way round" if is_opposite else "Averaged over classes"
    return [f"{head}: {this.balanced:.1f} % error {this.with_it}, {best.balanced:.1f} % {best.with_it}."]
