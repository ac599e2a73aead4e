"""The answer of an evaluation: how good its first row is, and how sure that is."""

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from hba.algorithms.race_policies import GROUPS
from hba.data.arrays import DATASET_NAMES
from hba.results.statistics import CrossedDifference
from hba.schedule.library import policy_file
from hba.schedule.recipes import RECIPES
from hba.utils.text import CONFIDENCE, counted, distinct_percents, duration

Kind = Literal["better", "no difference shown", "worse"]

ALMOST_SURELY = 0.99
"""Least probability of a difference that is almost sure."""
PROBABLY = 0.9
"""Least probability of a difference that is probable."""
SHOWN = (1 + CONFIDENCE) / 2
"""Least probability of a difference that is shown: that of an interval's end."""
MOST_TIMES = 5
"""Largest next step, as a multiple of the evaluation's seeds."""
SEEDS_AFTER_ONE = 5
"""Number of seeds to advise after a single one."""
WORDS = {
    "schedule": "the schedule",
    "search": "the policy that the search found",
    "none": "no augmentation",
    "randaugment": "RandAugment",
    "trivialaugment": "TrivialAugment",
    "autoaugment": "AutoAugment",
}
"""Words for rows that a sentence does not call by their names."""
SYMMETRIES = "symmetries"
"""The beginning of the names of rows of `hba auto` that are recipes with the symmetries
that the search has found.
"""
WITH = "+"
"""In the name of a row of `hba auto`, before each change of a recipe."""
HALF = "half"
"""The change that applies all but symmetries half as often; others are groups of
operations.
"""
REFERENCES = ("none", "randaugment")
"""Rows that the answer names even if another one is better."""


@dataclass(frozen=True)
class Answer:
    """The answer of an evaluation about its first row."""

    sentence: str
    """The first row's test error next to those of others, and how sure the difference
    is; if another row has a lower test error, how to get that one. str() returns it.
    """
    kind: Kind
    """The first row compared with the best other one; "no difference shown" also if
    nothing can be said, as with one seed.
    """
    probabilities: Mapping[str, float]
    """For each other row, the probability that the first row's true error is lower (see
    CrossedDifference). Rows in which nothing varies are missing.
    """
    next_step: str | None = None
    """A command and its time, if more seeds would help."""
    test_error: float = math.nan
    """Test error of the first row in per cent, as in the sentence."""
    against: str | None = None
    """The best other row; None if there is nothing to compare."""

    def __str__(self) -> str:
        return self.sentence


@dataclass(frozen=True)
class _Row:
    """A row over the seeds that are compared.

    error, balanced: mean errors in per cent, over images and over classes (None if
    unknown). percent: the error as text. certainty: how the first row compares with
    this one, such as `probably better`; empty if no difference is shown.
    """

    name: str
    error: float
    balanced: float | None
    percent: str
    certainty: str = ""

    @property
    def words(self) -> str:
        return words_of(self.name)

    @property
    def training(self) -> str:
        return "without augmentation" if self.name == "none" else f"with {self.words}"


def words_of(row: str) -> str:
    """What a sentence calls a row."""
    base, *changes = row.split(WITH)
    if changes and {*changes} <= {HALF, *RECIPES, *GROUPS}:
        words = [] if base == "none" else [words_of(base)]
        if n_halves := changes.count(HALF):
            words.append(
                "half as often" if n_halves == 1 else f"1/{2**n_halves} as often"
            )
        added = [WORDS.get(change, change) for change in changes if change != HALF]
        if added:
            words.append(f"{'and ' if words else ''}{' and '.join(added)}")
        return ", ".join(words)
    if row == SYMMETRIES:
        return "the symmetries that were found"
    if row.startswith(f"{SYMMETRIES}-"):
        recipe = row.removeprefix(f"{SYMMETRIES}-")
        return f"the symmetries that were found, with {words_of(recipe)}"
    return WORDS.get(row, f"the recipe {row}" if row in RECIPES else row)


