"""The answer of an evaluation: how good its first row is, and how sure that is."""

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hba.data.arrays import DATASET_NAMES
from hba.results.statistics import CrossedDifference
from hba.results.verdict import Kind
from hba.schedule.library import policy_file
from hba.schedule.recipes import RECIPES
from hba.utils.text import CONFIDENCE, counted, distinct_percents, duration

ALMOST_SURELY, PROBABLY = 0.99, 0.9
MOST_TIMES, SEEDS_AFTER_ONE = 5, 5
"""Largest next step, as a multiple of the evaluation's seeds, and number of seeds to
advise after a single one.
"""
WORDS = {
    **{
        "schedule": "the schedule",
        "search": "the policy that the search found",
        "none": "no augmentation",
    },
    **{
        "randaugment": "RandAugment",
        "trivialaugment": "TrivialAugment",
        "autoaugment": "AutoAugment",
    },
}
"""Words for rows that a sentence does not call by their names."""
REFERENCES = ("none", "randaugment")
"""Rows that the answer names even if another one is better."""


@dataclass(frozen=True)
class Answer:
    """The answer of an evaluation about its first row.

    sentence: the first row's test error next to those of others, and how sure the
    difference is; if another row has a lower test error, how to get that one. str()
    returns it. kind: the first row compared with the best other one, as in the
    verdict, but "no difference shown" also if there are too few test images.
    probabilities: for each other row, the probability that the first row's true
    error is lower (see CrossedDifference); rows in which nothing varies are missing.
    next_step: a command and its time, if more seeds would help. test_error: of the
    first row in per cent, as in the sentence.
    """

    sentence: str
    kind: Kind
    probabilities: Mapping[str, float]
    next_step: str | None = None
    test_error: float = math.nan

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
    return WORDS.get(row, f"the recipe {row}" if row in RECIPES else row)


def answer(
    results: Any,
    command: str = "the same command with",
    *,
    chosen: str | None = None,
    folder: Path | None = None,
    policies: Mapping[str, str] | None = None,
) -> Answer | None:
    """Compare the first row with all others that have the same seeds, and say how good
    it is.

    results: an EvaluationResult. command: to run again with `--resume --seeds N`.
    chosen: why the first row was chosen, for a run that has chosen it and keeps its
    files; None for an evaluation, whose first row is the user's. folder: of the
    results, for a command with their settings. policies: the names or files of rows
    whose own name is not enough. Returns None before any training of the first row.

    "almost surely" stands for a probability of 0.99 or more, "probably" for 0.9 or
    more. The best of n other rows is chosen by the same numbers, so a probability p
    of being worse counts as 1 - n (1 - p). One seed shows no difference.
    """
    first, verdict = results.rows[0], results.verdict
    if first.mean is None:
        return None
    if verdict is None:
        alone = _Row(first.name, first.mean, None, f"{first.mean:.1f} %")
        lead = _lead(alone, chosen, is_best=chosen is not None)
        text = f"{lead}: {alone.percent} test error; there is nothing to compare with."
        return Answer(text, "no difference shown", {}, test_error=first.mean)
    rows = {row.name: row for row in results.rows}
    against = verdict.against
    # Parallel trainings may end in any order, so rows with equally many seeds may
    # have different ones.
    seeds = sorted({*first.seeds} & {*rows[against].seeds})
    compared = [
        name
        for name, difference in results.differences.items()
        if difference and sorted({*first.seeds} & {*rows[name].seeds}) == seeds
    ]
    differences = {
        name: _crossed(results, first, rows[name], seeds) for name in compared
    }
    chances = {
        name: difference.probability
        for name, difference in differences.items()
        if difference.probability is not None
    }
    shown = [name for name in compared if name in (against, *REFERENCES)]
    errors = {name: _mean(rows[name].by_seed(), seeds) for name in (first.name, *shown)}
    percents = dict(zip(errors, distinct_percents([*errors.values()]), strict=True))

    def described(name: str) -> _Row:
        accuracies = rows[name].by_seed("balanced_accuracy")
        has_all = {*seeds} <= {*accuracies}
        balanced = 100 - _mean(accuracies, seeds) if has_all else None
        certainty = ""
        if len(seeds) > 1 and percents[name] != percents[first.name]:
            n_picked = len(compared) if name == against else 1
            certainty = _certainty(chances.get(name, 0.5), n_picked)
        return _Row(name, errors[name], balanced, percents[name], certainty)

    this, others = described(first.name), {name: described(name) for name in shown}
    best = others[against]
    is_best = this.error < best.error or this.percent == best.percent
    basis = (counted(len(seeds), "seed"), f"{results.test_images:,} test images")
    comparison = _comparison(this, [*others.values()], len(compared), *basis)
    sentences = [f"{_lead(this, chosen, is_best=is_best)}: {comparison}."]
    if not is_best:
        policy = (policies or {}).get(against, against)
        sentences.append(
            _on_better_row(best, _command_to_train(policy, results, folder))
        )
    if first.is_uneven:
        sentences += _on_classes(this, best)
    crossed, p = differences[against], chances.get(against, 0.5)
    needed, is_sure = crossed.seeds_needed, best.certainty.startswith("almost")
    if len(seeds) == 1:
        needed = SEEDS_AFTER_ONE
        sentences.append("One seed does not show how much is luck of the training.")
    elif (
        needed == math.inf and not is_sure and crossed.from_images > crossed.from_seeds
    ):
        sentences.append("More test images would make this surer, not more seeds.")
    sentences += results.notes
    n, step = (
        max(
            len(seeds) + 2,
            math.ceil(min(needed, 1e9)),
            results.settings.get("seeds", 0),
        ),
        None,
    )
    if not is_sure and n <= MOST_TIMES * len(seeds):
        done = sum(len(row.seeds) for row in results.rows)
        seconds = results.wall_seconds / done * (n * len(results.rows) - done)
        step = f"{command} --resume --seeds {n}" + (
            f": about {duration(seconds)}" if seconds > 0 else ""
        )
    tail = (1 - CONFIDENCE) / 2
    holds = 1 - p <= tail if verdict.kind == "better" else len(compared) * p <= tail
    kind: Kind = verdict.kind if holds else "no difference shown"
    return Answer(" ".join(sentences), kind, chances, step, this.error)


