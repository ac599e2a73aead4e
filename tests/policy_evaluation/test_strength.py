"""SharedDirections: how far images move, and schedules that are made equally strong by it."""

import numpy as np
import pytest
import torch
from test_baseline_augmentations import random_schedule

import hba
from hba.config.evaluation import EvaluationConfig
from hba.data import LabelledImages
from hba.data.load import load_evaluation_data
from hba.operations import OPERATIONS
from hba.policy.space import SearchSpace
from hba.policy_evaluation.baseline_augmentations import AsStrong, sample_of, shuffled, strength, strengthened
from hba.schedule.schedule import Schedule
from hba.training.augmentation import Augment


def digits() -> LabelledImages:
    train = load_evaluation_data(EvaluationConfig.make({"data": "digits", "train_size": 100})).train
    assert isinstance(train, LabelledImages)
    return train


def moved_levels(augment: Augment, images: LabelledImages, seed: int) -> float:
    """Over many draws, by the pixels themselves."""
    before = images.images.float() / 255
    generator = torch.Generator().manual_seed(seed)
    levels = [255 * (augment(before, generator) - before).abs() for _ in range(20)]
    return float(torch.cat(levels).mean())


def test_strength_is_the_mean_change_in_grey_levels() -> None:
    always = SearchSpace((OPERATIONS["Invert"],), copies=1, count_probabilities=(0.0, 1.0))
    levels = torch.tensor([0, 55, 100, 255])
    images = levels.float()[:, None, None, None].expand(4, 3, 8, 8) / 255
    by_hand = np.mean([abs(255 - 2 * level) for level in levels.tolist()])
    assert strength(Schedule(always, np.array([[1.0]])), images) == pytest.approx(by_hand, rel=1e-5)
    assert strength(Schedule(always, np.array([[0.0], [1.0]])), images) == pytest.approx(by_hand / 2, rel=1e-5)
    assert strength(Schedule(always, np.array([[0.0]])), images) == 0


def test_shuffled_schedules_move_images_as_far_as_the_schedule_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hba.policy_evaluation.baseline_augmentations.N_DRAWS", 1800)
    # Matching a schedule that has a spread is tested with the spread of rivals.
    found, train = hba.load_policy("digits").with_spread(0.0), digits()
    wanted = strength(found, sample_of(train))
    before = [strength(permuted, sample_of(train)) for permuted in shuffled(found)[:4]]
    assert min(before) > wanted, "without matching, all of them are stronger"
    last_row = Schedule(found.space, found.values[-1:], found.fill)
    measured = moved_levels(AsStrong(last_row, last_row).by_epoch(1, train)[0], train, seed=5)
    for permuted in shuffled(found)[:2]:
        matched = AsStrong(permuted, found).matched(train)
        assert strength(matched, sample_of(train)) == pytest.approx(wanted, rel=0.01)
        alike = AsStrong(Schedule(found.space, permuted.values[-1:], found.fill), last_row)
        assert moved_levels(alike.by_epoch(1, train)[0], train, seed=6) == pytest.approx(measured, rel=0.1)


def test_a_factor_stretches_distances_from_doing_nothing_within_the_range() -> None:
    found = random_schedule(("Rotate", "Solarize", "Brightness", "Invert"), copies=1, epochs=3)
    weaker, stronger = strengthened(found, 0.5), strengthened(found, 3.0)
    identities = {"Rotate": 0.0, "Solarize": 256.0, "Brightness": 1.0}
    for column, name in enumerate(found.space.names):
        old, half, triple = (schedule.values[:, column] for schedule in (found, weaker, stronger))
        operation, _, kind = name.split(".")
        if kind == "probability":
            np.testing.assert_allclose(half, old / 2)
            np.testing.assert_array_equal(triple, old)
        else:
            identity, (low, high) = identities[operation], sorted(found.space.ranges[column])
            np.testing.assert_allclose(half, np.clip((old + identity) / 2, low, high))
            np.testing.assert_allclose(triple, np.clip(identity + 3 * (old - identity), low, high))
    assert strengthened(found, 1.0).values == pytest.approx(found.values)


def test_what_cannot_be_reached_is_come_near_to() -> None:
    space = SearchSpace((OPERATIONS["Brightness"], OPERATIONS["Sharpness"]), copies=1, count_probabilities=(0.0, 1.0))
    dark = Schedule(space, np.array([[1.0, 0.1, 0.0, 1.0]]))
    sharp = Schedule(space, np.array([[0.0, 1.0, 1.0, 1.2]]))
    train = digits()
    with pytest.warns(UserWarning, match=r"cannot be made as strong .* moves images by \d+\.\d grey levels, the"):
        matched = AsStrong(sharp, dark).matched(train)
    assert matched.values == pytest.approx(np.array([[0.0, 1.0, 1.0, 1.9]]))


def test_its_definition_tells_both_schedules() -> None:
    first, second = random_schedule(), random_schedule(epochs=3)
    assert len({AsStrong(a, b).definition for a in (first, second) for b in (first, second)}) == 4
