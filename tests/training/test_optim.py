"""SGD against its formula, and the learning rate schedules at known epochs."""

import math

import pytest
import torch
from each import each
from torch import nn

from hba.config.training import SGD, SGD_CLASSICAL
from hba.policy_search.config import SearchConfig
from hba.training.optim import (
    LEARNING_RATE_SCHEDULES,
    OPTIMIZERS,
    gradient_root,
    optimizer_for,
    preconditioned,
    scheduled,
)


def learning_rates(
    schedule: str, epochs: int, steps_per_epoch: int, learning_rate: float, warm_up_epochs: int = 0
) -> list[float]:
    """The rate that each training step uses, and behind them the one after the last."""
    weight = nn.Parameter(torch.zeros(()))
    optimizer = OPTIMIZERS["sgd"]([weight], lr=learning_rate, weight_decay=0.0)
    lr_schedule = scheduled(optimizer, schedule, epochs * steps_per_epoch, warm_up_epochs * steps_per_epoch)
    weight.grad = torch.zeros(())
    rates = [float(lr_schedule.get_last_lr()[0])]
    for _ in range(epochs * steps_per_epoch):
        optimizer.step()
        lr_schedule.step()
        rates.append(float(lr_schedule.get_last_lr()[0]))
    return rates


both_ways = pytest.mark.parametrize("fused", [False, True])


@both_ways
def test_the_optimizer_is_nesterov_sgd(fused: bool) -> None:
    weight = nn.Parameter(torch.tensor(2.0, dtype=torch.float64))
    optimizer = OPTIMIZERS["sgd"]([weight], lr=0.3, weight_decay=0.1, fused=fused, foreach=not fused)
    velocity, expected = 0.0, 2.0
    for _ in range(5):
        weight.grad = torch.tensor(-0.5, dtype=torch.float64)
        slope = -0.5 + 0.1 * expected
        velocity = 0.9 * velocity + slope
        expected -= 0.3 * (slope + 0.9 * velocity)
        optimizer.step()
        assert weight.item() == pytest.approx(expected, rel=1e-12)


@both_ways
def test_classical_momentum_moves_by_the_velocity_alone(fused: bool) -> None:
    weight = nn.Parameter(torch.tensor(2.0, dtype=torch.float64))
    optimizer = OPTIMIZERS["sgd-classical"]([weight], lr=0.3, weight_decay=0.1, fused=fused, foreach=not fused)
    velocity, expected = 0.0, 2.0
    for _ in range(5):
        weight.grad = torch.tensor(-0.5, dtype=torch.float64)
        velocity = 0.9 * velocity - 0.5 + 0.1 * expected
        expected -= 0.3 * velocity
        optimizer.step()
        assert weight.item() == pytest.approx(expected, rel=1e-12)


@each("name", [SGD, SGD_CLASSICAL])
def test_steps_of_all_weights_together_are_those_of_each_to_the_bit(name: str) -> None:
    generator = torch.Generator().manual_seed(0)
    starts = [torch.randn(shape, generator=generator) for shape in ((7, 3, 3, 3), (33,), ())]
    weights = [[nn.Parameter(one.clone()) for one in starts] for _ in range(2)]
    optimizers = [
        OPTIMIZERS[name](weights[0], lr=0.3, weight_decay=0.005),
        torch.optim.SGD(weights[1], lr=0.3, momentum=0.9, nesterov=name == SGD, weight_decay=0.005, foreach=False),
    ]
    for _ in range(20):
        for one, other in zip(*weights, strict=True):
            one.grad = torch.randn(one.shape, generator=generator)
            other.grad = one.grad.clone()
        for optimizer in optimizers:
            optimizer.step()
    assert all(torch.equal(one, other) for one, other in zip(*weights, strict=True))