def answer(
    results: Any,
    command: str = "the same command with",
    *,
    chosen: str | None = None,
    folder: Path | None = None,
    policies: Mapping[str, str] | None = None,
) -> Answer | None:
    """Compare the first row with all others that have the same seeds.

    "almost surely" stands for a probability of 0.99 or more, "probably" for 0.9 or
    more, `better` and `worse` for 0.975 or more. The best of n other rows is chosen by
    the same numbers, so a probability p of being worse counts as 1 - n (1 - p). One
    seed shows no difference, nor do seeds that all differ by the same amount.

    Args:
        results: An EvaluationResult.
        command: To run again with `--resume --seeds N`.
        chosen: Why the first row was chosen, for a run that has chosen it and keeps its
            files; None for an evaluation, whose first row is the user's.
        folder: Of the results, for a command with their settings.
        policies: Names or files of rows whose own name is not enough.

    Returns:
        The answer; None before any training of the first row.
    """
    first = results.rows[0]
    if first.mean is None:
        return None
    against = results.best_other
    if against is None:
        return _answer_of_one_row(results, chosen)
    compared = _Comparison.of(results, against)
    shown = [name for name in compared.differences if name in (against, *REFERENCES)]
    first_row, *others = compared.described([first.name, *shown])
    best = next(row for row in others if row.name == against)
    is_best = first_row.error < best.error or first_row.percent == best.percent
    n_seeds = len(compared.seeds)
    comparison = _in_words(
        first_row,
        others,
        len(compared.differences),
        counted(n_seeds, "seed"),
        f"{results.test_images:,} test images",
    )
    sentences = [f"{_lead(first_row, chosen, is_best=is_best)}: {comparison}."]
    if not is_best:
        policy = (policies or {}).get(against, against)
        sentences.append(
            _on_better_row(best, _command_to_train(policy, results, folder))
        )
    if first.is_uneven:
        sentences += _on_classes(first_row, best)
    is_sure = best.certainty.startswith("almost")
    sentences += compared.limits(is_sure=is_sure)
    sentences += results.notes
    next_step = None
    if not is_sure:
        next_step = _next_step(results, command, n_seeds, compared.seeds_needed)
    return Answer(
        " ".join(sentences),
        compared.kind,
        compared.chances,
        next_step,
        first_row.error,
        against,
    )


@dataclass(frozen=True)
class _Comparison:
    """The first row and the rows that have the same seeds.

    rows: all of the evaluation, by name. first, against: names of the first row and of
    the best other one. seeds: those that are compared. differences: the first row's
    error minus that of each row.
    """

    results: Any
    rows: Mapping[str, Any]
    first: str
    against: str
    seeds: Sequence[int]
    differences: Mapping[str, CrossedDifference]

    @staticmethod
    def of(results: Any, against: str) -> "_Comparison":
        """Compare the first row with those that share its seeds with the best other."""
        first = results.rows[0]
        rows = {row.name: row for row in results.rows}
        # Parallel trainings may end in any order, so rows with equally many seeds may
        # have different ones.
        seeds = _shared_seeds(first, rows[against])
        differences = {
            name: _crossed(results, first, rows[name], seeds)
            for name in results.compared
            if _shared_seeds(first, rows[name]) == seeds
        }
        return _Comparison(results, rows, first.name, against, seeds, differences)

    @property
    def chances(self) -> dict[str, float]:
        """By row, the probability that the first row is better, if anything varies."""
        return {
            name: difference.probability
            for name, difference in self.differences.items()
            if difference.probability is not None
        }

    @property
    def n_picked(self) -> int:
        """Of how many rows the best other one was picked."""
        return len(self.results.compared)

    @property
    def kind(self) -> Kind:
        """Whether the first row is better or worse than the best other one."""
        # Seeds that differ by the same amount say nothing about their spread.
        if self.results.compared[self.against].interval is None:
            return "no difference shown"
        return _direction(self.chances.get(self.against, 0.5), self.n_picked, SHOWN)

    @property
    def seeds_needed(self) -> float:
        """How many seeds would show a difference to the best other row."""
        if len(self.seeds) == 1:
            return SEEDS_AFTER_ONE
        return self.differences[self.against].seeds_needed

    def described(self, names: Sequence[str]) -> list[_Row]:
        """The errors of these rows, and how the first row compares with each."""
        errors = [_mean(self.rows[name].by_seed(), self.seeds) for name in names]
        percents = dict(zip(names, distinct_percents(errors), strict=True))
        described = []
        for name, error in zip(names, errors, strict=True):
            accuracies = self.rows[name].by_seed("balanced_accuracy")
            balanced = None
            if {*self.seeds} <= {*accuracies}:
                balanced = 100 - _mean(accuracies, self.seeds)
            certainty = ""
            if len(self.seeds) > 1 and percents[name] != percents[self.first]:
                n_picked = self.n_picked if name == self.against else 1
                certainty = _certainty(self.chances.get(name, 0.5), n_picked)
            described.append(_Row(name, error, balanced, percents[name], certainty))
        return described

    def limits(self, *, is_sure: bool) -> list[str]:
        """Sentences on what too few seeds or images leave open."""
        sentences = []
        crossed = self.differences[self.against]
        if len(self.seeds) == 1:
            sentences.append("One seed does not show how much is luck of the training.")
        elif (
            not is_sure
            and crossed.seeds_needed == math.inf
            and crossed.from_images > crossed.from_seeds
        ):
            sentences.append("More test images would make this surer, not more seeds.")
        left_out = [
            name for name in self.rows if name not in (self.first, *self.differences)
        ]
        if left_out:
            sentences.append(
                f"Not compared, because they have other seeds: {', '.join(left_out)}."
            )
        return sentences


