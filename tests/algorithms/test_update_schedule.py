"""When policy steps come and how far they reach: against a count step by step, and PyTorch's optimizers."""

from itertools import product
from typing import Any

import hba
from hba.algorithms.update_schedule import TRIED_STEPS, UpdateSchedule, advice_in, overfitting_note_in


def one_by_one(of: UpdateSchedule, epochs: int, steps_per_epoch: int) -> int:
    """As the algorithms go."""
    steps, warm_up_steps = range(1, epochs * steps_per_epoch + 1), of.warm_up_epochs * steps_per_epoch
    return sum(of.in_a_row for step in steps if step % of.train_steps == 0 and step > warm_up_steps)


def test_policy_steps_are_those_that_come_step_by_step() -> None:
    for per_epoch, every, in_a_row, warm_up in product((1, 3, 7), (1, 2, 4, 5), (0, 1, 3), (0, 1, 4)):
        of = UpdateSchedule(every, in_a_row, warm_up, 0.03)
        for epochs in range(20):
            assert of.policy_steps(epochs, per_epoch) == one_by_one(of, epochs, per_epoch)


def test_the_epochs_advised_are_the_fewest_that_are_enough() -> None:
    cases: tuple[tuple[dict[str, Any], int], ...] = (
        ({}, 2),
        ({"in_a_row": 3}, 2),
        ({"warm_up_epochs": 20}, 2),
        ({"stride": 0.003}, 391),
        ({"stride": 1.0}, 2),
    )
    for changed, per_epoch in cases:
        of = UpdateSchedule(**{"train_steps": 4, "stride": 0.03, **changed})
        epochs = of.advised_epochs(per_epoch)
        fewer, steps = (of.policy_steps(some, per_epoch) for some in (epochs - 1, epochs))
        assert fewer < max(3 / of.stride, TRIED_STEPS) <= steps, changed
        assert of.advice(epochs, per_epoch) is None


def made(**changed: Any) -> dict[str, Any]:
    settings = {"train_steps": 4, "val_steps": 1, "warm_up_epochs": 0, "lambda_learning_rate": 0.03, "epochs": 12}
    of_losses = {"train_loss": 1.5, "train_error_percent": 55.0, "val_loss": 1.4, "class_names": ["a", "b"]}
    found = {"settings": settings, "steps_per_epoch": 2, "policy_steps": 6, "epochs_finished": 12}
    return {**found, **of_losses, **changed}


def test_a_schedule_tells_how_its_search_went() -> None:
    provenance = hba.load_policy("digits").provenance
    assert advice_in(provenance) is overfitting_note_in(provenance) is None
    assert "about 200 epochs" in str(advice_in(made()))
    assert "in epoch 12 55 %" in str(overfitting_note_in(made()))
    assert advice_in(made(epochs_finished=3)) is overfitting_note_in(made(epochs_finished=3)) is None
    assert advice_in(made(settings={**made()["settings"], "train_steps": "4"})) is None


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
    for loss, error, val_loss, n_classes, is_noted in cases:
        found = made(train_loss=loss, train_error_percent=error, val_loss=val_loss, class_names=["a"] * n_classes)
        assert (overfitting_note_in(found) is not None) == is_noted, val_loss
