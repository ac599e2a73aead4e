"""Schedules made of a schedule, with its spread and its regularizers, and schedules that are made equally strong."""

from collections import Counter
from statistics import fmean, geometric_mean

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tuned_schedules import OTHERS, POLICY, both

import hba
from hba.config.evaluation import EvaluationConfig
from hba.data import LabelledImages
from hba.data.load import load_evaluation_data
from hba.operations import OPERATIONS
from hba.policy.space import SearchSpace
from hba.policy.spaces import randaugment
from hba.policy_evaluation.baseline_augmentations import (
    AsStrong,
    middle,
    respread,
    sample_of,
    shuffled,
    start,
    strength,
    strengthened,
)
from hba.schedule.schedule import Schedule
from hba.training.augmentation import ScheduleAugmentation

Values = NDArray[np.float64]
NAMES = ("Rotate", "Invert", "Solarize", "Posterize", "Equalize", "Brightness", "AutoContrast")
FILL = (0.25, 0.5, 0.75)


def random_schedule(names: tuple[str, ...] = NAMES, copies: int = 2, epochs: int = 4) -> Schedule:
    """No two curves are alike."""
    space = SearchSpace(
        tuple(OPERATIONS[name] if name != "Posterize" else OPERATIONS[name].with_range((8.0, 2.0)) for name in names),
        copies=copies,
    )
    low, high = np.array(space.ranges).T
    return Schedule(space, low + (high - low) * np.random.default_rng(0).random((epochs, space.n)), FILL)


def fractions(schedule: Schedule, kind: str) -> dict[str, Values]:
    """By column, the curve (epochs,) in fractions of the range."""
    low, high = np.array(schedule.space.ranges).T
    columns = ((schedule.values - low) / (high - low)).T
    return {name: curve for name, curve in zip(schedule.space.names, columns, strict=True) if name.endswith(kind)}


def givers(found: Schedule, schedule: Schedule, kind: str) -> dict[str, str]:
    """From which operation each operation has its curve; the same for both copies."""
    givers: dict[str, str] = {}
    for name, curve in fractions(schedule, kind).items():
        (source,) = [old for old, its_own in fractions(found, kind).items() if np.allclose(its_own, curve, atol=1e-9)]
        operation, copy, _ = name.split(".")
        assert source.split(".")[1] == copy
        assert givers.setdefault(operation, source.split(".")[0]) == source.split(".")[0]
    return givers


def test_a_magnitude_goes_with_its_probability_and_what_is_left_over_in_order() -> None:
    found = random_schedule()
    n_filled = 0
    assert len({schedule.values.tobytes() for schedule in shuffled(found)}) == 10
    for schedule in shuffled(found):
        assert (schedule.space, schedule.fill) == (found.space, FILL)
        for kind in ("probability", "magnitude"):
            before, after = (
                Counter(tuple(curve.round(9)) for curve in fractions(each, kind).values()) for each in (found, schedule)
            )
            assert after == before, "each curve is handed on exactly once"
        of_probability, of_magnitude = (givers(found, schedule, kind) for kind in ("probability", "magnitude"))
        assert any(taker != giver for taker, giver in of_probability.items()), "not the identity"
        filled = []
        for taker, giver in of_magnitude.items():
            if OPERATIONS[of_probability[taker]].magnitude_range is not None:
                assert giver == of_probability[taker]
            else:
                filled.append(giver)
        assert filled == sorted(filled, key=NAMES.index)
        n_filled += len(filled)
    assert n_filled > 0


SPACE = SearchSpace(
    tuple(OPERATIONS[name] for name in ("Rotate", "Invert", "Solarize", "Brightness", "Equalize")),
    count_probabilities=(0.1, 0.2, 0.3, 0.4),
    searches_count=True,
)
COUNTS = slice(SPACE.n - 3, SPACE.n)


def found(**provenance: object) -> Schedule:
    """A schedule in whose curves and spreads no two are alike."""
    random = np.random.default_rng(0)
    low, high = np.array(SPACE.ranges).T
    values = low + (high - low) * random.random((4, SPACE.n))
    return Schedule(SPACE, values, FILL, {"settings": provenance}, spread=random.random((4, SPACE.n)))


def test_the_start_is_that_of_the_search_with_the_mean_spread() -> None:
    schedule = found(initial_fraction=0.25)
    low, high = np.array(SPACE.ranges).T
    of_policy = slice(0, SPACE.n - 3)
    np.testing.assert_allclose(start(schedule).values[0, of_policy], (low + 0.25 * (high - low))[of_policy], rtol=1e-5)
    expected = SPACE.decode(randaugment(SPACE).double()).numpy()
    np.testing.assert_array_equal(start(found(init="randaugment", initial_fraction=0.5)).values, expected[None])
    assert start(found(initial_fraction=2)).values.tolist() == middle(schedule).values.tolist(), "it is not known"
    for made in (start(schedule), middle(schedule), schedule.averaged()):
        np.testing.assert_allclose(made.spread, schedule.spread.sum(axis=0)[None] / 4)
    for made in (start(schedule), middle(schedule)):
        # K of at least 1, 2 and 3 operations, each given the one before.
        assert made.values[0, COUNTS] == pytest.approx([0.9, 0.7 / 0.9, 0.4 / 0.7])
    assert schedule.only(schedule.epochs - 1).spread.tolist() == schedule.spread[-1:].tolist()


