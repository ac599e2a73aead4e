"""When policy steps come and how far they reach: against a count step by step, and PyTorch's optimizers."""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import torch

import hba
from hba.algorithms.lambda_optimizers import LAMBDA_OPTIMIZERS, largest_stride
from hba.algorithms.update_schedule import (
    TRIED_STEPS,
    UpdateSchedule,
    advice_in,
    overfitting_note,
    overfitting_note_in,
    policy_steps_in,
    schedule_in,
)
from hba.policy_search.config import SearchConfig

DAMAGED: tuple[Any, ...] = (None, "2", True, -1, float("nan"), [2], {})


def updates(**changed: Any) -> UpdateSchedule:
    return UpdateSchedule(**{"train_steps": 4, "stride": 0.03, "steps_per_epoch": 2, **changed})


def one_by_one(of: UpdateSchedule, epochs: int) -> int:
    """As the algorithms go."""
    steps = range(1, epochs * of.steps_per_epoch + 1)
    warm_up_steps = of.warm_up_of(epochs) * of.steps_per_epoch
    return sum(of.in_a_row for step in steps if step % of.train_steps == 0 and step > warm_up_steps)


def test_policy_steps_are_those_that_come_step_by_step() -> None:
    for per_epoch, every, in_a_row, warm_up in product((1, 3, 7), (1, 2, 4, 5), (0, 1, 3), (0, 1, 4, None)):
        of = UpdateSchedule(every, in_a_row, warm_up, 0.03).at(per_epoch)
        assert [of.policy_steps(epochs) for epochs in range(20)] == [one_by_one(of, epochs) for epochs in range(20)]


