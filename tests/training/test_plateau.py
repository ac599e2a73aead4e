"""The schedule that waits for the validation loss, beside PyTorch's ReduceLROnPlateau and a loop in plain numbers."""

import copy
import math
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import ReduceLROnPlateau

import hba
from hba.config.evaluation import EvaluationConfig
from hba.config.training import PLATEAU
from hba.errors import SettingsError
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


@pytest.mark.parametrize("patience", [1, 2, 5])
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


def test_a_loss_that_is_not_finite_is_no_decrease() -> None:
    schedule = begun(patience=2)
    for loss in (0.5, math.nan, math.inf):
        epoch(schedule, loss)
    assert rate_of(schedule) == pytest.approx(0.04)
    epoch(schedule, 0.4)
    assert schedule.least == 0.4


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


def test_it_goes_on_from_its_state_to_the_last_bit() -> None:
    losses = torch.rand(40, generator=torch.Generator().manual_seed(0)).tolist()
    whole, resumed = begun(patience=3, warm_up_steps=5), begun(patience=3, warm_up_steps=5)
    for loss in losses[:17]:
        epoch(whole, loss)
    resumed.load_state_dict(copy.deepcopy(whole.state_dict()))
    resumed.optimizer.load_state_dict(copy.deepcopy(whole.optimizer.state_dict()))
    for loss in losses[17:]:
        epoch(whole, loss)
        epoch(resumed, loss)
        assert rate_of(resumed) == rate_of(whole)
    assert rate_of(whole) < 0.4


def test_its_patience_is_refused_where_another_schedule_has_none() -> None:
    settings: dict[str, Any] = {"learning_rate_schedule": PLATEAU, "plateau_epochs": 5}
    config = SearchConfig.make(settings)
    assert (config.plateau_epochs, config.measured_every, config.validate_every) == (5, 1, 10)
    assert SearchConfig.make({}).measured_every == 10
    with pytest.raises(SettingsError) as raised:
        SearchConfig.make({"plateau_epochs": 5})
    assert str(raised.value) == (
        "plateau_epochs has no effect where learning_rate_schedule is cosine; set it to plateau, or omit plateau_epochs"
    )


def test_an_evaluation_has_no_validation_images_to_go_by() -> None:
    message = (
        "learning_rate_schedule plateau goes by validation images, which an evaluation has not; give another, such as "
        "cosine, step or constant"
    )
    searched = SearchConfig.from_preset({"data": "digits", "learning_rate_schedule": PLATEAU}).flat()
    with pytest.raises(SettingsError) as raised:
        EvaluationConfig.like_search(searched, {"data": "digits"})
    assert str(raised.value) == message
    with pytest.raises(SettingsError) as raised:
        hba.evaluate("digits", learning_rate_schedule=PLATEAU)
    assert str(raised.value) == message
    assert EvaluationConfig.like_search(searched, {"learning_rate_schedule": "step"}).learning_rate_schedule == "step"