def test_a_shuffled_curve_takes_its_spread_along_and_k_stays() -> None:
    schedule = found()
    for permuted in shuffled(schedule):
        np.testing.assert_array_equal(permuted.values[:, COUNTS], schedule.values[:, COUNTS])
        np.testing.assert_array_equal(permuted.spread[:, COUNTS], schedule.spread[:, COUNTS])
        spread_of = dict(zip(SPACE.names, schedule.spread.T, strict=True))
        spread_at = dict(zip(SPACE.names, permuted.spread.T, strict=True))
        for kind in ("probability", "magnitude"):
            before = fractions(schedule, kind)
            for taker, curve in fractions(permuted, kind).items():
                (giver,) = [name for name, other in before.items() if np.allclose(curve, other, atol=1e-9)]
                np.testing.assert_array_equal(spread_at[taker], spread_of[giver])


def test_another_spread_leaves_probabilities_bare_where_magnitudes_alone_are_spread() -> None:
    schedule = found()
    assert respread(schedule, None) is schedule
    assert (respread(schedule, 0.25).spread == 0.25).all()
    assert (respread(schedule.with_spread(0.0), 0.25).spread == 0.25).all(), "of a schedule without a spread too"
    made = respread(schedule.with_spread(1.0, probabilities=False), 0.25)
    assert made.spread.tolist() == [[0.0 if name.endswith("probability") else 0.25 for name in SPACE.names]] * 4


def test_regularizers_are_kept_and_can_be_taken_alone() -> None:
    schedule = both(spread=0.5)
    augmentation, regularization = schedule.without_regularizers(), schedule.without_operations()
    assert augmentation.values.tolist() == list(POLICY)
    assert (augmentation.spread == 0.5).all()
    assert regularization.values.tolist() == list(OTHERS)
    epochs = [
        ScheduleAugmentation(one).regularization_by_epoch(3, torch.device("cpu"))
        for one in (augmentation, regularization, schedule)
    ]
    assert [one.row for one in epochs[1]] == [one.row for one in epochs[2]]
    assert not epochs[0]
    schedule = both()
    dropout, decay, smoothing, of_inputs = zip(*OTHERS, strict=True)
    # Weight decay is searched by its logarithm.
    means = [fmean(dropout), geometric_mean(decay), fmean(smoothing), fmean(of_inputs)]
    assert schedule.averaged().values[0, 3:].tolist() == pytest.approx(means, rel=1e-5)
    assert schedule.only(schedule.epochs - 1).values[0, 3:].tolist() == OTHERS[-1]
    for one in (start(schedule), middle(schedule)):
        assert one.values[0, 3:].tolist() == pytest.approx([0.05, 5e-4, 0.05, 0.05], rel=1e-5), "where a search begins"
    assert all((one.values[:, 3:] == schedule.values[:, 3:]).all() for one in shuffled(schedule))
    assert not respread(schedule, 0.25).spread[:, 3:].any()


def digits() -> LabelledImages:
    train = load_evaluation_data(EvaluationConfig.make({"data": "digits", "train_size": 100})).train
    assert isinstance(train, LabelledImages)
    return train


def test_strength_is_the_mean_change_in_grey_levels() -> None:
    always = SearchSpace((OPERATIONS["Invert"],), copies=1, count_probabilities=(0.0, 1.0))
    levels = torch.tensor([0, 55, 100, 255])
    images = levels.float()[:, None, None, None].expand(4, 3, 8, 8) / 255
    by_hand = np.mean([abs(255 - 2 * level) for level in levels.tolist()])
    assert strength(Schedule(always, np.array([[1.0]])), images) == pytest.approx(by_hand, rel=1e-5)
    assert strength(Schedule(always, np.array([[0.0], [1.0]])), images) == pytest.approx(by_hand / 2, rel=1e-5)
    space = SearchSpace((OPERATIONS["Brightness"],), copies=1, count_probabilities=(0.0, 1.0))
    identity, grey = Schedule(space, np.array([[1.0, 1.0]])), torch.full((200, 1, 2, 2), 0.5)
    assert strength(identity, grey) == 0
    noise = np.random.default_rng(0).normal(size=100_000)
    factors = np.minimum(0.5 * (0.1 + 1.8 / (1 + np.exp(-noise))), 1.0)
    of_spread = strength(identity.with_spread(1.0, probabilities=False), grey)
    assert of_spread == pytest.approx(255 * abs(factors - 0.5).mean(), rel=0.05)


def test_shuffled_schedules_move_images_as_far_as_the_schedule_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hba.policy_evaluation.baseline_augmentations.N_IMAGES", 40)
    monkeypatch.setattr("hba.policy_evaluation.baseline_augmentations.N_DRAWS", 700)
    bare, train = hba.load_policy("digits").with_spread(0.0), digits()
    for schedule in (bare, found()):
        wanted = strength(schedule, sample_of(train))
        permuted = shuffled(schedule)[0]
        matched = AsStrong(permuted, schedule).matched(train)
        assert strength(matched, sample_of(train)) == pytest.approx(wanted, rel=0.01)


def test_a_factor_stretches_distances_from_doing_nothing_within_the_range() -> None:
    schedule = random_schedule(("Rotate", "Solarize", "Brightness", "Invert"), copies=1, epochs=3)
    weaker, stronger = strengthened(schedule, 0.5), strengthened(schedule, 3.0)
    identities = {"Rotate": 0.0, "Solarize": 256.0, "Brightness": 1.0}
    for column, name in enumerate(schedule.space.names):
        old, half, triple = (one.values[:, column] for one in (schedule, weaker, stronger))
        operation, _, kind = name.split(".")
        if kind == "probability":
            np.testing.assert_allclose(half, old / 2)
            np.testing.assert_array_equal(triple, old)
        else:
            identity, (low, high) = identities[operation], sorted(schedule.space.ranges[column])
            np.testing.assert_allclose(half, np.clip((old + identity) / 2, low, high))
            np.testing.assert_allclose(triple, np.clip(identity + 3 * (old - identity), low, high))
    np.testing.assert_array_equal(strengthened(found(), 0.5).spread, found().spread)
