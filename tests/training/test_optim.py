"""SGD against its formula, and the learning rate schedules at known epochs."""

import math

import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import ReduceLROnPlateau

from hba.config.evaluation import EvaluationConfig
from hba.config.training import PLATEAU
from hba.training.optim import (
    OPTIMIZERS,
    Plateau,
    gradient_root,
    optimizer_for,
    scheduled,
)


def learning_rates(
    schedule: str,
    epochs: int,
    steps_per_epoch: int,
    learning_rate: float,
    warm_up_epochs: int = 0,
) -> list[float]:
    """The rate that each training step uses, and behind them the one after the last."""
    weight = nn.Parameter(torch.zeros(()))
    optimizer = OPTIMIZERS["sgd"]([weight], lr=learning_rate, weight_decay=0.0)
    lr_schedule = scheduled(
        optimizer, schedule, epochs * steps_per_epoch, warm_up_epochs * steps_per_epoch
    )
    weight.grad = torch.zeros(())
    rates = [float(lr_schedule.get_last_lr()[0])]
    for _ in range(epochs * steps_per_epoch):
        optimizer.step()
        lr_schedule.step()
        rates.append(float(lr_schedule.get_last_lr()[0]))
    return rates


both_ways = pytest.mark.parametrize("fused", [False, True])


@both_ways
def test_sgd_moves_by_nesterov_or_classical_momentum(fused: bool) -> None:
    for name, is_nesterov in (("sgd", True), ("sgd-classical", False)):
        weight = nn.Parameter(torch.tensor(2.0, dtype=torch.float64))
        optimizer = OPTIMIZERS[name](
            [weight], lr=0.3, weight_decay=0.1, fused=fused, foreach=not fused
        )
        velocity = 0.0
        expected = 2.0
        for _ in range(5):
            weight.grad = torch.tensor(-0.5, dtype=torch.float64)
            slope = -0.5 + 0.1 * expected
            velocity = 0.9 * velocity + slope
            expected -= 0.3 * (slope + 0.9 * velocity if is_nesterov else velocity)
            optimizer.step()
            assert weight.item() == pytest.approx(expected, rel=1e-12), name


@both_ways
def test_adamw_is_that_of_its_paper(fused: bool) -> None:
    """Loshchilov and Hutter 2019, Algorithm 2, in plain numbers: the decay is no part
    of the averages.
    """
    weight = nn.Parameter(torch.tensor([2.0, -0.3], dtype=torch.float64))
    optimizer = OPTIMIZERS["adamw"]([weight], lr=0.3, weight_decay=0.1, fused=fused)
    assert gradient_root(optimizer, weight).isinf().all(), "before its first step"
    expected = [2.0, -0.3]
    mean = [0.0, 0.0]
    mean_square = [0.0, 0.0]
    for step, gradients in enumerate(
        [(-0.5, 1e-3), (0.7, 2e-3), (0.1, 0.0), (-2.0, -1e-4), (0.2, 5.0)], start=1
    ):
        weight.grad = torch.tensor(gradients, dtype=torch.float64)
        for i, gradient in enumerate(gradients):
            mean[i] = 0.9 * mean[i] + 0.1 * gradient
            mean_square[i] = 0.999 * mean_square[i] + 0.001 * gradient**2
            root = math.sqrt(mean_square[i] / (1 - 0.999**step)) + 1e-8
            expected[i] -= 0.3 * (mean[i] / (1 - 0.9**step) / root + 0.1 * expected[i])
        optimizer.step()
        assert weight.tolist() == pytest.approx(expected, rel=1e-9)
        roots = [math.sqrt(moment / (1 - 0.999**step)) + 1e-8 for moment in mean_square]
        assert gradient_root(optimizer, weight).tolist() == pytest.approx(
            roots, rel=1e-9
        )


