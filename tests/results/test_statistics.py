"""Paired differences against scipy, and verdicts on planted test errors."""

import numpy as np
import pytest
import scipy.stats

from hba.results.statistics import PairedDifference
from hba.results.verdict import Verdict, verdict


def paired(first: list[float], second: list[float]) -> PairedDifference:
    difference = PairedDifference.of(
        dict(enumerate(first)), minus=dict(enumerate(second))
    )
    assert difference is not None
    return difference


def test_mean_and_interval_are_those_of_the_paired_t_test() -> None:
    for n in (2, 3, 5, 30):
        first, second = np.random.default_rng(n).normal([3.0, 4.0], 1.0, (n, 2)).T
        difference = paired(first.tolist(), second.tolist())
        expected = scipy.stats.ttest_rel(first, second).confidence_interval(0.95)
        assert difference.n_pairs == n
        assert difference.mean == pytest.approx((first - second).mean())
        assert difference.interval == pytest.approx((expected.low, expected.high))


def test_only_seeds_that_both_have_are_pairs_and_a_spread_needs_two() -> None:
    difference = PairedDifference.of(
        {0: 1.0, 1: 2.0, 3: 9.0}, minus={1: 4.0, 2: 0.0, 0: 1.0}
    )
    assert difference is not None
    assert (difference.n_pairs, difference.mean) == (2, -1)
    assert PairedDifference.of({0: 1.0}, minus={1: 1.0}) is None
    assert PairedDifference.of({4: 1.0}, minus={4: 1.5}) == PairedDifference(
        1, -0.5, None
    )
    errors = {seed: 100 * wrong / 1097 for seed, wrong in enumerate((7, 11, 30))}
    for shift in (0.0, 0.3):
        difference = PairedDifference.of(
            {seed: error + shift for seed, error in errors.items()}, minus=errors
        )
        assert difference == PairedDifference(3, pytest.approx(shift), None)  # type: ignore[arg-type]


ERRORS = [1.0, 1.2, 1.1, 0.9, 1.0]


def verdict_on(**others: list[float]) -> Verdict | None:
    errors = dict(enumerate(ERRORS))
    return verdict(
        {
            name: PairedDifference.of(errors, minus=dict(enumerate(one)))
            for name, one in others.items()
        }
    )


def test_the_verdict_is_on_the_best_other_row() -> None:
    close, by_little = [1.2, 1.0, 1.2, 1.0, 1.1], [0.7, 1.1, 0.9, 0.8, 0.7]
    for others, kind, against, difference, words in (
        (
            {"none": [3.0] * 5, "random": [1.4, 1.9, 1.6, 1.3, 1.6]},
            "better",
            "random",
            -0.52,
            "0.36 to 0.68",
        ),
        (
            {"none": close},
            "no difference shown",
            "none",
            -0.06,
            "0.25 lower to 0.13 higher",
        ),
        (
            {"random": [2.0] * 5, "final": [0.5, 0.9, 0.6, 0.2, 0.5]},
            "worse",
            "final",
            0.5,
            "0.32 to 0.68",
        ),
        (
            {"none": [1.5], "random": [1.9]},
            "no difference shown",
            "none",
            -0.5,
            "one seed",
        ),
        (
            {"none": ERRORS, "random": [2.0, 3.0]},
            "no difference shown",
            "none",
            0.0,
            "the same mean test error",
        ),
        (
            {"none": close, "random": [0.2]},
            "no difference shown",
            "none",
            -0.06,
            "fewer seeds: random",
        ),
        (
            {"none": [2.0, 2.2, 2.1, 1.9, 2.0]},
            "no difference shown",
            "none",
            -1.0,
            "same with all 5 seeds",
        ),
        ({"lucky": by_little}, "worse", "lucky", 0.2, "higher"),
        # What the best of many explains is not called worse.
        (
            {"lucky": by_little, **{f"row {n}": [3.0] * 5 for n in range(20)}},
            "no difference shown",
            "lucky",
            0.2,
            "21",
        ),
    ):
        found = verdict_on(**others)
        assert found is not None
        assert (found.kind, found.against) == (kind, against)
        assert found.difference == pytest.approx(difference)
        assert words in str(found)
        assert str(found) == found.sentence
    assert verdict_on() is None
    assert verdict_on(none=[]) is None
