"""The spread in rows of an evaluation: what is made of a schedule has it, and one number can take its place."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from test_baseline_augmentations import FILL, Values, fractions
from test_baselines import rows_for, schedule_of
from test_strength import digits

from hba.errors import SettingsError
from hba.operations import OPERATIONS
from hba.policy.space import SearchSpace
from hba.policy.starts import randaugment
from hba.policy_evaluation.baseline_augmentations import (
    AsStrong,
    final,
    middle,
    point,
    respread,
    sample_of,
    shuffled,
    start,
    start_point,
    static,
    strength,
    strengthened,
)
from hba.policy_evaluation.baselines import BASELINES
from hba.schedule.schedule import Schedule

SPACE = SearchSpace(
    tuple(OPERATIONS[name] for name in ("Rotate", "Invert", "Solarize", "Brightness", "Equalize")),
    count_probabilities=(0.1, 0.2, 0.3, 0.4),
    searches_count=True,
)
COUNTS = slice(SPACE.n - 3, SPACE.n)


def found(**provenance: object) -> Schedule:
    """No two curves and no two spreads are alike."""
    random = np.random.default_rng(0)
    low, high = np.array(SPACE.ranges).T
    values = low + (high - low) * random.random((4, SPACE.n))
    return Schedule(SPACE, values, FILL, {"settings": provenance}, spread=random.random((4, SPACE.n)))


def test_the_policy_at_the_start_and_in_the_middle_has_the_mean_spread() -> None:
    schedule = found(initial_fraction=0.25)
    for made in (start(schedule), middle(schedule), static(schedule)):
        np.testing.assert_allclose(made.spread, schedule.spread.sum(axis=0)[None] / 4)


def test_final_has_the_last_spread_and_the_points_have_none() -> None:
    schedule = found(initial_fraction=0.25)
    assert final(schedule).spread.tolist() == schedule.spread[-1:].tolist()
    assert point(schedule).values.tolist() == schedule.values.tolist()
    assert start_point(schedule).values.tolist() == start(schedule).values.tolist()
    assert not point(schedule).spread.any()
    assert not start_point(schedule).spread.any()


@pytest.mark.parametrize("make", [start, middle])
def test_a_search_of_k_begins_at_the_probabilities_of_the_space(make: Callable[[Schedule], Schedule]) -> None:
    (row,) = make(found(initial_fraction=0.05)).values[:, COUNTS]
    # Of at least 1, 2 and 3 operations, each given the one before.
    assert row == pytest.approx([0.9, 0.7 / 0.9, 0.4 / 0.7])


def test_random_begins_at_randaugment_where_the_search_did() -> None:
    schedule = start(found(init="randaugment", initial_fraction=0.5))
    expected = SPACE.decode(randaugment(SPACE).double()).numpy()
    np.testing.assert_array_equal(schedule.values, expected[None])


def spreads(schedule: Schedule, kind: str) -> dict[str, Values]:
    return {
        name: curve for name, curve in zip(schedule.space.names, schedule.spread.T, strict=True) if name.endswith(kind)
    }


def test_a_shuffled_curve_takes_its_spread_along_and_k_stays() -> None:
    schedule = found()
    for permuted in shuffled(schedule):
        np.testing.assert_array_equal(permuted.values[:, COUNTS], schedule.values[:, COUNTS])
        np.testing.assert_array_equal(permuted.spread[:, COUNTS], schedule.spread[:, COUNTS])
        for kind in ("probability", "magnitude"):
            before, after = fractions(schedule, kind), fractions(permuted, kind)
            of, at = spreads(schedule, kind), spreads(permuted, kind)
            for taker, curve in after.items():
                (giver,) = [name for name, other in before.items() if np.allclose(curve, other, atol=1e-9)]
                np.testing.assert_array_equal(at[taker], of[giver])


def test_one_number_takes_the_place_of_the_spread() -> None:
    schedule = found()
    assert respread(schedule, None) is schedule
    assert (respread(schedule, 0.25).spread == 0.25).all()
    assert (respread(point(schedule), 0.25).spread == 0.25).all(), "of a schedule without a spread too"
    assert not respread(schedule, 0).spread.any()


def test_probabilities_stay_bare_where_magnitudes_alone_are_spread() -> None:
    made = respread(found().with_spread(1.0, probabilities=False), 0.25)
    expected = [0.0 if name.endswith("probability") else 0.25 for name in SPACE.names]
    assert made.spread.tolist() == [expected] * 4


def test_the_setting_reaches_every_row_that_has_a_schedule() -> None:
    others = ("none", "cutout", "only-augmentation", "only-regularization")
    names = [name for name in BASELINES if name not in others and not name.endswith("augment")]
    rows = rows_for(*names, schedule=found(), spread=0.25)
    for name in {"schedule", *names} - {"shuffled"}:
        assert (schedule_of(rows[name]).spread == (0.0 if "point" in name else 0.25)).all(), name
    for augmentation in rows["shuffled"].augmentations:
        assert isinstance(augmentation, AsStrong)
        assert (augmentation.schedule.spread == 0.25).all()
        assert (augmentation.like.spread == 0.25).all()
    bare = rows_for(*names, schedule=found(), spread=0.0)
    assert bare["schedule"].definition == bare["point"].definition
    for name in {"schedule", *names} - {"point", "random-point"}:
        assert len({rows_for(*names, schedule=found(), **one)[name].definition for one in ({}, {"spread": 0.0})}) == 2


@pytest.mark.parametrize("given", [-0.5, float("inf"), "wide"])
def test_a_spread_that_cannot_be_is_refused_by_its_name(given: object) -> None:
    with pytest.raises(SettingsError, match=r"^spread must be"):
        rows_for(spread=given)


def test_what_the_spread_moves_counts_as_strength() -> None:
    space = SearchSpace((OPERATIONS["Brightness"],), copies=1, count_probabilities=(0.0, 1.0))
    identity = Schedule(space, np.array([[1.0, 1.0]]))
    images = torch.full((200, 1, 2, 2), 0.5)
    assert strength(identity, images) == 0
    spread = strength(identity.with_spread(1.0, probabilities=False), images)
    noise = np.random.default_rng(0).normal(size=100_000)
    factors = np.minimum(0.5 * (0.1 + 1.8 / (1 + np.exp(-noise))), 1.0)
    assert spread == pytest.approx(255 * abs(factors - 0.5).mean(), rel=0.05)


def test_a_factor_keeps_the_spread() -> None:
    schedule = found()
    np.testing.assert_array_equal(strengthened(schedule, 0.5).spread, schedule.spread)


def test_shuffled_schedules_with_a_spread_are_made_as_strong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hba.policy_evaluation.baseline_augmentations.N_DRAWS", 1800)
    schedule, train = found(), digits()
    wanted = strength(schedule, sample_of(train))
    assert wanted != pytest.approx(strength(point(schedule), sample_of(train)), rel=0.01)
    for permuted in shuffled(schedule)[:2]:
        assert strength(AsStrong(permuted, schedule).matched(train), sample_of(train)) == pytest.approx(
            wanted, rel=0.01
        )