@pytest.mark.parametrize("optimizer", ["sgd", "sgd-classical", "adamw"])
def test_a_layer_may_get_its_first_gradient_later_also_with_a_fused_optimizer(
    optimizer: str,
) -> None:
    """As with LayerDrop, or a layer that is unfrozen. In float64, a fused optimizer
    ends where another one does.
    """
    settings = {
        "data": "digits",
        "model": "wrn-10-1",
        "optimizer": optimizer,
        "device": "cpu",
    }
    ends = []
    for fast in (False, True):
        weights = [
            nn.Parameter(torch.tensor([2.0, 1.0], dtype=torch.float64))
            for _ in range(2)
        ]
        tested_optimizer, _ = optimizer_for(
            EvaluationConfig.make({**settings, "fast": fast}),
            weights,
            steps_per_epoch=10,
        )
        for step in range(4):
            for weight in weights[: 1 + step // 2]:
                weight.grad = torch.tensor([0.5, -0.25 * step], dtype=torch.float64)
            tested_optimizer.step()
            assert torch.equal(weights[1], torch.tensor([2.0, 1.0])) == (step < 2)
        ends.append(torch.cat(tuple(weights)).tolist())
    assert ends[1] == pytest.approx(ends[0], rel=1e-12)


SHARES = {
    "cosine": lambda step, n_steps: (1 + math.cos(math.pi * step / n_steps)) / 2,
    "step": (
        lambda step, n_steps: (
            0.1 ** sum(step >= ninths * n_steps // 9 for ninths in (3, 6, 8))
        )
    ),
    "step-fifth": (
        lambda step, n_steps: (
            0.2 ** sum(step >= tenths * n_steps // 10 for tenths in (3, 6, 9))
        )
    ),
    "constant": lambda step, n_steps: 1.0,
}
"""By schedule, what is left of the rate behind so many steps."""


@pytest.mark.parametrize("schedule", SHARES)
@pytest.mark.filterwarnings("error")
def test_a_warm_up_rises_by_equal_steps_and_the_schedule_takes_the_rest(
    schedule: str,
) -> None:
    steps_per_epoch = 5
    n_warm = 15
    n_steps = 100
    rates = learning_rates(
        schedule,
        n_steps // steps_per_epoch,
        steps_per_epoch,
        0.2,
        n_warm // steps_per_epoch,
    )
    rise = [0.2 * (step + 1) / (n_warm + 1) for step in range(n_warm)]
    left = n_steps - n_warm
    fall = [0.2 * SHARES[schedule](step, left) for step in range(left + 1)]
    assert rates == pytest.approx(rise + fall, abs=1e-12)


def make_plateau(patience: int, warm_up_steps: int = 0) -> Plateau:
    groups = [{"params": [nn.Parameter(torch.zeros(1))]} for _ in range(2)]
    scheduler = scheduled(
        OPTIMIZERS["sgd"](groups, lr=0.4, weight_decay=0.0),
        PLATEAU,
        10**6,
        warm_up_steps,
        patience,
    )
    assert isinstance(scheduler, Plateau)
    return scheduler


def rate_of(schedule: Plateau) -> float:
    rates = {float(group["lr"]) for group in schedule.optimizer.param_groups}
    assert rates == {float(rate) for rate in schedule.get_last_lr()}
    (rate,) = rates
    return rate


@pytest.mark.parametrize("patience", [1, 5])
def test_it_is_that_of_pytorch_whose_patience_counts_one_epoch_less(
    patience: int,
) -> None:
    schedule = make_plateau(patience)
    other = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.4)
    reference = ReduceLROnPlateau(
        other, factor=0.1, patience=patience - 1, threshold=0.0, eps=0.0
    )
    for loss in torch.rand(
        80, generator=torch.Generator().manual_seed(patience)
    ).tolist():
        for _ in range(3):
            schedule.optimizer.step()
            schedule.step()
        schedule.observe(loss)
        reference.step(loss)
        assert rate_of(schedule) == pytest.approx(float(other.param_groups[0]["lr"]))
    assert schedule.drops > 5


def test_a_warm_up_rises_by_equal_steps_and_drops_count_in_it_too() -> None:
    schedule = make_plateau(patience=1, warm_up_steps=4)
    rates = []
    for number in range(7):
        rates.append(rate_of(schedule))
        schedule.optimizer.step()
        schedule.step()
        if number == 1:
            schedule.observe(1.0)
            schedule.observe(1.0)
    assert rates == pytest.approx(
        [0.4 * 1 / 5, 0.4 * 2 / 5, 0.04 * 3 / 5, 0.04 * 4 / 5, 0.04, 0.04, 0.04]
    )