def _answer_of_one_row(results: Any, chosen: str | None) -> Answer:
    """The answer if no other row has a seed of the first one yet."""
    row = results.rows[0]
    alone = _Row(row.name, row.mean, None, f"{row.mean:.1f} %")
    lead = _lead(alone, chosen, is_best=chosen is not None)
    text = f"{lead}: {alone.percent} test error; there is nothing to compare with."
    sentence = " ".join([text, *results.notes])
    return Answer(sentence, "no difference shown", {}, test_error=row.mean)


def _next_step(results: Any, command: str, n_seeds: int, needed: float) -> str | None:
    """The command that trains the seeds that are needed, and its time.

    None if it would train more than MOST_TIMES the seeds of the comparison.
    """
    seeds = max(
        n_seeds + 2, math.ceil(min(needed, 1e9)), results.settings.get("seeds", 0)
    )
    if seeds > MOST_TIMES * n_seeds:
        return None
    n_done = sum(len(row.seeds) for row in results.rows)
    n_left = seeds * len(results.rows) - n_done
    seconds = results.wall_seconds / n_done * n_left
    step = f"{command} --resume --seeds {seeds}"
    return f"{step}: about {duration(seconds)}" if seconds > 0 else step


def _shared_seeds(first: Any, other: Any) -> list[int]:
    """The seeds that two rows of an evaluation share."""
    return sorted({*first.seeds} & {*other.seeds})


def _crossed(
    results: Any, first: Any, other: Any, seeds: Sequence[int]
) -> CrossedDifference:
    """The difference of two rows over the seeds that they share."""
    errors = [first.by_seed()[seed] for seed in seeds]
    other_errors = [other.by_seed()[seed] for seed in seeds]
    n_images = results.test_images
    parts = first.image_errors(n_images)
    other_parts = other.image_errors(n_images)
    has_parts = {*seeds} <= {*parts} and {*seeds} <= {*other_parts}
    if n_images < 2 or (results.error is not None and not has_parts):
        return CrossedDifference.of(errors, other_errors, None)
    differences = None
    if has_parts:
        differences = np.array([parts[seed] - other_parts[seed] for seed in seeds])
    return CrossedDifference.of(errors, other_errors, n_images, differences)


def _mean(by_seed: Mapping[int, float], seeds: Sequence[int]) -> float:
    return float(np.mean([by_seed[seed] for seed in seeds]))


