"""SGD against its formula, and the learning rate schedules at known epochs."""

import math

import pytest
import torch
from torch import nn

from hba.training.optimizer import LEARNING_RATE_SCHEDULES, sgd


def learning_rates(schedule: str, epochs: int, steps_per_epoch: int, learning_rate: float) -> list[float]:
    """The rate that each training step uses, and behind them the one after the last."""
    weight = nn.Parameter(torch.zeros(()))
    optimizer, lr_schedule = sgd(
        [weight],
        learning_rate=learning_rate,
        schedule=schedule,
        weight_decay=0.0,
        total_steps=epochs * steps_per_epoch,
    )
    weight.grad = torch.zeros(())
    rates = [float(lr_schedule.get_last_lr()[0])]
    for _ in range(epochs * steps_per_epoch):
        optimizer.step()
        lr_schedule.step()
        rates.append(float(lr_schedule.get_last_lr()[0]))
    return rates


def test_the_optimizer_is_nesterov_sgd() -> None:
    weight = nn.Parameter(torch.tensor(2.0, dtype=torch.float64))
    optimizer, _ = sgd([weight], learning_rate=0.3, schedule="cosine", weight_decay=0.1, total_steps=7)
    velocity, expected = 0.0, 2.0
    for _ in range(5):
        weight.grad = torch.tensor(-0.5, dtype=torch.float64)
        slope = -0.5 + 0.1 * expected
        velocity = 0.9 * velocity + slope
        expected -= 0.3 * (slope + 0.9 * velocity)
        optimizer.step()
        assert weight.item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("epoch", "share"), [(0, 1.0), (50, 0.8535534), (100, 0.5), (150, 0.1464466), (200, 0.0)])
def test_the_cosine_of_the_papers_200_epochs(epoch: int, share: float) -> None:
    rates = learning_rates("cosine", epochs=200, steps_per_epoch=3, learning_rate=0.05)
    assert rates[3 * epoch] == pytest.approx(0.05 * share, abs=1e-8)


def test_the_cosine_moves_at_every_step() -> None:
    rates = learning_rates("cosine", epochs=5, steps_per_epoch=4, learning_rate=0.1)
    assert rates == pytest.approx([0.05 * (1 + math.cos(math.pi * step / 20)) for step in range(21)], abs=1e-12)


@pytest.mark.parametrize(
    ("epoch", "rate"),
    [(0, 0.1), (89, 0.1), (90, 0.01), (179, 0.01), (180, 0.001), (239, 0.001), (240, 0.0001), (269, 0.0001)],
)
def test_the_step_schedule_drops_at_the_papers_epochs_90_180_and_240_of_270(epoch: int, rate: float) -> None:
    steps_per_epoch = 4
    rates = learning_rates("step", epochs=270, steps_per_epoch=steps_per_epoch, learning_rate=0.1)
    of_epoch = rates[steps_per_epoch * epoch :][:steps_per_epoch]
    assert of_epoch == pytest.approx([rate] * steps_per_epoch)


def test_the_step_schedule_keeps_its_proportions_in_a_shorter_training() -> None:
    rates = learning_rates("step", epochs=27, steps_per_epoch=1, learning_rate=1.0)
    drops = [epoch for epoch in range(1, 27) if rates[epoch] < 0.5 * rates[epoch - 1]]
    assert drops == [9, 18, 24]


def test_every_schedule_is_known_by_the_settings() -> None:
    from hba.policy_search.config import SearchConfig

    for schedule in LEARNING_RATE_SCHEDULES:
        assert SearchConfig.make({"learning_rate_schedule": schedule}).learning_rate_schedule == schedule