def test_policy_steps_of_a_search_with_more_epochs_now_are_those_of_its_parts() -> None:
    for warm_up, (from_epochs, at_step) in product((0, 2, None), ((4, 5), (4, 12), (6, 13), (20, 0))):
        of = UpdateSchedule(2, 1, warm_up, 0.03).at(3)
        lengthened = [{"from_epochs": from_epochs, "to_epochs": 20, "at_step": at_step}]
        for done in range(at_step // 3, 21):
            expected = sum(
                step % 2 == 0 and step > 3 * of.warm_up_of(from_epochs if step <= at_step else 20)
                for step in range(1, 3 * done + 1)
            )
            assert of.policy_steps(20, done, lengthened) == expected
    half = UpdateSchedule(1, 1, None, 0.03).at(3)
    assert [half.policy_steps(20, done) for done in (5, 10, 11, 20)] == [0, 0, 3, 30]


def test_a_search_is_too_short_that_cannot_move_a_logit_by_one_or_has_fewer_steps_than_were_tried() -> None:
    """At 0.03, one logit takes 34 steps, which come in 2 * 34 epochs."""
    assert " too few" in str(updates().advice(2 * 33))
    assert " too few" not in str(updates().advice(2 * 34))
    assert "No policy step" in str(updates().advice(1))
    assert "about 200 epochs" in str(updates().advice(12))
    fast = updates(stride=0.18)
    assert fast.advice(96) is None
    assert "47 policy steps are few" in str(fast.advice(95))
    assert fast.advice(96, policy_steps=47) is not None
    assert updates(stride=0.5, selects=True).advice(4) is None, "how often a population has to select is unknown"
    assert updates(in_a_row=0).advice(1) is None
    assert updates(stride=0.0).advice(1) is None


def test_the_epochs_advised_are_the_fewest_that_are_enough() -> None:
    cases: tuple[dict[str, Any], ...] = (
        {},
        {"in_a_row": 3},
        {"warm_up_epochs": 20},
        {"steps_per_epoch": 391, "stride": 0.003},
        {"stride": 1.0},
    )
    for changed in cases:
        of = updates(**changed)
        epochs = of.advised_epochs()
        enough = [
            (steps := of.policy_steps(some)) * of.stride >= 3 and steps >= TRIED_STEPS for some in (epochs - 1, epochs)
        ]
        assert enough == [False, True], changed
        assert of.advice(epochs) is None
        half, at_once = replace(of, warm_up_epochs=None), replace(of, warm_up_epochs=0)
        assert half.advised_epochs() == 2 * at_once.advised_epochs()


def test_each_algorithm_says_how_its_steps_come() -> None:
    settings = {"train_steps": 3, "val_steps": 2, "warm_up_epochs": 1, "lambda_learning_rate": 0.25}
    for name in ("hba", "fixed-noise", "lookahead", "hba-lookahead"):
        found = SearchConfig.make({"algorithm": name, "strength_learning_rate": 0.0, **settings})
        assert found.algorithm.update_schedule == UpdateSchedule(3, 2, 1, 0.25), name
        # By itself, by a shared coordinate, and a probability by half a step of its operation's.
        found = SearchConfig.make({"algorithm": name, "strength_learning_rate": 0.5, **settings})
        assert found.algorithm.update_schedule.stride == 0.25 + 0.5 + 0.25, name
    for name in ("population", "hyper-population"):
        found = SearchConfig.make({"algorithm": name, "sigma": 0.5, "train_steps": 2})
        assert found.algorithm.update_schedule == UpdateSchedule(2, 1, 0, 0.5, selects=True), name


def test_steps_of_rmsprop_reach_as_far_as_pytorchs_along_one_gradient() -> None:
    settings = {"algorithm": "delta-stn", "lambda_learning_rate": 0.01, "tune": "cutout"}
    of = SearchConfig.make(settings).algorithm.update_schedule
    for n_steps in (1, 2, 16, 300):
        leaf = torch.zeros((), dtype=torch.float64, requires_grad=True)
        optimizer = LAMBDA_OPTIMIZERS["rmsprop"]([leaf], 0.01, (0.9, 0.999))
        for _ in range(n_steps):
            leaf.grad = torch.tensor(-0.7, dtype=torch.float64)
            optimizer.step()
        assert of.reach(n_steps) == pytest.approx(leaf.item(), rel=1e-6)
        assert of.steps_to(leaf.item() * (1 - 1e-6)) == n_steps
    assert abs(of.steps_to(of.reach(5000)) - 5000) <= 1
    of_adam = SearchConfig.make({**settings, "algorithm": "stn"}).algorithm.update_schedule
    assert of_adam.reach(7) == pytest.approx(0.07)
    assert of_adam.steps_to(0.065) == 7


def made(**changed: Any) -> dict[str, Any]:
    settings = {"train_steps": 4, "val_steps": 1, "warm_up_epochs": 0, "lambda_learning_rate": 0.03, "epochs": 12}
    of_losses = {"train_loss": 1.5, "train_error_percent": 55.0, "val_loss": 1.4, "class_names": ["a", "b"]}
    found = {"settings": settings, "steps_per_epoch": 2, "policy_steps": 6, "epochs_finished": 12}
    return {**found, **of_losses, **changed}


def test_a_schedule_tells_how_its_search_went() -> None:
    provenance = hba.load_policy("digits").provenance
    settings = provenance["settings"]
    stride = largest_stride(settings["lambda_learning_rate"], settings["strength_learning_rate"])
    assert schedule_in(provenance) == UpdateSchedule(5, 1, 0, stride).at(2)
    assert policy_steps_in(provenance) == 120
    assert advice_in(provenance) is None
    assert overfitting_note_in(provenance) is None
    assert " too few" in str(advice_in(made()))
    assert overfitting_note_in(made()) == overfitting_note(1.5, 55.0, 1.4, 2, 12)
    assert advice_in(made(epochs_finished=3)) is None, "only of a finished search"
    assert overfitting_note_in(made(epochs_finished=3)) is None
    settings = {**made()["settings"], "warm_up_epochs": None}
    assert schedule_in(made(settings=settings)) == UpdateSchedule(4, 1, None, 0.03).at(2)


def test_a_damaged_provenance_says_nothing() -> None:
    for damaged in DAMAGED:
        assert schedule_in(made(steps_per_epoch=damaged)) is None
        assert schedule_in(made(settings=damaged)) is None
        assert schedule_in(made(settings={**made()["settings"], "val_steps": damaged})) is None
        assert policy_steps_in(made(policy_steps=damaged)) is None
        assert advice_in(made(epochs_finished=damaged)) is None
        for name in ("train_loss", "train_error_percent", "val_loss", "class_names", "settings", "epochs_finished"):
            assert overfitting_note_in(made(**{name: damaged})) is None, name
    assert [schedule_in({}), advice_in({}), overfitting_note_in({})] == [None] * 3


def test_a_network_overfits_unless_two_signs_say_that_it_does_not() -> None:
    """Losses and errors are of searches whose schedules were evaluated."""
    cases = [
        # 5,000 images of CIFAR-10, 10 epochs: the schedule cost 2.5 points (-0.1 to 5.2).
        (1.519, 54.97, 1.444, 10, True),
        # 720 images of three classes, 20 epochs.
        (0.976, 49.22, 0.970, 3, True),
        # The same, 200 epochs: the schedule won 6.7 points.
        (0.465, 19.92, 1.063, 3, False),
        # 200 digits, 300 epochs: the schedule won 3.2 points. Validation images are easier than augmented ones.
        (0.109, 4.5, 0.0896, 10, False),
        # 1,000 images of CIFAR-10, 120 epochs: the schedule won 4 points.
        (0.955, 31.25, 1.720, 10, False),
        # A strong policy: much is wrong in training, and validation is harder still.
        (1.9, 70.0, 2.1, 10, False),
        # At half of the error of guessing, and just below.
        (1.0, 25.0, 1.0, 2, True),
        (1.0, 24.99, 1.0, 2, False),
    ]
    for train_loss, error, val_loss, n_classes, is_noted in cases:
        assert (overfitting_note(train_loss, error, val_loss, n_classes, 10) is not None) == is_noted, val_loss
