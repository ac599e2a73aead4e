"""The schedule that waits for the validation loss, beside PyTorch's ReduceLROnPlateau and a loop in plain numbers."""

import pytest
import torch
from each import each
from torch import nn
from torch.optim.lr_scheduler import ReduceLROnPlateau

from hba.config.training import PLATEAU
from hba.policy_search.config import SearchConfig
from hba.training.optim import OPTIMIZERS, Plateau, optimizer_for, scheduled

STEPS_PER_EPOCH = 3


def begun(patience: int, warm_up_steps: int = 0, rate: float = 0.4) -> Plateau:
    optimizer = OPTIMIZERS["sgd"](
        [{"params": [nn.Parameter(torch.zeros(1))]} for _ in range(2)], lr=rate, weight_decay=0.0
    )
    found = scheduled(optimizer, PLATEAU, 10**6, warm_up_steps, patience)
    assert isinstance(found, Plateau)
    return found


def epoch(schedule: Plateau, loss: float) -> None:
    for _ in range(STEPS_PER_EPOCH):
        schedule.optimizer.step()
        schedule.step()
    schedule.observe(loss)


def rate_of(schedule: Plateau) -> float:
    rates = {float(group["lr"]) for group in schedule.optimizer.param_groups}
    assert rates == {float(rate) for rate in schedule.get_last_lr()}
    (rate,) = rates
    return rate


@each("patience", [1, 2, 5])
def test_it_is_that_of_pytorch_whose_patience_counts_one_epoch_less(patience: int) -> None:
    losses = torch.rand(80, generator=torch.Generator().manual_seed(patience)).tolist()
    schedule = begun(patience)
    other = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.4)
    reference = ReduceLROnPlateau(other, factor=0.1, patience=patience - 1, threshold=0.0, eps=0.0)
    rates = []
    for loss in losses:
        epoch(schedule, loss)
        reference.step(loss)
        rates.append(rate_of(schedule))
        assert rates[-1] == pytest.approx(float(other.param_groups[0]["lr"]))
    assert len(set(rates)) > 5


def test_sixty_epochs_without_a_lower_loss_are_a_tenth_and_sixty_more_another() -> None:
    config = SearchConfig.make({"learning_rate_schedule": PLATEAU, "learning_rate": 0.01})
    _, schedule = optimizer_for(config, [nn.Parameter(torch.zeros(1))], STEPS_PER_EPOCH, config.plateau_epochs)
    assert isinstance(schedule, Plateau)
    epoch(schedule, 1.0)
    rates = []
    for _ in range(121):
        epoch(schedule, 1.0)
        rates.append(rate_of(schedule))
    assert rates == pytest.approx([0.01] * 59 + [0.001] * 60 + [0.0001] * 2)


def test_a_warm_up_rises_by_equal_steps_and_drops_count_in_it_too() -> None:
    schedule, rates = begun(patience=1, warm_up_steps=4), []
    for number in range(7):
        rates.append(rate_of(schedule))
        schedule.optimizer.step()
        schedule.step()
        if number == 1:
            schedule.observe(1.0)
            schedule.observe(1.0)
    assert rates == pytest.approx([0.4 * 1 / 5, 0.4 * 2 / 5, 0.04 * 3 / 5, 0.04 * 4 / 5, 0.04, 0.04, 0.04])