def _crossed(
    results: Any, first: Any, other: Any, seeds: Sequence[int]
) -> CrossedDifference:
    n_images = (
        results.test_images
        if results.error is None and results.test_images > 1
        else None
    )
    wrong = [row.mistakes(n_images or 0) if n_images else {} for row in (first, other)]
    mine, others = (
        np.array([1.0 * one[seed] for seed in seeds if seed in one]) for one in wrong
    )
    d = mine - others if len(mine) == len(others) == len(seeds) else None
    errors, other_errors = (
        [row.by_seed()[seed] for seed in seeds] for row in (first, other)
    )
    return CrossedDifference.of(errors, other_errors, n_images, d)


def _mean(by_seed: Mapping[int, float], seeds: Sequence[int]) -> float:
    return float(np.mean([by_seed[seed] for seed in seeds]))


def _certainty(p: float, n_picked: int) -> str:
    """`almost surely better`, for example; empty if no difference is shown.

    p: the probability that the first row is better. n_picked: of how many rows the
    other one is the best.
    """
    for probability, word in ((p, "better"), (1 - n_picked * p, "worse")):
        if probability >= ALMOST_SURELY:
            return f"almost surely {word}"
        if probability >= PROBABLY:
            return f"probably {word}"
    return ""


def _lead(this: _Row, chosen: str | None, *, is_best: bool) -> str:
    """The first words: `Use photo`, or `With photo` if another row has a lower error.

    The files of a run are those of the row that it has chosen, so this is always the
    one to use; if another row has a lower error, with the reason of the choice.
    """
    if is_best:
        return f"Use {this.words}"
    if chosen is not None:
        return f"Use {this.words}, {chosen}"
    return this.training[0].upper() + this.training[1:]


def _comparison(
    this: _Row, others: Sequence[_Row], n_others: int, seeds: str, images: str
) -> str:
    """The errors of these rows, and how sure their differences are."""
    *listed, last = [f"{row.percent} {row.training}" for row in others]
    parts = [", ".join(listed), last] if listed else [last]
    errors = f"{this.percent} test error, {' and '.join(parts)}"
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
    file, data = policy_file(policy), str(results.settings.get("data"))
    is_known = file is None or file.exists()
    has_data = data in DATASET_NAMES or Path(data).exists()
    if folder is None or results.own_network or not (is_known and has_data):
        return None
    return shlex.join(["hba", "train", policy, "--config", str(folder)])


def _on_classes(this: _Row, best: _Row) -> list[str]:
    """A sentence on the mean errors over classes; empty if they are unknown."""
    if this.balanced is None or best.balanced is None:
        return []
    mine, other = distinct_percents([this.balanced, best.balanced])
    are_unequal = this.percent != best.percent and mine != other
    is_lower = this.error < best.error, this.balanced < best.balanced
    head = "Averaged over classes"
    if are_unequal and is_lower[0] != is_lower[1]:
        head = "But averaged over classes, it is the other way round"
    return [f"{head}: {mine} error {this.training}, {other} {best.training}."]
