"""Schedules made of a schedule, with its spread and its regularizers, and schedules
that are made equally strong.
"""

from statistics import fmean, geometric_mean

import numpy as np
import pytest
import torch
from tuned_schedules import OTHERS, POLICY, both

from hba.operations import OPERATIONS
from hba.policy.space import SearchSpace
from hba.policy.spaces import randaugment
from hba.policy_evaluation.baselines import middle, respread, start
from hba.schedule.schedule import Schedule
from hba.training.augmentation import ScheduleAugmentation

FILL = (0.25, 0.5, 0.75)
SPACE = SearchSpace(
    tuple(
        OPERATIONS[name]
        for name in ("Rotate", "Invert", "Solarize", "Brightness", "Equalize")
    ),
    count_probabilities=(0.1, 0.2, 0.3, 0.4),
    searches_count=True,
)
COUNTS = slice(SPACE.n - 3, SPACE.n)


def uneven_schedule(**provenance: object) -> Schedule:
    """A schedule in whose curves and spreads no two are alike."""
    random = np.random.default_rng(0)
    low, high = np.array(SPACE.ranges).T
    values = low + (high - low) * random.random((4, SPACE.n))
    return Schedule(
        SPACE,
        values,
        FILL,
        {"settings": provenance},
        spread=random.random((4, SPACE.n)),
    )


def test_the_start_is_that_of_the_search_with_the_mean_spread() -> None:
    schedule = uneven_schedule(initial_fraction=0.25)
    low, high = np.array(SPACE.ranges).T
    policy_columns = slice(0, SPACE.n - 3)
    np.testing.assert_allclose(
        start(schedule).values[0, policy_columns],
        (low + 0.25 * (high - low))[policy_columns],
        rtol=1e-5,
    )
    expected = SPACE.decode(randaugment(SPACE).double()).numpy()
    np.testing.assert_array_equal(
        start(uneven_schedule(init="randaugment", initial_fraction=0.5)).values,
        expected[None],
    )
    assert (
        start(uneven_schedule(initial_fraction=2)).values.tolist()
        == middle(schedule).values.tolist()
    ), "it is not known"
    for augmentation in (start(schedule), middle(schedule), schedule.averaged()):
        np.testing.assert_allclose(
            augmentation.spread, schedule.spread.sum(axis=0)[None] / 4
        )
    for augmentation in (start(schedule), middle(schedule)):
        # K of at least 1, 2 and 3 operations, each given the one before.
        assert augmentation.values[0, COUNTS] == pytest.approx(
            [0.9, 0.7 / 0.9, 0.4 / 0.7]
        )
    assert (
        schedule.only(schedule.epochs - 1).spread.tolist()
        == schedule.spread[-1:].tolist()
    )


def test_another_spread_leaves_probabilities_bare_if_only_magnitudes_have_one() -> None:
    schedule = uneven_schedule()
    assert respread(schedule, None) is schedule
    assert (respread(schedule, 0.25).spread == 0.25).all()
    assert (respread(schedule.with_spread(0.0), 0.25).spread == 0.25).all(), (
        "of a schedule without a spread too"
    )
    changed = respread(schedule.with_spread(1.0, probabilities=False), 0.25)
    assert (
        changed.spread.tolist()
        == [[0.0 if name.endswith("probability") else 0.25 for name in SPACE.names]] * 4
    )


def test_regularizers_are_kept_and_can_be_taken_alone() -> None:
    schedule = both(spread=0.5)
    augmentation = schedule.without_regularizers()
    regularization = schedule.without_operations()
    assert augmentation.values.tolist() == list(POLICY)
    assert (augmentation.spread == 0.5).all()
    assert regularization.values.tolist() == list(OTHERS)
    epochs = [
        ScheduleAugmentation(source).regularization_by_epoch(3, torch.device("cpu"))
        for source in (augmentation, regularization, schedule)
    ]
    assert [epoch.row for epoch in epochs[1]] == [epoch.row for epoch in epochs[2]]
    assert not epochs[0]
    schedule = both()
    dropout, decay, smoothing, input_dropout = zip(*OTHERS, strict=True)
    # Weight decay is searched by its logarithm.
    means = [
        fmean(dropout),
        geometric_mean(decay),
        fmean(smoothing),
        fmean(input_dropout),
    ]
    assert schedule.averaged().values[0, 3:].tolist() == pytest.approx(means, rel=1e-5)
    assert schedule.only(schedule.epochs - 1).values[0, 3:].tolist() == OTHERS[-1]
    for policy in (start(schedule), middle(schedule)):
        assert policy.values[0, 3:].tolist() == pytest.approx(
            [0.05, 5e-4, 0.05, 0.05], rel=1e-5
        ), "where a search begins"
    assert not respread(schedule, 0.25).spread[:, 3:].any()
