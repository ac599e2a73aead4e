"""The result of a contest: the chosen policy, its answer, and its files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hba.errors import RunError
from hba.own_training.ledger import Ledger
from hba.own_training.race import compared, tests
from hba.results.answer import ALMOST_SURELY, PROBABLY, SHOWN, Kind, words_of
from hba.results.statistics import CrossedDifference
from hba.schedule.library import POLICY_NAME
from hba.schedule.schedule import Schedule
from hba.utils.text import counted


@dataclass(frozen=True)
class ContestResult:
    """The result of a contest."""

    chosen: str
    """Name of the chosen policy."""
    policy: Schedule
    """The chosen policy."""
    kind: Kind
    """The chosen policy compared with the best reference."""
    sentence: str
    """The scores of the chosen policy and of the references, and how sure their
    differences are.
    """
    scores: Mapping[str, Sequence[float]]
    """By policy, the mean score of the test's examples, for each of its seeds."""
    differences: Mapping[str, CrossedDifference]
    """By reference, its scores minus those of the chosen policy."""
    folder: Path
    """The folder of the contest."""

    def __str__(self) -> str:
        return self.sentence


def result_of(ledger: Ledger, policy: Schedule, folder: Path) -> ContestResult:
    """The result of a contest whose test has ended.

    Args:
        ledger: With the chosen policy, and the trainings of the test.
        policy: The chosen policy.
        folder: Of the contest.
    """
    chosen = ledger.chosen
    assert chosen is not None
    seeds = ledger.seeds_of_test
    by_policy = {name: ledger.scores(name, seeds, 1.0) for name in ledger.tested}
    n_examples = by_policy[chosen].shape[1]
    means = {
        name: scores[:, tests(n_examples)].mean(axis=1).tolist()
        for name, scores in by_policy.items()
    }
    others = [name for name in by_policy if name != chosen]
    differences = {
        name: compared(by_policy[chosen], by_policy[name]) for name in others
    }
    best = max(others, key=lambda name: float(np.mean(means[name])))
    return ContestResult(
        chosen,
        policy,
        _kind(differences[best], len(others)),
        _sentence(chosen, means, differences, int(tests(n_examples).sum())),
        means,
        differences,
        folder,
    )


def read_result(folder: Path) -> ContestResult:
    """The result of the contest in a folder.

    Raises:
        RunError: If its test has not ended.
    """
    ledger = Ledger.read(folder)
    if not ledger.seeds_of_test or not (folder / POLICY_NAME).exists():
        raise RunError(f"the contest in {folder} has not ended; resume it")
    return result_of(ledger, Schedule.load(folder / POLICY_NAME), folder)


def _kind(difference: CrossedDifference, n_picked: int, least: float = SHOWN) -> Kind:
    """Whether the chosen policy is better or worse, with a probability of `least` or
    more.

    n_picked: of how many references the other one is the best.
    """
    probability = difference.probability
    if probability is None:
        return "no difference shown"
    if probability >= least:
        return "better"
    if 1 - n_picked * probability >= least:
        return "worse"
    return "no difference shown"


def _sentence(
    chosen: str,
    means: Mapping[str, Sequence[float]],
    differences: Mapping[str, CrossedDifference],
    n_examples: int,
) -> str:
    def score(name: str) -> str:
        return f"{np.mean(means[name]):.4g}"

    with_others = [
        f"{score(name)} without augmentation"
        if name == "none"
        else f"{score(name)} with {words_of(name)}"
        for name in differences
    ]
    each = [_certainty(name, difference) for name, difference in differences.items()]
    examples = f", {n_examples:,} examples" if n_examples > 1 else ""
    n_seeds = counted(len(means[chosen]), "seed")
    return (
        f"Use {words_of(chosen)}: score {score(chosen)}, {' and '.join(with_others)};"
        f" {', '.join(each)} ({n_seeds}{examples})."
    )


def _certainty(name: str, difference: CrossedDifference) -> str:
    for least, words in ((ALMOST_SURELY, "almost surely"), (PROBABLY, "probably")):
        kind = _kind(difference, 1, least)
        if kind != "no difference shown":
            return f"{words} {kind} than {words_of(name)}"
    return f"no difference to {words_of(name)} shown"
