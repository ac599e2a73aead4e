"""The sentence below the table, for planted test errors."""

import pytest

from hba.evaluation.paired import PairedDifference
from hba.evaluation.verdict import verdict

SCHEDULE = [1.0, 1.2, 1.1, 0.9, 1.0]


def verdict_on(**others: list[float]) -> str | None:
    errors = dict(enumerate(SCHEDULE))
    return verdict(
        {name: PairedDifference.of(errors, minus=dict(enumerate(values))) for name, values in others.items()}
    )


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        (
            {"none": [3.0, 3.0, 3.0, 3.0, 3.0], "random": [1.4, 1.9, 1.6, 1.3, 1.6]},
            "Verdict: better than the best other, random: 0.52 points lower test error (95 % interval 0.36 to 0.68, "
            "5 paired seeds).",
        ),
        (
            {"none": [1.2, 1.0, 1.2, 1.0, 1.1]},
            "Verdict: no difference shown to none: 0.06 points lower test error (95 % interval 0.25 lower to 0.13 "
            "higher, 5 paired seeds).",
        ),
        (
            {"random": [2.0, 2.0, 2.0, 2.0, 2.0], "final": [0.5, 0.9, 0.6, 0.2, 0.5]},
            "Verdict: worse than the best other, final: 0.50 points higher test error (95 % interval 0.32 to 0.68, "
            "5 paired seeds).",
        ),
        (
            {"none": [1.5], "random": [1.9]},
            "Verdict: no verdict from one seed, because a spread needs two: 0.50 points lower test error than the best "
            "other, none.",
        ),
        (
            {"none": [1.0]},
            "Verdict: no verdict from one seed, because a spread needs two: the same test error as none.",
        ),
        (
            {"none": SCHEDULE, "random": [2.0, 3.0]},
            "Verdict: no difference to the best other, none: the same test error with each of 5 seeds. Not compared, "
            "because they have fewer seeds: random.",
        ),
        (
            {"none": [1.2, 1.0, 1.2, 1.0, 1.1], "random": [0.2]},
            "Verdict: no difference shown to the best other, none: 0.06 points lower test error (95 % interval 0.25 "
            "lower to 0.13 higher, 5 paired seeds). Not compared, because they have fewer seeds: random.",
        ),
        (
            {"none": [2.0, 2.2, 2.1, 1.9, 2.0]},
            "Verdict: no verdict, for want of a spread: all 5 seeds have 1.00 points lower test error than none, by "
            "the same number.",
        ),
    ],
    ids=["better", "no difference", "worse", "one seed", "one equal seed", "equal", "fewer seeds", "no spread"],
)
def test_the_verdict_is_on_the_best_other_row(others: dict[str, list[float]], expected: str) -> None:
    assert verdict_on(**others) == expected


def test_without_another_row_or_a_pair_there_is_none() -> None:
    assert verdict_on() is None
    assert verdict_on(none=[]) is None


def test_a_row_without_a_pair_is_still_another_row() -> None:
    assert (verdict_on(none=[2.0], random=[]) or "").endswith(
        "than the best other, none. Not compared, because they have fewer seeds: random."
    )