@each("name", [SGD, SGD_CLASSICAL])
def test_a_fused_step_takes_weights_that_have_their_first_gradient_later(name: str) -> None:
    """As of a layer that is left out of some steps; one that is frozen has no momentum."""
    generator = torch.Generator().manual_seed(0)
    starts = [torch.randn(3, 5, generator=generator, dtype=torch.float64) for _ in range(3)]
    weights = [[nn.Parameter(one.clone()) for one in starts] for _ in range(2)]
    weights[0][2].requires_grad_(False)
    settings = SearchConfig.make({"optimizer": name, "weight_decay": 0.01, "fast": True})
    fused, _ = optimizer_for(settings, weights[0], 10)
    assert fused.defaults["fused"]
    plain = torch.optim.SGD(
        weights[1], settings.learning_rate, momentum=0.9, nesterov=name == SGD, weight_decay=0.01, foreach=False
    )
    for step in range(6):
        for number in range(2):
            gradient = torch.randn(3, 5, generator=generator, dtype=torch.float64)
            weights[0][number].grad = weights[1][number].grad = gradient if number == 0 or step % 3 == 2 else None
        for optimizer in (fused, plain):
            optimizer.step()
    for one, other in zip(*weights, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
    assert not fused.state[weights[0][2]]


@both_ways
def test_adamw_is_that_of_its_paper(fused: bool) -> None:
    """Loshchilov and Hutter 2019, Algorithm 2, in plain numbers: the decay is no part of the averages."""
    weight = nn.Parameter(torch.tensor([2.0, -0.3], dtype=torch.float64))
    optimizer = OPTIMIZERS["adamw"]([weight], lr=0.3, weight_decay=0.1, fused=fused)
    assert gradient_root(optimizer, weight).isinf().all(), "before its first step"
    expected, mean, mean_square = [2.0, -0.3], [0.0, 0.0], [0.0, 0.0]
    for step, gradients in enumerate([(-0.5, 1e-3), (0.7, 2e-3), (0.1, 0.0), (-2.0, -1e-4), (0.2, 5.0)], start=1):
        weight.grad = torch.tensor(gradients, dtype=torch.float64)
        for i, gradient in enumerate(gradients):
            mean[i] = 0.9 * mean[i] + 0.1 * gradient
            mean_square[i] = 0.999 * mean_square[i] + 0.001 * gradient**2
            root = math.sqrt(mean_square[i] / (1 - 0.999**step)) + 1e-8
            expected[i] -= 0.3 * (mean[i] / (1 - 0.9**step) / root + 0.1 * expected[i])
        optimizer.step()
        assert weight.tolist() == pytest.approx(expected, rel=1e-9)
        roots = [math.sqrt(one / (1 - 0.999**step)) + 1e-8 for one in mean_square]
        assert gradient_root(optimizer, weight).tolist() == pytest.approx(roots, rel=1e-9)


def test_the_root_of_rmsprop_is_what_it_divides_by() -> None:
    weight = nn.Parameter(torch.tensor([2.0, -0.3], dtype=torch.float64))
    optimizer = torch.optim.RMSprop([weight], lr=0.3)
    assert gradient_root(optimizer, weight).isinf().all(), "before its first step"
    mean_square = [0.0, 0.0]
    for gradients in ((-0.5, 1e-3), (0.7, 2e-3), (0.1, 0.0)):
        mean_square = [0.99 * one + 0.01 * gradient**2 for one, gradient in zip(mean_square, gradients, strict=True)]
        weight.grad, before = torch.tensor(gradients, dtype=torch.float64), weight.detach().clone()
        optimizer.step()
        roots = [math.sqrt(one) + 1e-8 for one in mean_square]
        assert gradient_root(optimizer, weight).tolist() == pytest.approx(roots, rel=1e-9)
        moved = (before - weight.detach()).tolist()
        assert moved == pytest.approx([0.3 * one / root for one, root in zip(gradients, roots, strict=True)])


def test_each_optimizer_scales_a_gradient_as_it_would_for_its_step() -> None:
    gradients = [torch.tensor([3.0, -4.0])]
    for name, expected in ((SGD, [3.0, -4.0]), (SGD_CLASSICAL, [3.0, -4.0]), ("adamw", [3 / 0.5, -4 / 2])):
        weight = nn.Parameter(torch.zeros(2))
        optimizer = OPTIMIZERS[name]([weight], lr=0.1, weight_decay=0.0)
        weight.grad = torch.tensor([0.5, -2.0])
        optimizer.step()
        (scaled,) = preconditioned(optimizer, [weight], gradients)
        assert scaled.tolist() == pytest.approx(expected, rel=1e-5)


SHARES = {
    "cosine": lambda step, of: (1 + math.cos(math.pi * step / of)) / 2,
    "step": lambda step, of: 0.1 ** sum(step >= ninths * of // 9 for ninths in (3, 6, 8)),
    "step-fifth": lambda step, of: 0.2 ** sum(step >= tenths * of // 10 for tenths in (3, 6, 9)),
    "constant": lambda step, of: 1.0,
}
"""By schedule, what is left of the rate behind so many steps."""


@each("schedule", LEARNING_RATE_SCHEDULES)
@pytest.mark.filterwarnings("error")
def test_a_warm_up_rises_by_equal_steps_and_the_schedule_takes_the_rest(schedule: str) -> None:
    steps_per_epoch, n_warm, n_steps = 5, 15, 100
    rates = learning_rates(schedule, n_steps // steps_per_epoch, steps_per_epoch, 0.2, n_warm // steps_per_epoch)
    rise = [0.2 * (step + 1) / (n_warm + 1) for step in range(n_warm)]
    left = n_steps - n_warm
    fall = [0.2 * SHARES[schedule](step, left) for step in range(left + 1)]
    assert rates == pytest.approx(rise + fall, abs=1e-12)


@each(
    ("epoch", "rate"),
    [(0, 0.1), (89, 0.1), (90, 0.01), (179, 0.01), (180, 0.001), (239, 0.001), (240, 0.0001), (269, 0.0001)],
)
def test_the_step_schedule_drops_at_the_papers_epochs_90_180_and_240_of_270(epoch: int, rate: float) -> None:
    steps_per_epoch = 4
    rates = learning_rates("step", epochs=270, steps_per_epoch=steps_per_epoch, learning_rate=0.1)
    of_epoch = rates[steps_per_epoch * epoch :][:steps_per_epoch]
    assert of_epoch == pytest.approx([rate] * steps_per_epoch)


@each(
    ("epoch", "rate"),
    [(0, 0.03), (59, 0.03), (60, 0.006), (119, 0.006), (120, 0.0012), (179, 0.0012), (180, 0.00024), (199, 0.00024)],
)
def test_the_schedule_of_fifths_drops_at_delta_stns_epochs_60_120_and_180_of_200(epoch: int, rate: float) -> None:
    steps_per_epoch = 4
    rates = learning_rates("step-fifth", epochs=200, steps_per_epoch=steps_per_epoch, learning_rate=0.03)
    of_epoch = rates[steps_per_epoch * epoch :][:steps_per_epoch]
    assert of_epoch == pytest.approx([rate] * steps_per_epoch)
