"""The sentence below the table, for planted test errors."""

from typing import Any

import numpy as np
import pytest

from hba.policy_evaluation.statistics import PairedDifference, Resolution
from hba.policy_evaluation.verdict import Verdict, best_other, verdict, what_it_can_tell

SCHEDULE = [1.0, 1.2, 1.1, 0.9, 1.0]


def verdict_on(**others: list[float]) -> str | None:
    found = verdict_value_on(**others)
    return None if found is None else str(found)


def verdict_value_on(**others: list[float]) -> Verdict | None:
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
            "Verdict: no verdict: all 5 seeds have exactly 1.00 points lower test error than none, so there is no "
            "interval.",
        ),
    ],
    ids=["better", "no difference", "worse", "one seed", "one equal seed", "equal", "fewer seeds", "no spread"],
)
def test_the_verdict_is_on_the_best_other_row(others: dict[str, list[float]], expected: str) -> None:
    assert verdict_on(**others) == expected


@pytest.mark.parametrize(
    ("others", "kind", "against", "difference", "seeds"),
    [
        ({"none": [3.0] * 5, "random": [1.4, 1.9, 1.6, 1.3, 1.6]}, "better", "random", -0.52, 5),
        ({"none": [1.2, 1.0, 1.2, 1.0, 1.1]}, "no difference shown", "none", -0.06, 5),
        ({"random": [2.0] * 5, "final": [0.5, 0.9, 0.6, 0.2, 0.5]}, "worse", "final", 0.5, 5),
        ({"none": [1.5]}, "no difference shown", "none", -0.5, 1),
        ({"none": SCHEDULE}, "no difference shown", "none", 0.0, 5),
        ({"none": [2.0, 2.2, 2.1, 1.9, 2.0]}, "no difference shown", "none", -1.0, 5),
    ],
    ids=["better", "no difference", "worse", "one seed", "equal", "no spread"],
)
def test_a_program_can_ask_the_verdict_without_reading_english(
    others: dict[str, list[float]], kind: str, against: str, difference: float, seeds: int
) -> None:
    found = verdict_value_on(**others)
    assert found is not None
    assert (found.kind, found.against, found.seeds) == (kind, against, seeds)
    assert found.difference == pytest.approx(difference)
    if found.interval is not None:
        assert np.mean(found.interval) == pytest.approx(difference)
        assert (max(found.interval) < 0) == (kind == "better")
    assert str(found) == found.sentence == verdict_on(**others)


def test_what_the_best_of_many_explains_is_not_called_worse() -> None:
    better_by_little = [0.7, 1.1, 0.9, 0.8, 0.7]
    alone = verdict_value_on(lucky=better_by_little)
    among = verdict_value_on(lucky=better_by_little, **{f"row {number}": [3.0] * 5 for number in range(20)})
    assert alone is not None
    assert among is not None
    assert (alone.kind, among.kind) == ("worse", "no difference shown")
    assert "which is the best of 21 by the same numbers" in str(among)


def test_without_another_row_or_a_pair_there_is_none() -> None:
    assert verdict_on() is None
    assert verdict_on(none=[]) is None


def test_a_row_without_a_pair_is_still_another_row() -> None:
    assert (verdict_on(none=[2.0], random=[]) or "").endswith(
        "than the best other, none. Not compared, because they have fewer seeds: random."
    )


def told(test_images: int = 95, n_seeds: int = 5, **others: list[float]) -> str:
    """The sentences behind the verdict."""
    errors = dict(enumerate(SCHEDULE[:n_seeds]))
    differences = {
        name: PairedDifference.of(errors, minus=dict(enumerate(values[:n_seeds]))) for name, values in others.items()
    }
    best = best_other(differences)
    assert best is not None
    mean = sum(errors.values()) / len(errors)
    return what_it_can_tell(
        best, Resolution.of(best.difference, mean, test_images), ["schedule", *others], fresh=n_seeds
    )


def test_no_difference_says_what_the_numbers_can_resolve_and_what_to_try() -> None:
    # Differences 0, -4, 0, -4, 0: a deviation of 2.19, times 2.776 over the root of 5.
    text = told(none=[1.0, 5.2, 1.1, 4.9, 1.0])
    assert text.startswith("The interval is over training seeds, for one schedule, one split and one test set. ")
    assert "With 5 paired seeds it reaches 2.72 points to either side; about 40 would show a difference of one " in text
    assert (
        "One of 95 test images is 1.05 points, and the standard error of a test error of 1.04 % on so many is " in text
    )
    assert text.endswith(
        "To try: evaluate anew with --seeds 40 --first-seed 5; or get more test images; or search anew with more "
        "--epochs, if hba show says that the search was too short or did not overfit; or train without a schedule, "
        "which costs nothing; or compare with --against randaugment, which needs no search."
    )


def test_where_randaugment_does_as_well_it_is_what_to_use() -> None:
    text = told(none=[9.0, 9.2, 9.1, 8.9, 9.0], randaugment=[1.0, 5.2, 1.1, 4.9, 1.0])
    assert text.endswith("get more test images; or use randaugment, which needs no search.")


@pytest.mark.parametrize(
    ("name", "is_searched_anew", "instead"),
    [
        ("random", True, "; or use random, where a search begins, which needs none"),
        ("shuffled", True, ""),
        ("static", False, "; or use static, which is simpler"),
        ("point", False, ""),
        ("mine", False, ""),
    ],
)
def test_what_to_try_depends_on_what_does_as_well(name: str, is_searched_anew: bool, instead: str) -> None:
    others: dict[str, Any] = {name: [1.0, 5.2, 1.1, 4.9, 1.0]}
    text = told(**others)
    assert ("search anew with more --epochs" in text) == is_searched_anew
    ways = text.partition("To try: evaluate anew with --seeds 40 --first-seed 5; or get more test images")[2]
    assert ways.endswith(f"{instead}; or compare with --against randaugment, which needs no search.")
    assert ("; or use " in ways) == bool(instead)


def test_equal_errors_of_a_few_seeds_are_called_too_little() -> None:
    text = told(randaugment=SCHEDULE)
    assert text.startswith("Without a spread, these numbers are too few to tell. One of 95 test images is 1.05 points")


def test_numbers_that_would_have_shown_one_point_say_so() -> None:
    text = told(test_images=10_000, none=[1.2, 1.0, 1.2, 1.0, 1.1], trivialaugment=[2.0, 2.3, 2.1, 1.9, 2.0])
    assert "One point would probably have been shown. To try: search anew with more --epochs, if hba show" in text
    text = told(test_images=10_000, mine=[1.2, 1.0, 1.2, 1.0, 1.1], trivialaugment=[2.0, 2.3, 2.1, 1.9, 2.0])
    assert text.endswith("One point would probably have been shown.")


def test_a_clear_verdict_only_says_what_its_interval_is_of() -> None:
    clear = [3.0, 3.1, 3.0, 3.2, 3.0]
    assert told(none=clear) == "The interval is over training seeds, for one schedule, one split and one test set."
    assert told(n_seeds=3, none=clear).endswith(
        "3 seeds show their spread only roughly: to be sure, evaluate anew with --seeds 10 --first-seed 3."
    )


@pytest.mark.parametrize("none", [[1.0, 65.2, 1.1, 64.9, 1.0], SCHEDULE])
def test_numbers_that_too_many_seeds_would_be_needed_for_would_not_have_shown_one_point(none: list[float]) -> None:
    """Far more than a hundred, or nobody knows how many."""
    assert "One point would probably have been shown" not in told(test_images=10_000, none=none)