def _direction(p: float, n_picked: int, least: float) -> Kind:
    """Whether the first row is better or worse, with a probability of `least` or more.

    Args:
        p: The probability that the first row is better.
        n_picked: Of how many rows the other one is the best.
        least: The probability that shows a difference.
    """
    if p >= least:
        return "better"
    if 1 - n_picked * p >= least:
        return "worse"
    return "no difference shown"


def _certainty(p: float, n_picked: int) -> str:
    """`almost surely better`, for example; empty if no difference is shown.

    Args:
        p: The probability that the first row is better.
        n_picked: Of how many rows the other one is the best.
    """
    for least, words in ((ALMOST_SURELY, "almost surely"), (PROBABLY, "probably")):
        direction = _direction(p, n_picked, least)
        if direction != "no difference shown":
            return f"{words} {direction}"
    return ""


def _lead(row: _Row, chosen: str | None, *, is_best: bool) -> str:
    """The first words: `Use photo`, or `With photo` if another row has a lower error.

    The files of a run are those of the row that it has chosen, so this is always the
    one to use; if another row has a lower error, with the reason of the choice.
    """
    if is_best:
        return f"Use {row.words}"
    if chosen is not None:
        return f"Use {row.words}, {chosen}"
    return row.training[0].upper() + row.training[1:]


def _in_words(
    first_row: _Row, others: Sequence[_Row], n_others: int, seeds: str, images: str
) -> str:
    """The errors of these rows, and how sure their differences are."""
    *listed, last = [f"{row.percent} {row.training}" for row in others]
    parts = [", ".join(listed), last] if listed else [last]
    errors = f"{first_row.percent} test error, {' and '.join(parts)}"
    certainties = {row.certainty for row in others}
    if certainties == {""}:
        return f"{errors}; no difference that {seeds} on {images} can show"
    if len(certainties) == 1 and len(others) == n_others:
        of_all = {1: "", 2: " than both"}.get(n_others, f" than all {n_others}")
        return f"{errors}; {others[0].certainty}{of_all} ({seeds}, {images})"
    each = [_certainty_in_words(row) for row in others]
    return f"{errors}; {', '.join(each)} ({seeds}, {images})"


def _certainty_in_words(row: _Row) -> str:
    if row.certainty:
        return f"{row.certainty} than {row.words}"
    return f"no difference to {row.words} shown"


def _on_better_row(best: _Row, command: str | None) -> str:
    """A sentence on another row that has a lower error, and how to get it."""
    text = f"On the test images, {best.words} has a lower error, which may be luck"
    if best.certainty:
        certainty = best.certainty.replace("worse", "better")
        text = f"The test suggests {best.words} instead, which is {certainty}"
    train = f"run `{command}`" if command else "call hba.train in Python"
    return f"{text}; to train a network with it, {train}."


def _command_to_train(policy: str, results: Any, folder: Path | None) -> str | None:
    """The command that trains with a policy and the settings of an evaluation.

    None if no command can: without the folder of the evaluation, for a policy that is
    neither a recipe, nor a shipped schedule, nor a file, and for images in memory or
    the user's own network.
    """
    file = policy_file(policy)
    data = str(results.settings.get("data"))
    is_known = file is None or file.exists()
    has_data = data in DATASET_NAMES or Path(data).exists()
    if folder is None or results.own_network or not (is_known and has_data):
        return None
    return shlex.join(["hba", "train", policy, "--config", str(folder)])


def _on_classes(row: _Row, best: _Row) -> list[str]:
    """A sentence on the mean errors over classes; empty if they are unknown."""
    if row.balanced is None or best.balanced is None:
        return []
    mine, other = distinct_percents([row.balanced, best.balanced])
    are_unequal = row.percent != best.percent and mine != other
    is_lower = row.error < best.error, row.balanced < best.balanced
    head = "Averaged over classes"
    if are_unequal and is_lower[0] != is_lower[1]:
        head = "But averaged over classes, it is the other way round"
    return [f"{head}: {mine} error {row.training}, {other} {best.training}."]
